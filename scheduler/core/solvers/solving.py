"""Solve an instance for an objective, as a whole or in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scheduler.core.solvers.cost import MinCost
from scheduler.core.solvers.errors import InstanceError, ObjectiveError
from scheduler.core.solvers.filling import Hierarchical, WaterFilling
from scheduler.core.solvers.finish_time import FinishTimeFairness
from scheduler.core.solvers.instance import Floats, Instance, blind
from scheduler.core.solvers.objective import ColumnShares, Objective, Rates
from scheduler.core.solvers.objectives import Fifo, Makespan, MaxMin, MaxSumThroughput, ThroughputPerCost
from scheduler.core.solvers.partition import parts_of
from scheduler.core.solvers.polytope import Polytope, evenly, polytope_of
from scheduler.core.solvers.proportional import ProportionalFairness
from scheduler.core.solvers.shortest import ShortestJobFirst
from scheduler.core.solvers.solution import SharedTime, Solution

#: Every objective by the name that users write.
OBJECTIVES: Mapping[str, Callable[[], Objective]] = {
    "fifo": Fifo,
    "finish_time_fairness": FinishTimeFairness,
    "hierarchical": Hierarchical,
    "hierarchical_fifo": lambda: Hierarchical(fifo=True),
    "makespan": Makespan,
    "max_min": MaxMin,
    "max_sum_throughput": MaxSumThroughput,
    "min_cost": MinCost,
    "min_cost_slo": lambda: MinCost(slo=True),
    "proportional_fairness": ProportionalFairness,
    "shortest_job": ShortestJobFirst,
    "throughput_per_cost": ThroughputPerCost,
    "water_filling": WaterFilling,
}


def solve(
    instance: Instance,
    objective: str = "max_min",
    *,
    aware: bool = True,
    sharing: bool = False,
    parts: int = 1,
    seed: int = 0,
) -> Solution:
    """Return the optimum of one of `OBJECTIVES`.

    Without `aware` the policy treats all models alike. With `sharing` it may put the instance's pairs on the
    same GPUs. With several `parts`, jobs and GPUs are dealt out to this many clusters, each solved separately
    (POP, module `partition`): faster for large problems, but not exact. `seed` varies the dealing.

    Raises ObjectiveError for an objective that does not exist or cannot do that, and InstanceError when the
    objective needs facts about the jobs that the instance lacks.
    """
    if objective not in OBJECTIVES:
        raise ObjectiveError(
            f"objective: there is no {objective!r}; there are {', '.join(sorted(OBJECTIVES))}"
        )
    goal = OBJECTIVES[objective]()
    if sharing and not (goal.shares_gpus and aware):
        why = "it puts no two jobs on the same GPUs" if aware else "an agnostic policy knows no pairs"
        raise ObjectiveError(f"sharing: {objective} cannot share GPUs: {why}")
    if sharing and instance.pairs is None:
        raise ObjectiveError("sharing: the instance has no pairs; give throughputs of pairs of job classes")
    if parts < 1:
        raise ObjectiveError(f"parts: is {parts}; at least 1")
    if not sharing:
        instance = replace(instance, pairs=None)
    able = np.flatnonzero(instance.runs)
    runnable = instance.take(able)
    if problems := list(goal.problems(runnable)):
        raise InstanceError(problems)
    members = parts_of(runnable, parts, seed)
    solved = [_solve_part(goal, runnable.take(jobs, gpus), aware) for jobs, gpus in members if jobs.size]
    return _joined(goal, instance, able, runnable, aware, [jobs for jobs, _ in members if jobs.size], solved)


def _solve_part(goal: Objective, instance: Instance, aware: bool) -> tuple[Polytope, ColumnShares]:
    believed = instance if aware else blind(instance, to_speed=goal.agnostic_to_speed)
    polytope = polytope_of(believed, goal.marks(believed))
    chosen = goal.choose(polytope)
    if not (aware or goal.knows_prices):
        chosen = replace(chosen, shares=evenly(polytope, chosen.shares))
    return polytope, chosen


def _joined(
    goal: Objective,
    instance: Instance,
    able: NDArray[np.intp],
    runnable: Instance,
    aware: bool,
    members: list[NDArray[np.intp]],
    solved: list[tuple[Polytope, ColumnShares]],
) -> Solution:
    """Return the solution for the whole instance: the parts' joined, and the jobs that no part has."""
    alone, throughput = np.zeros(instance.throughput.shape), np.zeros(instance.jobs)
    shared: list[SharedTime] = []
    missed = [np.flatnonzero(instance.slo_seconds <= 0)] if goal.keeps_slos else []
    spending = per_price = 0.0
    for jobs, (polytope, chosen) in zip(members, solved, strict=True):
        of_whole = able[jobs]
        alone[of_whole] = _alone(polytope, chosen.shares)[polytope.group]
        throughput[of_whole] = (polytope.progress.of(chosen.shares) * polytope.unit)[polytope.group]
        shared.extend(_shared(polytope, chosen.shares, of_whole))
        missed.append(of_whole[np.isin(polytope.group, chosen.missed)])
        spending += float(polytope.price @ polytope.use.of(chosen.shares))
        steps = polytope.progress.together(polytope.size * polytope.unit, polytope.columns)
        per_price += float((steps / polytope.price[polytope.model]) @ chosen.shares)
    believed = runnable if aware else blind(runnable, to_speed=goal.agnostic_to_speed)
    objective = goal.value(believed, Rates(throughput[able], spending, per_price))
    if not aware:
        throughput = (instance.throughput * alone).sum(axis=1)
        per_price = float((instance.throughput * alone / instance.price).sum())
    return Solution(
        instance=instance,
        alone=alone,
        shared=tuple(shared),
        throughput=throughput,
        objective=objective,
        achieved=goal.value(runnable, Rates(throughput[able], spending, per_price)),
        spending=spending,
        stuck=np.flatnonzero(~instance.runs),
        missed=np.unique(np.concatenate(missed)) if missed else np.zeros(0, dtype=np.intp),
        groups=sum(polytope.groups for polytope, _ in solved),
        columns=sum(polytope.columns for polytope, _ in solved),
    )


def _alone(polytope: Polytope, shares: Floats) -> Floats:
    """Return the time that one job of each group runs alone on each model."""
    single = ~polytope.paired
    alone = np.zeros((polytope.groups, len(polytope.gpus)))
    group = polytope.first[single]
    alone[group, polytope.model[single]] = shares[single] / polytope.size[group]
    return alone


def _shared(polytope: Polytope, shares: Floats, jobs: NDArray[np.intp]) -> list[SharedTime]:
    used = np.flatnonzero(polytope.paired & (shares > 0))
    time: dict[tuple[int, int], Floats] = {}
    for column in used:
        key = int(polytope.first[column]), int(polytope.second[column])
        time.setdefault(key, np.zeros(len(polytope.gpus)))[polytope.model[column]] += shares[column]
    return [
        SharedTime(jobs[polytope.group == first], jobs[polytope.group == second], parts)
        for (first, second), parts in time.items()
    ]
