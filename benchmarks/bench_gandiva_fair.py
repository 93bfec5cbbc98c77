"""Time a round of gandiva_fair: 10,000 jobs of 200 tenants on 10,000 GPUs of three models in one view.

    python benchmarks/bench_gandiva_fair.py [--jobs 10000] [--tenants 200] [--runs 5] [--seed 0]
    python benchmarks/bench_gandiva_fair.py --growth [--plot FILE]

Jobs are of 26 kinds, gangs of 1 to 16 GPUs; each tenant has three users; what is submitted asks for about
three times as many GPUs. Three rounds are timed: *cold*, nothing runs; *quantum's end*, a minute and a second
later, when every fiftieth job has ended, so that entitlements and trades are decided anew and everyone's turn
is up; *inside*, five seconds after the cold round, with the GPUs of those jobs idle. Times are of one core's
processor time and of decide() as a whole, placing and explaining included.

--growth times all three with as many GPUs as jobs, up to 30,000.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path

from bench_decide import MODELS, NOW, make_jobs, make_nodes, make_steady, served_by
from machine import describe_machine

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Member, Snapshot, Tenant, VirtualCluster
from scheduler.core.round.decide import decide

TARGET_SECONDS = 1.0
USERS_A_TENANT = 3
SIZES = (1_000, 3_000, 10_000, 30_000)
ROUNDS = ("cold", "quantum's end", "inside")


@dataclass(frozen=True)
class Timing:
    """Seconds of each run, and what was decided."""

    seconds: list[float]
    plan: Plan

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--growth", action="store_true", help="only the growth, up to 30,000 jobs")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="of --growth, as SVG, PDF or PNG")
    options = parser.parse_args()
    print(describe_machine())
    if not options.growth:
        for name, timed in rounds(options.jobs, options.tenants, options.seed, options.runs).items():
            show(name, timed)
        return
    print(f"{'jobs and GPUs':16}" + "".join(f"{name:>16}" for name in ROUNDS))
    curves: dict[str, list[tuple[int, float]]] = {name: [] for name in ROUNDS}
    for size in SIZES:
        found = rounds(size, options.tenants, options.seed, 1)
        print(f"{size:<16,}" + "".join(f"{found[name].median:14.2f} s" for name in ROUNDS), flush=True)
        for name in ROUNDS:
            curves[name].append((size, found[name].median))
    if options.plot is not None:
        draw(curves, options.plot)


def rounds(jobs: int, tenants: int, seed: int, runs: int) -> dict[str, Timing]:
    """Time the three rounds with as many GPUs as jobs."""
    cold = make_cold(jobs, tenants, seed)
    first = timed(cold, runs)
    steady = make_steady(cold, first.plan)
    ends, within = replace(steady, now=NOW + 61), replace(steady, now=NOW + 5)
    return {"cold": first, "quantum's end": timed(ends, runs), "inside": timed(within, runs)}


def make_cold(size: int, tenants: int, seed: int) -> Snapshot:
    dice = random.Random(seed)
    nodes = make_nodes(size)
    names = [f"tenant-{number:03d}" for number in range(tenants)]
    jobs = tuple(
        replace(
            job,
            virtual_cluster="all",
            user=f"user-{dice.randrange(USERS_A_TENANT)}",
            guaranteed=True,
            gpu_models=(),
        )
        for job in make_jobs(size, tenants, dice)
    )
    vc = VirtualCluster(
        name="all",
        guaranteed={
            model: sum(len(node.gpus) for node in nodes if node.gpu_model == model) for model in MODELS
        },
        members=tuple(Member(tenant=name, weight=float(1 + place % 3)) for place, name in enumerate(names)),
    )
    snapshot = Snapshot(
        round_number=1,
        now=NOW,
        round_seconds=5.0,
        nodes=nodes,
        tenants=tuple(Tenant(name=name) for name in names),
        virtual_clusters=(vc,),
        jobs=jobs,
    )
    return replace(served_by("gandiva_fair", snapshot, seed), spare_policy="fifo")


def timed(snapshot: Snapshot, runs: int) -> Timing:
    seconds, plan = [], None
    for _ in range(runs):
        gc.collect()
        began = time.process_time()
        plan = decide(snapshot)
        seconds.append(time.process_time() - began)
    assert plan is not None
    assert not plan.degraded, plan.degraded
    return Timing(seconds, plan)


def show(name: str, found: Timing) -> None:
    kinds = [action.kind for action in found.plan.actions]
    counts = ", ".join(f"{kinds.count(kind):,} {kind}" for kind in ActionKind if kind in kinds) or "nothing"
    trades = sum(line.kind == "trade" for line in found.plan.ledger.get("all", ()))
    print(
        f"{name:14} median {found.median:.2f} s (target {TARGET_SECONDS:g} s)   {counts}; {trades} trades   "
        + "raw "
        + " ".join(f"{seconds:.2f}" for seconds in found.seconds),
        flush=True,
    )


def draw(curves: dict[str, list[tuple[int, float]]], path: Path) -> None:
    """Plot the time of a round on logarithmic axes, with a line of slope 1 to compare."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name, curve in curves.items():
        axes.loglog(*zip(*curve, strict=True), "o-", label=name)
    axes.loglog([SIZES[0], SIZES[-1]], [0.03, 0.03 * SIZES[-1] / SIZES[0]], ":", color="grey", label="linear")
    axes.set_xlabel("jobs, and GPUs")
    axes.set_ylabel("processor time (s)")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path)
    print(f"plot: {path}")


if __name__ == "__main__":
    main()
