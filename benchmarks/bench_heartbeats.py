"""What the reports of many agents cost one web server, and how soon each is answered.

    python benchmarks/bench_heartbeats.py [--agents 250 500 1000] [--seconds 60] [--jobs 500]

Starts a platform of its own (`manage.py up --no-demo`) and simulates the agents in one asyncio process:
each has its node's token, a connection of its own that stays open, its wake-up socket, and reports by the
agent's own client at the interval that the server asks for, with readings of eight GPUs. `--jobs` are
submitted first: the agents say that they run. Processor time is that of the web server's process, of
PostgreSQL and of Redis, each as a share of one core; in the same run, as a bound, what an empty request
(GET /healthz) costs the same server. How long it takes to register them, one after the other while those
before report, is said as well.
"""

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "platform"))

from controlplane.embedded import ports
from nodeagent.client import Client, Refusal, Unreachable, stay_awake
from nodeagent.configuration import InventoryConfiguration, SimulatedGpu
from nodeagent.devices.inventory import Load, SimulatedDevices
from nodeagent.messages import PROTOCOL, DesiredState, Inventory, PartReport, Report
from tests.e2e.installation import Installation

GPUS = 8
MEMORY_BYTES = 16 * 2**30
SERVERS = ("web", "postgres", "redis")
EMPTY_REQUESTS = 500
STARTING_SECONDS = 300.0


@dataclass
class SimulatedAgent:
    """Says what a node agent would, without doing it."""

    node: str
    client: Client
    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    desired: DesiredState | None = None

    def __post_init__(self) -> None:
        gpus = tuple(SimulatedGpu(index=index, memory_bytes=MEMORY_BYTES) for index in range(GPUS))
        configured = InventoryConfiguration(kind="simulated", gpu_model="V100", gpus=gpus)
        self.devices = SimulatedDevices(self.node, configured)
        self.woken = asyncio.Event()

    async def run(self) -> None:
        socket = asyncio.create_task(stay_awake(self.client, self.woken.set, lambda _: None))
        try:
            while True:
                await self.report()
                wait = self.desired.report_seconds if self.desired else 1.0
                try:
                    async with asyncio.timeout(wait):
                        await self.woken.wait()
                except TimeoutError:
                    pass
        finally:
            socket.cancel()
            await self.client.close()

    async def report(self) -> None:
        self.woken.clear()
        desired = self.desired
        parts = tuple(
            PartReport(attempt=part.attempt, state="running" if part.go else "ready", master_port=29500)
            for part in (desired.parts if desired else ())
        )
        busy = range(GPUS) if parts else range(0)
        message = Report(
            protocol=PROTOCOL,
            boot=self.node,
            generation=desired.generation if desired else 0,
            parts=parts,
            inventory=self.inventory() if desired is None or desired.want_inventory else None,
            samples=self.devices.samples(dict.fromkeys(busy, Load(busy=0.9, memory_bytes=MEMORY_BYTES // 2))),
        )
        began = time.perf_counter()
        try:
            answer = await self.client.sync(message)
        except (Unreachable, Refusal) as error:
            self.errors.append(str(error)[:200])
            await asyncio.sleep(random.random())
            return
        self.seconds.append(time.perf_counter() - began)
        if {part.attempt: part.go for part in answer.parts} != {
            part.attempt: part.go for part in (desired.parts if desired else ())
        }:
            self.woken.set()  # As an agent does when the state of a part changes.
        self.desired = answer

    def inventory(self) -> Inventory:
        return Inventory(
            gpu_model="V100",
            gpus=self.devices.gpus(),
            cpus=64.0,
            memory_bytes=512 * 2**30,
            address="127.0.0.1",
            agent_version="simulated",
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agents", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--seconds", type=float, default=60.0, help="measured, for each number of agents")
    parser.add_argument("--jobs", type=int, default=0, help="of one GPU, running all the time")
    options = parser.parse_args()
    print(describe_machine())
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder:
        platform = Installation(home=Path(folder) / "home", port=ports.pick(), settings={})
        try:
            platform.start("--no-demo")
            platform.sign_in()
            measure_empty(platform)
            asyncio.run(measure(platform, sorted(options.agents), options.seconds, options.jobs))
        finally:
            platform.stop()


def measure_empty(platform: Installation) -> None:
    before, began = processor_seconds(platform), time.perf_counter()
    with httpx.Client(base_url=platform.url) as client:
        for _ in range(EMPTY_REQUESTS):
            client.get("/healthz").raise_for_status()
    wall = time.perf_counter() - began
    spent = (processor_seconds(platform)["web"] - before["web"]) / EMPTY_REQUESTS
    print(f"bound: an empty request costs the web server {spent * 1e3:.2f} ms of processor time")
    print(f"       ({EMPTY_REQUESTS / wall:.0f} /s from one client)")


async def measure(platform: Installation, counts: list[int], seconds: float, jobs: int) -> None:
    agents: list[SimulatedAgent] = []
    tasks: list[asyncio.Task[None]] = []
    for count in counts:
        known, began = len(agents), time.perf_counter()
        while len(agents) < count:
            name = f"n{len(agents):04}"
            body = {"name": name, "rack": f"rack-{len(agents) // 32}"}
            token = (await asyncio.to_thread(platform.call, "POST", "nodes", body))["token"]
            agents.append(SimulatedAgent(name, Client(platform.url, token)))
            tasks.append(asyncio.create_task(agents[-1].run()))
        # All have told their inventory, and report in their rhythm.
        end = time.monotonic() + STARTING_SECONDS
        while not all(agent.desired and not agent.desired.want_inventory for agent in agents):
            assert time.monotonic() < end, "not all agents have been answered"
            assert not any(task.done() for task in tasks), "an agent has ended"
            await asyncio.sleep(0.2)
        took = time.perf_counter() - began
        print(f"{count - known} more agents were registered, and known, after {took:.0f} s")
        if jobs:
            await asyncio.to_thread(submit, platform, jobs)
            jobs = 0
        await asyncio.sleep(2 * (agents[0].desired.report_seconds if agents[0].desired else 5.0))
        await measure_steady(platform, agents, seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def measure_steady(platform: Installation, agents: list[SimulatedAgent], seconds: float) -> None:
    for agent in agents:
        agent.seconds, agent.errors = [], []
    own = psutil.Process()
    before, mine, began = processor_seconds(platform), own.cpu_times(), time.perf_counter()
    await asyncio.sleep(seconds)
    wall = time.perf_counter() - began
    spent = {name: value - before[name] for name, value in processor_seconds(platform).items()}
    mine_spent = sum(own.cpu_times()[:2]) - sum(mine[:2])
    took = sorted(value for agent in agents for value in agent.seconds)
    errors = [error for agent in agents for error in agent.errors]
    running = sum(len(agent.desired.parts) for agent in agents if agent.desired)
    print(f"{len(agents)} agents, {running} jobs on them: {len(took) / wall:.0f} reports/s over {wall:.0f} s")
    print(
        f"  answered after: median {statistics.median(took) * 1e3:.1f} ms, "
        f"p99 {took[int(len(took) * 0.99)] * 1e3:.1f} ms, longest {took[-1] * 1e3:.0f} ms; "
        f"{len(errors)} errors"
    )
    for error, times in Counter(errors).most_common(3):
        print(f"  {times} times: {error}")
    shares = ", ".join(f"{name} {value / wall:.0%}" for name, value in spent.items())
    print(f"  of one core: {shares} (this program {mine_spent / wall:.0%})")
    print(f"  a report costs the web server {spent['web'] / len(took) * 1e3:.2f} ms of processor time")


def submit(platform: Installation, jobs: int) -> None:
    platform.call("POST", "tenants", {"name": "vision"})
    members = [{"tenant": "vision", "weight": 1}]
    body = {"name": "research", "guaranteed": {"V100": jobs}, "members": members}
    platform.call("POST", "virtual-clusters", body)
    spec = {"name": "steady", "gpus": 1, "command": ["sleep", "3600"]}
    for start in range(0, jobs, 1000):
        wanted = min(1000, jobs - start)
        platform.call("POST", "jobs/bulk", {"tenant": "vision", "jobs": [spec] * wanted})


def processor_seconds(platform: Installation) -> dict[str, float]:
    """Return what each server has used so far, its children that live included."""
    used = {}
    for name in SERVERS:
        parent = psutil.Process(platform.pid_of(name))
        used[name] = 0.0
        for process in [parent, *parent.children(recursive=True)]:
            times = process.cpu_times()
            used[name] += times.user + times.system
            if process == parent:
                used[name] += times.children_user + times.children_system
    return used


if __name__ == "__main__":
    main()
