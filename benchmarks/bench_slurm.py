"""An attempt started and stopped through Slurm and directly, by turns: how much of it is Slurm's own time.

    python benchmarks/bench_slurm.py [--runs 20]

Starts a Slurm of its own (munged, slurmctld, two slurmd, four made-up GPUs each; needs root and
scripts/slurm). Both runtimes are used as an agent uses them, without a server: prepare until ready, start
until running, stop until it has exited. Beside them, as a lower bound for preparing, `sbatch` of a script
that does nothing but write down the time. Clock: this machine's.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nodeagent.batch.polling import BatchPoller
from nodeagent.batch.runtime import BatchRuntime
from nodeagent.batch.slurm import SlurmSystem
from nodeagent.clock import boot_clock_seconds
from nodeagent.configuration import Slurm
from nodeagent.executor import Executor
from nodeagent.machine import AttemptExited, AttemptPrepared, AttemptStarted, Event
from nodeagent.process.runtime import ProcessRuntime
from tests.agent.builders import GPU_BYTES, make_configuration, make_part, shell
from tests.slurm.cluster import NODES, SlurmCluster, missing, slurm

LOOK_SECONDS = 0.001
LEASE_SECONDS = 30.0
RENEW_SECONDS = 0.2
#: Between runs, so that none meets the end of the one before.
QUIET_SECONDS = 0.5
STEPS = ("prepare -> ready", "start -> running", "stop -> exited")


class Node:
    """A runtime whose events are waited for."""

    def __init__(self, folder: Path, executor: Executor) -> None:
        self.seen: dict[tuple[type[Event], int], float] = {}
        self.runtime = executor(make_configuration(folder, node="n1"), self.note)
        self.renewing = asyncio.create_task(self.renew())

    def note(self, event: Event) -> None:
        if isinstance(event, AttemptPrepared | AttemptStarted | AttemptExited):
            self.seen[type(event), event.attempt] = time.monotonic()

    async def renew(self) -> None:
        while True:
            self.runtime.extend_lease(boot_clock_seconds() + LEASE_SECONDS, LEASE_SECONDS, ())
            await asyncio.sleep(RENEW_SECONDS)

    async def run(self, attempt: int) -> tuple[float, ...]:
        """Return how long each of STEPS took, in seconds."""
        desired = make_part(shell("exec sleep 600"), attempt=attempt)
        return (
            await self.seconds(AttemptPrepared, attempt, lambda: self.runtime.prepare(desired)),
            await self.seconds(AttemptStarted, attempt, lambda: self.runtime.start(desired)),
            await self.seconds(AttemptExited, attempt, lambda: self.runtime.stop(attempt, 5.0)),
        )

    async def seconds(self, kind: type[Event], attempt: int, do: Callable[[], None]) -> float:
        begun = time.monotonic()
        do()
        while (kind, attempt) not in self.seen:
            if (AttemptExited, attempt) in self.seen:
                raise RuntimeError(f"attempt {attempt} ended before it was {kind.__name__}")
            await asyncio.sleep(LOOK_SECONDS)
        return self.seen[kind, attempt] - begun


async def measure(folder: Path, cluster: SlurmCluster, runs: int) -> None:
    configuration = Slurm(partition="gpu", nodes=dict.fromkeys(NODES, ""), gpu_memory_bytes=GPU_BYTES)
    system = SlurmSystem(configuration)
    poller = BatchPoller(system, await system.nodes(), configuration.every_seconds)
    asking = asyncio.create_task(poller.keep_asking())
    through = Node(folder / "slurm", partial(BatchRuntime, poller=poller))
    directly = Node(folder / "directly", ProcessRuntime)
    taken: dict[str, list[tuple[float, ...]]] = {"through Slurm": [], "directly": []}
    alone = []
    for attempt in range(1, runs + 1):
        for name, node in (("through Slurm", through), ("directly", directly)):
            taken[name].append(await node.run(attempt))
            await asyncio.sleep(QUIET_SECONDS)
        alone.append(await asyncio.to_thread(sbatch_alone, cluster, folder / "began"))
        await asyncio.sleep(QUIET_SECONDS)
    for index, step in enumerate(STEPS):
        for name, rows in taken.items():
            report(f"{step}, {name}", [row[index] for row in rows])
    report("lower bound for preparing: sbatch -> the script's first command", alone)
    for task in (asking, through.renewing, directly.renewing):
        task.cancel()
    through.runtime.close()
    directly.runtime.close()


def sbatch_alone(cluster: SlurmCluster, began: Path) -> float:
    began.unlink(missing_ok=True)
    sent = time.time()
    cluster.command("sbatch", "-wn1", "--gres=gpu:1", "--output=/dev/null", f"--wrap=date +%s.%N > {began}")
    while not (began.exists() and began.read_text().endswith("\n")):
        time.sleep(LOOK_SECONDS)
    return float(began.read_text()) - sent


def report(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    print(
        f"{what}: median {statistics.median(ordered) * 1000:.0f} ms,"
        f" {ordered[0] * 1000:.0f} to {ordered[-1] * 1000:.0f} ms"
    )
    print("  raw, ms: " + " ".join(f"{one * 1000:.0f}" for one in seconds))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--runs", type=int, default=20)
    runs = arguments.parse_args().runs
    print(describe_machine())
    if why := missing():
        print(f"not measured: {why}")
        return
    load = Path("/proc/loadavg").read_text().split()[0]
    print(f"processes that ran or wanted to in the last minute: {load}")
    with (
        tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder,
        slurm(Path(folder) / "s") as cluster,
    ):
        os.environ |= cluster.environment
        print(cluster.command("sbatch", "--version").strip())
        asyncio.run(measure(Path(folder), cluster, runs))


if __name__ == "__main__":
    main()
