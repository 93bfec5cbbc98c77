"""A GPU shared by its token: what a hand-over costs, how exact shares are, who gets an idle part.

    python benchmarks/bench_token_daemon.py [--windows 5] [--hand-overs 2000]

Real processes throughout: a token daemon, shims, and jobs on a simulated GPU that compute without an end.
Shares are processor time by control groups, over whole windows of 10 s after the first two, in which the
window fills. Where a machine has other work to do a job computes less than it may run, so the part of the
time in which it is not frozen is given beside it.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from socket import AF_UNIX, SOCK_SEQPACKET, socket

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nodeagent.messages import GpuPart
from nodeagent.metrics.jobs import JobMeter
from nodeagent.process.sharing import DAEMON
from nodeagent.tokens import WINDOW
from tests.agent.builders import make_part, python
from tests.agent.runtime_node import RuntimeNode

WINDOW_SECONDS = WINDOW / 1e6
#: Says every millisecond of processor time that it runs.
SPIN = """
import os, time
next_at = 0.0
while True:
    if time.process_time() >= next_at:
        os.write(1, b"%.5f\\n" % time.monotonic())
        next_at = time.process_time() + 0.001
"""
SLEEP = "import time; time.sleep(3600)"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--windows", type=int, default=5)
    arguments.add_argument("--hand-overs", type=int, default=2000)
    options = arguments.parse_args()
    print(describe_machine(), f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        hand_overs(Path(folder, "daemon"), options.hand_overs)
    for request, script, what in (
        ((300, 1000), SPIN, "alone, without a limit"),
        ((300, 600), SLEEP, "0.3, limit 0.6, beside an idle partner"),
        ((300, 1000), SPIN, "0.3 and 0.7, both computing"),
    ):
        with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
            partner = None if "alone" in what else script
            asyncio.run(share(Path(folder), options.windows, request, partner, what))


def hand_overs(path: Path, count: int) -> None:
    """Two clients that give the token back at once: from one's word to the other's grant."""
    daemon = subprocess.Popen([sys.executable, "-I", "-S", "-c", DAEMON, str(path)])
    try:
        lines = []
        for name in ("a", "b"):
            line = socket(AF_UNIX, SOCK_SEQPACKET)
            connect(line, path)
            line.send(json.dumps({"join": name, "request": 500, "limit": 1000}).encode())
            lines.append(line)
        ask, give_back = b'{"ask": true}', b'{"return": true}'
        seconds = []
        lines[0].send(ask)
        lines[0].recv(256)
        for number in range(count):
            holder, other = lines[number % 2], lines[1 - number % 2]
            other.send(ask)
            began = time.perf_counter()
            holder.send(give_back)
            other.recv(256)
            seconds.append(time.perf_counter() - began)
        print(
            f"hand-over by the daemon alone: median {statistics.median(seconds) * 1e6:.0f} us, "
            f"99th percentile {statistics.quantiles(seconds, n=100)[98] * 1e6:.0f} us, of {count}"
        )
    finally:
        daemon.kill()
        daemon.wait()


def connect(line: socket, path: Path) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            line.connect(str(path))
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


async def share(folder: Path, windows: int, first: tuple[int, int], partner: str | None, what: str) -> None:
    node = RuntimeNode(folder)
    node.renew_lease(3600.0)
    try:
        parts = [GpuPart(request=first[0], limit=first[1])]
        scripts = [SPIN]
        if partner is not None:
            parts.append(GpuPart(request=1000 - first[0], limit=1000))
            scripts.append(partner)
        attempts = list(range(1, len(parts) + 1))
        for attempt, part, script in zip(attempts, parts, scripts, strict=True):
            replica = python(script, gpu_indexes=(0,), gpu_part=part)
            await node.start(make_part(replica, attempt=attempt, log_bytes=2**30))
        await asyncio.sleep(2 * WINDOW_SECONDS)
        print(f"{what}:")
        began = time.monotonic()
        small = [await one_window(node, attempts) for _ in range(windows)]
        if len(attempts) == 2 and partner == SPIN:
            error = max([abs(share - first[0] / 1000) for share in small])
            print(f"  fairness error: {error:.2%} of the GPU at most in a window, by the time not frozen")
            gaps(node, began)
    finally:
        await node.clean_up()


async def one_window(node: RuntimeNode, attempts: list[int]) -> float:
    """Measure a window; return the first one's share of the time in which somebody was not frozen."""
    meter = JobMeter(node.runtime.folder)
    before, platform_before, began = meter.measure(attempts), platform_seconds(node), time.monotonic()
    runs, looks = dict.fromkeys(attempts, 0), 0
    groups = {attempt: node.runtime.cgroups.group(f"attempt-{attempt}-rank-0") for attempt in attempts}
    while time.monotonic() < began + WINDOW_SECONDS:
        looks += 1
        for attempt, group in groups.items():
            runs[attempt] += not group.is_frozen()
        await asyncio.sleep(0.02)
    after, passed = meter.measure(attempts), time.monotonic() - began
    used = [
        (after[attempt, 0].cpu_seconds or 0.0) - (before[attempt, 0].cpu_seconds or 0.0)
        for attempt in attempts
    ]
    own = platform_seconds(node) - platform_before
    total = sum(used) or 1.0
    print(
        "  processor time "
        + " + ".join(f"{seconds:.2f}" for seconds in used)
        + f" of {passed:.2f} s; share "
        + " ".join(f"{seconds / total:.3f}" for seconds in used)
        + "; not frozen "
        + " ".join(f"{count / looks:.3f}" for count in runs.values())
        + f"; shims and daemon {own / passed:.2%} of a core"
    )
    return runs[attempts[0]] / (sum(runs.values()) or 1)


def platform_seconds(node: RuntimeNode) -> float:
    """Processor time of the shims and the daemon themselves."""
    shims = [shim.pid for shim in node.runtime.shims.values()]
    daemons = [
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if command_line(pid).endswith(str(node.runtime.shared_gpus.folder / "0"))
    ]
    ticks = 0
    for pid in [*shims, *daemons]:
        # Without their children, which are the jobs.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
    except OSError:
        return ""


def gaps(node: RuntimeNode, since: float) -> None:
    """From the last sign of one to the first of the other: a millisecond of this is the sign's own."""
    merged = sorted(
        (float(line), attempt)
        for attempt in (1, 2)
        for line in node.text(attempt).splitlines(keepends=True)
        if line.endswith("\n") and float(line) > since
    )
    found = [two[0] - one[0] for one, two in pairwise(merged) if one[1] != two[1]]
    if len(found) < 2:
        print(f"  {len(found)} hand-overs between the jobs: too few to say what one costs")
        return
    print(
        f"  hand-over between the jobs: median {statistics.median(found) * 1e3:.1f} ms, "
        f"95th percentile {statistics.quantiles(found, n=20)[18] * 1e3:.1f} ms, of {len(found)}"
    )


if __name__ == "__main__":
    main()
