"""Time the simulator on all usable Philly jobs, and its cost as clusters and queues grow.

    python benchmarks/bench_simulate.py [--policies fifo tiresias] [--clusters p100=2496:8 p100=1200:8]
                                        [--runs 1] [--limit N] [--scaling [--plot FILE]]

*Philly*: the 92,719 jobs of shared/data/traces/philly/philly_jobs_merged.csv with a round a minute, each run
in a process of its own. Two clusters: one of the size of Philly's (2,496 GPUs; hardly anyone waits), and one
of half that, in which thousands of jobs wait. Printed: processor seconds of the run (reading the file comes
on top and is printed too), rounds, peak memory of the process, and the mean job completion time, so that a
run that is fast because it does something else is noticed.

*Scaling* (--scaling): processor time of a round for clusters of 100 to 100,000 GPUs that are kept full, and
for queues of 100 to 100,000 jobs on 1,000 GPUs; the exponent between neighbours is printed (1 is linear).

There is no rival to run beside it: the published simulators need data that is not to be had, or Python 2.
The floor printed in the same run is the time to push and pop every arrival and end through a heap.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from pathlib import Path

from machine import describe_machine

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "platform")]

from scheduler.core.model.snapshot import Job, JobId, Task  # noqa: E402
from scheduler.core.sim.engine import Engine  # noqa: E402
from scheduler.core.sim.workload import Arrival, Truth, Workload  # noqa: E402
from scheduler.simulation.clusters import parse_cluster  # noqa: E402
from scheduler.simulation.experiment import Experiment  # noqa: E402
from scheduler.simulation.joining import join  # noqa: E402
from scheduler.simulation.sweep import Case, prepare, run_case  # noqa: E402

TRACE = ROOT.parent / "shared" / "data" / "traces" / "philly" / "philly_jobs_merged.csv"


def philly(cluster: str, policy: str, limit: int | None) -> None:
    """Run one policy in this process, which is a new one: so that its memory is its own."""
    case = Case(cluster=cluster, trace=str(TRACE), format="philly", policy=policy, limit=limit)
    began = time.process_time()
    prepare(case)
    read = time.process_time() - began
    result = run_case(case)
    ended = [record for record in result.jobs if record.ended_at is not None]
    jct = sum((record.ended_at or 0) - record.submitted_at for record in ended) / max(1, len(ended))
    most = max(sample.most_waiting_jobs for sample in result.samples)
    print(
        f"{cluster:<12} {policy:<24} {result.elapsed_seconds:8.1f} s  {result.rounds:7,} rounds"
        f"  {1e3 * result.elapsed_seconds / result.rounds:6.2f} ms/round  {len(ended):7,} ended"
        f"  mean JCT {jct:9.0f} s"
        f"  at most {most:6,} wait  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:5.0f} MiB"
        f"  read {read:.1f} s {result.cut_short}",
        flush=True,
    )


def floor(events: int) -> float:
    dice = random.Random(0)
    instants = [dice.random() for _ in range(events)]
    began = time.process_time()
    heap: list[tuple[float, int]] = []
    for number, instant in enumerate(instants):
        heappush(heap, (instant, number))
    while heap:
        heappop(heap)
    return time.process_time() - began


def crowd(gpus: int, waiting: int, seed: int = 0) -> Workload:
    """Jobs that fill the cluster, and a queue; the ends of some make the rounds."""
    dice = random.Random(seed)
    arrivals: list[Arrival] = []

    def add(at: float, size: int, seconds: float) -> None:
        number = len(arrivals) + 1
        job = Job(
            id=JobId(number), tenant=f"t{number % 20}", virtual_cluster="cluster", submitted_at=at,
            tasks=(Task(replicas=1, gpus=size),), estimate_seconds=seconds, time_limit_seconds=2 * seconds,
        )  # fmt: skip
        arrivals.append(Arrival(job=job, truth=Truth(work_seconds=seconds)))

    left = gpus
    while left > 0:
        size = min(left, dice.choice((1, 1, 2, 4, 8)))
        add(0.0, size, dice.uniform(3_000, 30_000))
        left -= size
    for _ in range(waiting):
        add(0.0, dice.choice((1, 1, 2, 4, 8)), dice.uniform(3_000, 30_000))
    return Workload(name=f"{gpus} GPUs, {waiting} waiting", arrivals=tuple(arrivals))


def cost_of_a_round(gpus: int, waiting: int, policy: str, rounds: int = 60) -> float:
    cluster, workload = join(parse_cluster(f"v100={gpus}:8"), crowd(gpus, waiting))
    experiment = Experiment(cluster=cluster, workload=workload, policy=policy, round_seconds=60.0)
    engine = Engine(experiment.facts(), workload.arrivals, stopwatch=time.process_time)
    marks: list[float] = []

    def enough(engine: Engine) -> bool:
        # The first round places everyone; what follows is what a round costs day in, day out.
        marks.append(time.process_time())
        return len(marks) > rounds

    engine.run(until=enough)
    return (marks[-1] - marks[0]) / (len(marks) - 1)


def scaling(policies: Sequence[str], plot: Path | None) -> None:
    curves: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for policy in policies:
        for what, points in (
            ("GPUs, all busy, 100 jobs waiting", [(n, 100) for n in (100, 1_000, 10_000, 100_000)]),
            ("waiting jobs, 1,000 GPUs", [(1_000, n) for n in (100, 1_000, 10_000, 100_000)]),
        ):
            print(f"\n{policy}: a round by {what}")
            curve = curves[what, policy] = []
            for gpus, waiting in points:
                size = gpus if what.startswith("GPUs") else waiting
                seconds = cost_of_a_round(gpus, waiting, policy, 60 if size < 100_000 else 20)
                curve.append((size, seconds))
                print(f"  {size:>8,}  {1e3 * seconds:9.2f} ms  {_exponent(curve)}", flush=True)
    if plot is not None:
        draw(curves, plot)


def _exponent(curve: Sequence[tuple[int, float]]) -> str:
    if len(curve) < 2:
        return ""
    (before, less), (size, more) = curve[-2:]
    return f"exponent {math.log(more / less) / math.log(size / before):.2f}"


def draw(curves: Mapping[tuple[str, str], Sequence[tuple[int, float]]], path: Path) -> None:
    """Plot the cost of a round on logarithmic axes, with a line of slope 1 to compare."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    axes_of = sorted({what for what, _ in curves})
    figure, axes = pyplot.subplots(1, len(axes_of), figsize=(9, 3.6), sharey=True, layout="constrained")
    for what, here in zip(axes_of, axes, strict=True):
        for (kind, policy), curve in curves.items():
            if kind == what:
                here.loglog(
                    *zip(*((size, 1e3 * seconds) for size, seconds in curve), strict=True), "o-", label=policy
                )
        here.loglog([100, 100_000], [0.1, 100], ":", color="grey", label="linear")
        here.set_xlabel(what)
        here.grid(visible=True, alpha=0.3)
    axes[0].set_ylabel("processor time of a round (ms)")
    axes[0].legend()
    figure.savefig(path)
    print(f"plot: {path}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--policies", nargs="*", default=["fifo", "tiresias"])
    parser.add_argument("--clusters", nargs="*", default=["p100=2496:8", "p100=1200:8"])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="of --scaling, as SVG, PDF or PNG")
    parser.add_argument("--one", nargs=2, metavar=("CLUSTER", "POLICY"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        philly(*given.one, limit=given.limit)
        return
    print(describe_machine())
    if given.scaling:
        scaling(given.policies, given.plot)
        return
    if not TRACE.exists():
        print(f"skipped: there is no {TRACE}")
        return
    print(f"floor: 185,438 events through a heap in {floor(185_438):.2f} s")
    limit = ["--limit", str(given.limit)] if given.limit else []
    for cluster in given.clusters:
        for policy in given.policies:
            for _ in range(given.runs):
                subprocess.run([sys.executable, __file__, "--one", cluster, policy, *limit], check=True)


if __name__ == "__main__":
    main()
