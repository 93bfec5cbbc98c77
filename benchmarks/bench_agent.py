"""The node agent by itself: how soon a process runs, how fast output flows, and what memory it takes.

    python benchmarks/bench_agent.py [--starts 20] [--agents 7] [--jobs 8] [--seconds 60]

*Process runs* is the time from the server's "go" reaching the runtime to the first instruction of the
job's own command (`date`): making folders and limits, starting the shim, starting the command. Memory
is of real agents connected to a small real server on the loopback, with nothing to do; PSS counts what
processes share once. Then one agent with so many jobs, each of which tells of its progress twice a second and
writes a line of output each time: its CPU time over so many seconds, its shims' beside it, and its memory.
"""

import argparse
import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "platform"))

from nodeagent.process import sandbox
from tests.agent.builders import AgentProcess, make_part, make_replica, python, shell
from tests.agent.fake_server import FakeServer
from tests.agent.runtime_node import RuntimeNode

BUSY = """
import os, time
for step in range(10**6):
    with open(os.environ["ALLOT_PROGRESS"], "a") as progress:
        progress.write('{"step": %d, "loss": 0.5}' % step + chr(10))
    print("step", step)
    time.sleep(0.5)
"""
OUTPUT_BYTES = 512 * 1024 * 1024


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--agents", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        await measure_starts(Path(folder), options.starts)
        await measure_output(Path(folder) / "output")
        await measure_memory(Path(folder), options.agents)
        await measure_busy(Path(folder) / "busy", options.jobs, options.seconds)


async def measure_starts(folder: Path, starts: int) -> None:
    """Measure the cases in turns, so that what else the machine does is spread over all of them."""
    os.chmod(folder, 0o711)  # Jobs are users of their own, who have to get to their folders.
    cases = {"nothing": {"sandbox": "off"}, "limits": {"sandbox": "off"}, "limits and sandbox": {}}
    nodes = {name: RuntimeNode(folder / name.replace(" ", "-"), **case) for name, case in cases.items()}
    bubblewraps, sandbox.bubblewraps = sandbox.bubblewraps, lambda: []
    cases["limits and Landlock"] = {}
    nodes["limits and Landlock"] = RuntimeNode(folder / "limits-and-landlock")
    sandbox.bubblewraps = bubblewraps
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
    print(f"output through the shim: {OUTPUT_BYTES / seconds / 1e6:.0f} MB/s, the first 16 MiB of it kept")
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
        shims = [agent.shim_pid(1) for agent in agents]
        print(f"{count} shims: {memory('Rss', shims):.1f} MB RSS, {memory('Pss', shims):.1f} MB PSS each")
        for agent in agents:
            await agent.end()


async def measure_busy(folder: Path, jobs: int, seconds: float) -> None:
    folder.mkdir()
    async with FakeServer() as server:
        # As a real server has it: a report each 5 s at least.
        server.lease_seconds, server.report_seconds = 30.0, 5.0
        agent = AgentProcess(folder, server.url)
        await agent.start("--stop-jobs-on-exit")
        await server.until(lambda: server.sockets)
        parts = [make_part(python(BUSY, gpu_indexes=()), attempt=number) for number in range(1, jobs + 1)]
        await server.want("node-1", *parts)
        for part in parts:
            await server.until_state("node-1", part.attempt, "running")
        assert agent.process is not None
        shims = [agent.shim_pid(part.attempt) for part in parts]
        before = cpu_seconds(agent.process.pid), sum(cpu_seconds(pid) for pid in shims)
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        took = time.perf_counter() - began
        own = (cpu_seconds(agent.process.pid) - before[0]) / took
        theirs = (sum(cpu_seconds(pid) for pid in shims) - before[1]) / took
        pids = [agent.process.pid]
        print(
            f"an agent with {jobs} jobs, {took:.0f} s: {own:.2%} of a core, its shims {theirs:.2%} together"
        )
        print(f"  {memory('Rss', pids):.1f} MB RSS, {memory('Pss', pids):.1f} MB PSS")
        await agent.end()


def cpu_seconds(pid: int) -> float:
    """Return the time on a CPU of the process, threads included, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
