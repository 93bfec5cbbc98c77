"""The node agent by itself: how soon a process runs, how fast output flows, and what memory it takes.

    python benchmarks/bench_agent.py [--starts 20] [--agents 7]

*Process runs* is the time from the server's "go" reaching the runtime to the first instruction of the
job's own command (`date`): making folders and limits, starting the minder, starting the command. Memory
is of real agents connected to a small real server on the loopback, with nothing to do; PSS counts what
processes share once.
"""

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "platform"))

from tests.agent.builders import AgentProcess, make_part, make_replica, shell
from tests.agent.fake_server import FakeServer
from tests.agent.runtime_node import RuntimeNode

OUTPUT_BYTES = 512 * 1024 * 1024


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--agents", type=int, default=7)
    options = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        await measure_starts(Path(folder), options.starts)
        await measure_output(Path(folder) / "output")
        await measure_memory(Path(folder), options.agents)


async def measure_starts(folder: Path, starts: int) -> None:
    """Measure the cases in turns, so that what else the machine does is spread over all of them."""
    cases = {"nothing": {"sandbox": "off"}, "limits": {"sandbox": "off"}, "limits and sandbox": {}}
    nodes = {name: RuntimeNode(folder / name.replace(" ", "-"), **case) for name, case in cases.items()}
    nodes["nothing"].runtime.cgroups.remove()
    nodes["nothing"].runtime.cgroups.folders = {}
    ran: dict[str, list[float]] = {name: [] for name in cases}
    ended: dict[str, list[float]] = {name: [] for name in cases}
    for attempt in range(1, starts + 1):
        for name, node in nodes.items():
            command = make_replica("date", "+%s.%N", cpus=1.0, memory_bytes=2**28)
            asked = time.time()
            await node.run(make_part(command, attempt=attempt))
            ended[name].append(time.time() - asked)
            ran[name].append(float(node.text(attempt)) - asked)
    for name, node in nodes.items():
        enforced = ", ".join(kind for kind, is_on in node.runtime.isolation.items() if is_on)
        print(f"{name} ({enforced})")
        show("process runs", ran[name])
        show("its end is known", ended[name])
        await node.clean_up()


async def measure_output(folder: Path) -> None:
    node = RuntimeNode(folder)
    began = time.perf_counter()
    await node.run(make_part(shell(f"head -c {OUTPUT_BYTES} /dev/zero"), log_bytes=16 * 2**20))
    seconds = time.perf_counter() - began
    print(f"output through the minder: {OUTPUT_BYTES / seconds / 1e6:.0f} MB/s, the first 16 MiB of it kept")
    await node.clean_up()


async def measure_memory(folder: Path, count: int) -> None:
    async with FakeServer() as server:
        agents = [AgentProcess(folder, server.url, f"node-{number}") for number in range(count)]
        for agent in agents:
            await agent.start("--stop-jobs-on-exit")
        await server.until(lambda: len(server.sockets) == count)
        for agent in agents:
            await server.want(agent.configuration.node, make_part(shell("exec sleep 600")))
        for agent in agents:
            await server.until_state(agent.configuration.node, 1, "running")
        pids = [agent.process.pid for agent in agents if agent.process is not None]
        print(f"{count} agents: {memory('Rss', pids):.1f} MB RSS, {memory('Pss', pids):.1f} MB PSS each")
        minders = [agent.minder_pid(1) for agent in agents]
        print(
            f"{count} minders: {memory('Rss', minders):.1f} MB RSS, {memory('Pss', minders):.1f} MB PSS each"
        )
        for agent in agents:
            await agent.end()


def memory(kind: str, pids: list[int]) -> float:
    """Return the mean over the processes, in MB."""

    def of(pid: int) -> int:
        found = re.search(rf"^{kind}:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        return int(found.group(1)) if found else 0

    return statistics.mean(of(pid) for pid in pids) * 1024 / 1e6


def show(what: str, seconds: list[float]) -> None:
    raw = " ".join(f"{value * 1e3:.0f}" for value in seconds)
    print(f"  {what}: median {statistics.median(seconds) * 1e3:.1f} ms; raw {raw}")


asyncio.run(main())
