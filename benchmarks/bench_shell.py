"""From a key to its echo through the whole chain of `allot exec`, and how much a session carries.

    python benchmarks/bench_shell.py JOB [--keys 500] [--megabytes 100]

The chain: this program, the server, the node's agent, `cat` on a terminal in the job, and back; ALLOT_TOKEN
or the last `allot login` says who. The bound, in the same run: the same keys to a `cat` on a local terminal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pty
import statistics
import sys
import time
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).resolve().parent.parent / "platform"),
    str(Path(__file__).resolve().parent),
]

from machine import describe_machine  # noqa: E402

from allot.credentials import Account, find_account  # noqa: E402
from allot.sessions import session  # noqa: E402
from nodeagent.frames import EXIT, INPUT  # noqa: E402

TERMINAL = {"type": "dumb", "rows": 24, "columns": 80}
KEY = b"k"


async def remote_echo_seconds(account: Account, job: int, keys: int) -> list[float]:
    # The terminal itself echoes each key; the line never ends, so `cat` says nothing.
    async with session(account, job, {"command": ["cat"], "terminal": TERMINAL}) as line:
        return [await _remote_echo(line) for _ in range(keys)]


async def _remote_echo(line) -> float:
    began = time.perf_counter()
    await line.send(INPUT + KEY)
    frame = await line.next()
    took = time.perf_counter() - began
    assert frame[1:] == KEY, frame
    await line.consumed(frame)
    return took


def local_echo_seconds(keys: int) -> list[float]:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat"])
    times = []
    try:
        for _ in range(keys):
            began = time.perf_counter()
            os.write(terminal, KEY)
            assert os.read(terminal, 99) == KEY
            times.append(time.perf_counter() - began)
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return times


async def megabytes_per_second(account: Account, job: int, megabytes: int) -> float:
    command = ["head", "-c", str(megabytes * 1_000_000), "/dev/zero"]
    async with session(account, job, {"command": command}) as line:
        began, received = time.perf_counter(), 0
        while (frame := await line.next())[:1] != EXIT:
            received += len(frame) - 1
            await line.consumed(frame)
        assert received >= megabytes * 1_000_000
        return megabytes / (time.perf_counter() - began)


def line_of(name: str, seconds: list[float]) -> str:
    p50, p99 = (statistics.quantiles(seconds, n=100)[percent - 1] * 1e3 for percent in (50, 99))
    return f"{name:8} p50 {p50:7.3f} ms   p99 {p99:7.3f} ms   n {len(seconds)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", type=int, help="a running job that the user may enter")
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    account = find_account()
    print(describe_machine())
    for run in range(1, options.runs + 1):
        print(f"run {run}")
        print(line_of("remote", asyncio.run(remote_echo_seconds(account, options.job, options.keys))))
        print(line_of("local", local_echo_seconds(options.keys)))
        speed = asyncio.run(megabytes_per_second(account, options.job, options.megabytes))
        print(f"output   {speed:7.1f} MB/s")


if __name__ == "__main__":
    main()
