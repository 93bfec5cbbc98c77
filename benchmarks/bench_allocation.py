"""Time Gavel's family of policies, each beside a straightforward cvxpy formulation of the same problem.

    python benchmarks/bench_allocation.py [--growth [--plot FILE]] [--runs 3] [--data ../shared/data/gavel]

Jobs are drawn as Gavel's generator does: one of 26 types, gangs of 1, 2, 4 and 8 (70, 10, 15 and 5 %), every
fifth with weight 5; a quarter as many GPUs of each of three models as there are jobs. Throughputs, also those
of pairs, are Gavel's where its table is at hand, else made up. Times are CPU seconds, building included:
the medians of the runs. Ours include the second stage (most progress for all others), which cvxpy's do not,
where it is not said.
cvxpy is only run up to the number of jobs that it can do in a minute; the ratio is of both at that number.
Without cvxpy (`pip install -e .[bench]`) only ours is timed.

--unlike prints max-min, both stages, where no two jobs are alike, beside the solver of Gavel's code (ECOS,
which has no second stage): CPU milliseconds of both by turns, the least of seven, for the jobs above and
for jobs of one GPU whose speeds are random.
--growth prints how the time grows up to 100,000 jobs, of one program as a whole and in parts (POP).
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

from scheduler.core.solvers.checking import checked_instance
from scheduler.core.solvers.instance import Instance, Pairs
from scheduler.core.solvers.levels import raise_levels
from scheduler.core.solvers.polytope import polytope_of
from scheduler.core.solvers.solving import solve

try:
    import cvxpy as cp
except ImportError:
    cp = None

MODELS = ("v100", "p100", "k80")
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
#: CPU seconds by number of jobs.
Curves = dict[str, list[tuple[int, float]]]
#: No larger problem of the same sort is tried after one that took so long.
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Table:
    """Throughputs by job class (type and gang) and model, alone and in pairs of classes with equal gangs."""

    job_classes: list[tuple[str, int]]
    alone: np.ndarray
    pairs: Pairs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--growth", action="store_true", help="only the growth, up to 100,000 jobs")
    parser.add_argument("--unlike", action="store_true", help="only max-min without two jobs alike")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="of --growth, as SVG, PDF or PNG")
    parser.add_argument("--runs", type=int, default=3)
    data = Path(__file__).resolve().parents[2] / "shared" / "data" / "gavel"
    parser.add_argument("--data", type=Path, default=data)
    options = parser.parse_args()
    print(describe_machine())
    path = options.data / "simulation_throughputs.json"
    table = read_table(path) if path.exists() else made_up()
    print(
        f"{len(table.job_classes)} job classes, {len(table.pairs.first)} pairs of them"
        + ("" if path.exists() else " (made up)")
    )
    if options.growth:
        curves = print_growth(table)
        if options.plot is not None:
            draw(curves, options.plot)
        return
    if options.unlike:
        print_unlike(table)
        return
    if cp is None:
        print("cvxpy is not installed, so nothing to compare with: pip install -e .[bench]")
    for figure in FIGURES:
        print_figure(figure, table, options.runs)


@dataclass(frozen=True)
class Figure:
    name: str
    objective: str
    jobs: int
    target_seconds: float
    #: The cvxpy formulation, which returns the objective, and how many jobs it is given.
    plainly: Callable[[Instance], float]
    plain_jobs: int
    sharing: bool = False
    alike: bool = True
    #: Ours without the second stage, which the plain formulation does not have either.
    first_stage: Callable[[Instance], float] | None = None


def print_figure(figure: Figure, table: Table, runs: int) -> None:
    def ours(instance: Instance) -> float:
        if figure.first_stage is not None:
            return figure.first_stage(instance)
        return solve(instance, figure.objective, sharing=figure.sharing).objective

    label = f"{figure.name}, {figure.jobs:,} jobs"
    seconds, _ = timed(lambda: ours(workload(table, figure.jobs, figure)), runs)
    line = f"{label:48} {seconds:8.3f} s  (target {figure.target_seconds:g} s)"
    if cp is not None:
        instance = workload(table, figure.plain_jobs, figure)
        here, value = timed(lambda: ours(instance), runs)
        there, plain = timed(lambda: figure.plainly(instance), 1 if figure.plain_jobs > 1000 else runs)
        off = abs(plain - value) / abs(value)
        line += f"  at {figure.plain_jobs:,}: {here:.3f} s, cvxpy {there:.2f} s, "
        line += f"ratio {there / here:.1f}, apart {off:.0e}"
    print(line, flush=True)


def print_unlike(table: Table) -> None:
    """Print milliseconds of ours and of ECOS by number of jobs; needs cvxpy and ecos."""
    figure = next(figure for figure in FIGURES if not figure.alike)
    print("jobs,workload,ours ms,ECOS ms,ours / ECOS,apart")
    for jobs in (4, 16, 64, 256, 512, 1024, 2048):
        drawn = workload(table, jobs, figure)
        speeds = np.random.default_rng(1).uniform(0.1, 1, drawn.throughput.shape) * [3, 2, 1]
        ones = np.ones(jobs)
        for name, instance in (
            ("drawn", drawn),
            ("random", replace(drawn, throughput=speeds, weight=ones, gang=ones)),
        ):
            least, values = [np.inf, np.inf], [0.0, 0.0]
            for _ in range(7):
                for place, run in enumerate((solved_max_min, by_ecos)):
                    began = time.process_time()
                    values[place] = run(instance)
                    least[place] = min(least[place], time.process_time() - began)
            ours, theirs = least
            off = abs(values[0] - values[1]) / values[1]
            print(
                f"{jobs},{name},{ours * 1e3:.1f},{theirs * 1e3:.1f},{ours / theirs:.2f},{off:.0e}", flush=True
            )


def solved_max_min(instance: Instance) -> float:
    return solve(instance, "max_min").objective


def by_ecos(instance: Instance) -> float:
    return plain_max_min(instance, solver="ECOS")


def timed(run: Callable[[], float], runs: int) -> tuple[float, float]:
    seconds, value = [], 0.0
    for _ in range(runs):
        began = time.process_time()
        value = run()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds), value


def print_growth(table: Table) -> Curves:
    """Print and return CPU seconds by number of jobs for programs of each shape, as a whole and in parts."""
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("max-min", "max_min", {}),
        ("packed max-min", "max_min", {"sharing": True}),
        ("water filling", "water_filling", {}),
        ("max sum throughput", "max_sum_throughput", {}),
        ("shortest job", "shortest_job", {}),
        ("FIFO", "fifo", {}),
        ("makespan", "makespan", {}),
        ("makespan in 16 parts", "makespan", {"parts": 16}),
        ("finish-time fairness", "finish_time_fairness", {}),
        ("finish-time fairness in 16 parts", "finish_time_fairness", {"parts": 16}),
        ("hierarchical", "hierarchical", {}),
    ]
    print(f"{'jobs':34}" + "".join(f"{size:>10,}" for size in SIZES))
    instances = {size: workload(table, size) for size in SIZES}
    curves: Curves = {}
    for name, objective, how in cases:
        print(f"{name:34}", end="", flush=True)
        for size in SIZES:
            seconds, _ = timed(lambda: solve(instances[size], objective, **how).objective, 1)  # noqa: B023
            print(f"{seconds:8.2f} s", end="", flush=True)
            curves.setdefault(name, []).append((size, seconds))
            if seconds > PATIENCE_SECONDS:
                break
        print()
    return curves


def draw(curves: Curves, path: Path) -> None:
    """Plot the time of a solution on logarithmic axes, with a line of slope 1 to compare."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name, curve in curves.items():
        axes.loglog(*zip(*curve, strict=True), "o-", label=name)
    axes.loglog([SIZES[0], SIZES[-1]], [0.01, 0.01 * SIZES[-1] / SIZES[0]], ":", color="grey", label="linear")
    axes.set_xlabel("jobs")
    axes.set_ylabel("processor time (s)")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path)
    print(f"plot: {path}")


def workload(table: Table, jobs: int, figure: Figure | None = None, seed: int = 0) -> Instance:
    """Return so many jobs; where they are not to be alike, each is a bit faster or slower than its class."""
    rng = np.random.default_rng(seed)
    gangs = np.array([gang for _, gang in table.job_classes])
    wanted = rng.choice([1, 2, 4, 8], jobs, p=[0.7, 0.1, 0.15, 0.05])
    if figure is not None and figure.sharing and figure.plain_jobs < 100:
        wanted[:] = 1
    job_class = np.array([rng.choice(np.flatnonzero(gangs == gang)) for gang in wanted])
    throughput = table.alone[job_class]
    if figure is not None and not figure.alike:
        throughput = throughput * rng.uniform(0.9, 1.1, throughput.shape)
    minutes = 10 ** np.where(rng.random(jobs) < 0.8, rng.uniform(1.5, 3, jobs), rng.uniform(3, 4, jobs))
    return checked_instance(
        throughput=throughput,
        gpus=np.full(len(MODELS), max(jobs // 4, 8)),
        models=MODELS,
        gang=wanted,
        weight=rng.choice([1.0, 5.0], jobs, p=[0.8, 0.2]),
        steps_left=60 * minutes * throughput.max(axis=1),
        age_seconds=rng.uniform(0, 1e5, jobs),
        entity=rng.integers(0, 32, jobs),
        entities=[f"entity {number}" for number in range(32)],
        entity_weight=np.arange(32) % 3 + 1.0,
        job_class=job_class,
        job_classes=[f"{name}, {gang}" for name, gang in table.job_classes],
        pairs=table.pairs,
    )


def read_table(path: Path) -> Table:
    """Read Gavel's table; classes that no model runs are left out."""
    document = json.loads(path.read_text())
    keys = [key for key in document[MODELS[0]] if any(document[model][key]["null"] > 0 for model in MODELS)]
    alone = np.array([[document[model][key]["null"] for model in MODELS] for key in keys])
    first, second, throughput = [], [], []
    for one, key in enumerate(keys):
        for other in range(one, len(keys)):
            both = [document[model][key].get(keys[other]) for model in MODELS]
            if all(speeds is not None for speeds in both):
                first.append(one)
                second.append(other)
                throughput.append(np.array(both).T)
    job_classes = [ast.literal_eval(key) for key in keys]
    return Table(
        job_classes,
        alone,
        Pairs(first=np.array(first), second=np.array(second), throughput=np.array(throughput)),
    )


def made_up() -> Table:
    rng = np.random.default_rng(26)
    job_classes = [
        (f"type {number}", gang) for gang in (1, 2, 4, 8) for number in range(26 if gang == 1 else 19)
    ]
    alone = (
        10 ** rng.uniform(-1, 2, (len(job_classes), 1))
        * np.array([1, 0.6, 0.25])
        * rng.uniform(0.6, 1.6, (len(job_classes), 3))
    )
    one, other = np.triu_indices(len(job_classes))
    same = np.array([job_classes[i][1] == job_classes[j][1] for i, j in zip(one, other, strict=True)])
    one, other = one[same], other[same]
    both = np.stack([alone[one], alone[other]], axis=1)
    return Table(
        job_classes,
        alone,
        Pairs(first=one, second=other, throughput=both * rng.uniform(0.2, 0.95, both.shape)),
    )


# What one writes down in cvxpy: a variable per job and model, and the objective as in the paper.


def polytope(instance: Instance) -> tuple[Any, list[Any]]:
    x = cp.Variable((instance.jobs, len(instance.models)), nonneg=True)
    return x, [cp.sum(x, axis=1) <= 1, instance.gang @ x <= instance.gpus]


def per_job(instance: Instance) -> np.ndarray:
    """Return progress by share: gang × throughput ÷ throughput in proportion to the GPUs."""
    average = instance.throughput @ instance.gpus / instance.gpus.sum()
    progress: np.ndarray = instance.throughput * (instance.gang / average)[:, None]
    return progress


def plain_max_min(instance: Instance, **how: str) -> float:
    x, rows = polytope(instance)
    progress = cp.sum(cp.multiply(per_job(instance) / instance.weight[:, None], x), axis=1)
    return float(cp.Problem(cp.Maximize(cp.min(progress)), rows).solve(**how))


def plain_packed(instance: Instance) -> float:
    """A variable for each job and each pair of jobs, on each model."""
    progress, weight = per_job(instance), instance.weight
    table = instance.pairs
    assert table is not None
    found = {
        (int(a), int(b)): speeds
        for a, b, speeds in zip(table.first, table.second, table.throughput, strict=True)
    }
    found |= {(b, a): speeds[::-1] for (a, b), speeds in found.items() if a != b}
    pairs = [
        (i, j)
        for i in range(instance.jobs)
        for j in range(i)
        if (instance.job_class[i], instance.job_class[j]) in found
    ]
    x, _ = polytope(instance)
    y = cp.Variable((len(pairs), len(instance.models)), nonneg=True)
    per_step = progress / np.where(instance.throughput > 0, instance.throughput, 1.0)
    per_step = per_step.max(axis=1)
    rates, member = np.zeros((2, len(pairs), len(instance.models))), np.zeros((2, instance.jobs, len(pairs)))
    for column, (i, j) in enumerate(pairs):
        speeds = found[int(instance.job_class[i]), int(instance.job_class[j])]
        if i != j and instance.job_class[i] == instance.job_class[j]:
            speeds = np.broadcast_to(speeds.mean(axis=0), speeds.shape)
        rates[0, column], rates[1, column] = speeds[0] * per_step[i], speeds[1] * per_step[j]
        member[0, i, column] = member[1, j, column] = 1
    gained = sum(member[k] @ cp.sum(cp.multiply(rates[k], y), axis=1) for k in range(2))
    total = cp.sum(cp.multiply(progress, x), axis=1) + gained
    gang = instance.gang[[i for i, _ in pairs]]
    rows = [
        cp.sum(x, axis=1) + (member[0] + member[1]) @ cp.sum(y, axis=1) <= 1,
        instance.gang @ x + gang @ y <= instance.gpus,
    ]
    return float(cp.Problem(cp.Maximize(cp.min(total / weight)), rows).solve())


def plain_makespan(instance: Instance) -> float:
    x, rows = polytope(instance)
    per_second = cp.sum(cp.multiply(instance.throughput / instance.steps_left[:, None], x), axis=1)
    return 1 / float(cp.Problem(cp.Maximize(cp.min(per_second)), rows).solve())


def plain_finish_time(instance: Instance) -> float:
    x, rows = polytope(instance)
    alone = instance.isolated_seconds + instance.steps_left / instance.isolated_throughput()
    throughput = cp.sum(cp.multiply(instance.throughput, x), axis=1)
    seconds = instance.age_seconds + cp.multiply(instance.steps_left, cp.inv_pos(throughput))
    return float(cp.Problem(cp.Minimize(cp.max(cp.multiply(seconds, 1 / alone))), rows).solve())


def plain_filling(instance: Instance) -> float:
    """The paper's method (section 4.3): raise all, then ask by a mixed-integer program who can still rise."""
    return filled(instance, lambda rising: np.where(rising, instance.weight, 0.0))


def plain_hierarchical(instance: Instance) -> float:
    def paces(rising: np.ndarray) -> np.ndarray:
        weight = np.where(rising, instance.weight, 0.0)
        total = np.bincount(instance.entity, weight, len(instance.entities))[instance.entity]
        shares: np.ndarray = (
            instance.entity_weight[instance.entity] * weight / np.where(total > 0, total, 1.0)
        )
        return shares

    return filled(instance, paces)


def filled(instance: Instance, paces: Callable[[np.ndarray], np.ndarray]) -> float:
    rates, rising = per_job(instance), np.ones(instance.jobs, dtype=bool)
    level, first = np.zeros(instance.jobs), paces(rising)
    x, rows = polytope(instance)
    progress = cp.sum(cp.multiply(rates, x), axis=1)
    while rising.any():
        z, pace = cp.Variable(), paces(rising)
        cp.Problem(cp.Maximize(z), [*rows, progress >= (level - 1e-7) + pace * z]).solve(solver=cp.HIGHS)
        level = level + pace * max(float(z.value), 0.0)
        rises = cp.Variable(instance.jobs, boolean=True)
        more = [progress >= level - 1e-7 + 1e-4 * rises, rises <= rising.astype(float)]
        cp.Problem(cp.Maximize(cp.sum(rises)), [*rows, *more]).solve(solver=cp.HIGHS)
        rising = rising & (rises.value > 0.5)
    return float((level / first).min())


def only_raised(instance: Instance) -> float:
    """Return what max-min comes to, without handing out what is left over."""
    polytope = polytope_of(replace(instance, pairs=None), instance.weight[:, None])
    return raise_levels(polytope, polytope.marks[:, 0]).height


def only_makespan(instance: Instance) -> float:
    polytope = polytope_of(replace(instance, pairs=None), instance.steps_left[:, None])
    return 1 / raise_levels(polytope, polytope.marks[:, 0] / polytope.unit).height


FIGURES = (
    Figure("max-min", "max_min", 2048, 0.1, plain_max_min, 2048),
    Figure("max-min, no two jobs alike", "max_min", 2048, 0.1, plain_max_min, 2048, alike=False),
    Figure(
        "the same, first stage only",
        "max_min",
        2048,
        0.1,
        plain_max_min,
        2048,
        alike=False,
        first_stage=only_raised,
    ),
    Figure("packed max-min", "max_min", 8192, 0.1, plain_packed, 64, sharing=True),
    Figure("makespan", "makespan", 2048, 0.15, plain_makespan, 2048),
    Figure(
        "the same, first stage only", "makespan", 2048, 0.15, plain_makespan, 2048, first_stage=only_makespan
    ),
    Figure("finish-time fairness", "finish_time_fairness", 2048, 1.0, plain_finish_time, 2048),
    Figure("water filling", "water_filling", 2048, 1.0, plain_filling, 64),
    Figure("hierarchical, 32 entities", "hierarchical", 2048, 2.0, plain_hierarchical, 64),
)

if __name__ == "__main__":
    main()
