"""The optimal division of CPUs and memory, once GPUs have decided which jobs run: a bound for TUNE and
others.

J. Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters" (Synergy), OSDI 2022,
section 4: Synergy-OPT, an integer program for each job's amounts, then a linear program for its servers. The
result is a bound and not a plan: a job split over servers has fractions of GPUs there, and no job stays in
place.

Deviation: the program counts jobs of the same profile instead of deciding for each. Points that cost more and
are no faster are left out, which changes no optimum. Among jobs of the same profile the first are fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.building_blocks.auxiliary_shares import PerGpu, Servers
from scheduler.core.solvers.errors import SolverError
from scheduler.core.solvers.instance import Floats
from scheduler.core.solvers.linear import maximise
from scheduler.core.solvers.terms import Terms

#: Branches of the search; measured programs of the published sizes need a few hundred.
MOST_NODES = 20_000
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Point:
    """A job's speed with these amounts for each GPU, relative to its proportional share."""

    per_gpu: PerGpu
    speed: float


@dataclass(frozen=True, slots=True)
class Profile:
    """A job's GPUs, and the points at which its speed is known."""

    gpus: int
    points: tuple[Point, ...]

    @classmethod
    def of_matrix(
        cls, gpus: int, cpus: Sequence[float], memory: Sequence[float], speeds: Sequence[Sequence[float]]
    ) -> Profile:
        """Return the profile of a matrix of speeds: a row for each number of CPUs, a column for each amount
        of memory.
        """
        return cls(
            gpus,
            tuple(
                Point((has_cpus, has_memory), speed)
                for has_cpus, row in zip(cpus, speeds, strict=True)
                for has_memory, speed in zip(memory, row, strict=True)
            ),
        )

    @property
    def best(self) -> PerGpu:
        """The amounts at which the job is fastest: the fewest CPUs, then the least memory."""
        return min(self.points, key=lambda point: (-point.speed, point.per_gpu)).per_gpu

    def speed(self, per_gpu: PerGpu) -> float:
        """Return the speed of the fastest point for which these amounts suffice; 0 if there is none."""
        return max((point.speed for point in self.points if _is_within(point.per_gpu, per_gpu)), default=0.0)


@dataclass(frozen=True, slots=True)
class Optimum:
    """What each job gets, None for a job that does not run; the sum of speeds, and an upper bound of all
    sums.
    """

    points: list[Point | None]
    total: float
    #: Above the total only where `MOST_NODES` branches were not enough.
    bound: float


def optimal(servers: Servers, profiles: Sequence[Profile]) -> Optimum:
    """Return the points with the largest sum of speeds at which no job is slower than with its proportional
    share.

    The running jobs are those whose GPUs fit, in their order; CPUs and memory are those of all servers
    together. Raises ValueError for a profile whose speed with the proportional share is not known, and
    SolverError where the solver finds no choice.
    """
    running: list[int] = []
    free = servers.count * servers.gpus
    for number, profile in enumerate(profiles):
        if profile.gpus <= free:
            running.append(number)
            free -= profile.gpus
    points: list[Point | None] = [None] * len(profiles)
    if not running:
        return Optimum(points, 0.0, 0.0)
    alike: dict[Profile, list[int]] = {}
    for number in running:
        alike.setdefault(profiles[number], []).append(number)
    options = [(who, point) for who in alike for point in _worth_having(who, servers.proportional)]
    counts, bound = _search(servers, {who: len(numbers) for who, numbers in alike.items()}, options)
    for who, numbers in alike.items():
        chosen = [
            point
            for (of, point), count in zip(options, counts, strict=True)
            if of is who
            for _ in range(count)
        ]
        chosen.sort(key=lambda point: -point.speed)
        for number, point in zip(numbers, chosen, strict=True):
            points[number] = point
    total = sum(point.speed for point in points if point)
    return Optimum(points, total, max(total, bound))


def divide(
    servers: Servers, profiles: Sequence[Profile], points: Sequence[Point | None]
) -> list[dict[int, float]]:
    """Return the part of each job on each server; empty for a job that does not run.

    A corner of the linear program: at most three jobs a server are split. Jobs that fit into all servers
    together can always be divided. Raises SolverError where they do not fit.
    """
    found: list[dict[int, float]] = [{} for _ in profiles]
    running = [
        (number, profile.gpus, point)
        for number, (profile, point) in enumerate(zip(profiles, points, strict=True))
        if point is not None
    ]
    if not running:
        return found
    jobs, count = len(running), servers.count
    takes = np.array([(gpus, *(gpus * each for each in point.per_gpu)) for _, gpus, point in running])
    # Columns are job by job, servers inside; rows are those of jobs, then of GPUs, CPUs, memory by server.
    column = np.arange(jobs * count)
    job, server = column // count, column % count
    rows = Terms(
        row=np.concatenate([job, *(jobs + kind * count + server for kind in range(3))]),
        column=np.tile(column, 4),
        value=np.concatenate([np.ones(len(column)), *(takes[job, kind] for kind in range(3))]),
        rows=jobs + 3 * count,
    )
    has = (servers.gpus, servers.cpus, servers.memory)
    upper = np.concatenate([np.ones(jobs), np.repeat(np.array(has, dtype=np.float64), count)])
    parts = maximise(np.ones(len(column)), rows, upper, np.zeros(len(column))).values.reshape(jobs, count)
    if (parts.sum(axis=1) < 1 - 1e-6).any():
        raise SolverError("the jobs need more GPUs, CPUs or memory than all servers have together")
    for (number, _, _), row in zip(running, parts, strict=True):
        found[number] = {each: float(row[each]) for each in np.flatnonzero(row > _ROUNDING).tolist()}
    return found


def _worth_having(profile: Profile, fair: PerGpu) -> list[Point]:
    """Return the points no slower than the proportional share that no other point dominates."""
    least = profile.speed(fair)
    if least <= 0:
        raise ValueError(
            f"points: none that is within the proportional share, {fair[0]:g} CPUs and {fair[1]:g} GB for "
            "each GPU, has a speed above 0; measure one"
        )
    # In this order a point that beats another comes before it.
    ordered = sorted(profile.points, key=lambda point: (-point.speed, point.per_gpu))
    kept: list[Point] = []
    for point in ordered:
        if point.speed >= least and not any(_is_within(each.per_gpu, point.per_gpu) for each in kept):
            kept.append(point)
    return kept


def _search(
    servers: Servers, jobs: dict[Profile, int], options: list[tuple[Profile, Point]]
) -> tuple[list[int], float]:
    """Return how many jobs take each option, and a bound of the sum of speeds."""
    # SciPy takes half a second to load, and most processes that know this never compute with it.
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, vstack

    number = {who: row for row, who in enumerate(jobs)}
    entries = np.arange(len(options))
    row = np.array([number[who] for who, _ in options])
    one_each = csr_array((np.ones(len(options)), (row, entries)), (len(jobs), len(options)))
    takes = csr_array(np.array([[who.gpus * each for each in point.per_gpu] for who, point in options]).T)
    speeds: Floats = np.array([point.speed for _, point in options])
    counts = np.array(list(jobs.values()), dtype=np.float64)
    has = servers.count * np.array([servers.cpus, servers.memory], dtype=np.float64)
    found = milp(
        -speeds,
        integrality=np.ones(len(options)),
        bounds=Bounds(0, counts[row]),
        constraints=LinearConstraint(
            vstack([one_each, takes]),
            np.concatenate([counts, [-np.inf, -np.inf]]),
            np.concatenate([counts, has]),
        ),
        options={"mip_rel_gap": 0.0, "node_limit": MOST_NODES},
    )
    if found.x is None:
        raise SolverError(f"no choice of CPUs and memory was found: {found.message}")
    return np.rint(found.x).astype(int).tolist(), -float(found.mip_dual_bound)


def _is_within(some: PerGpu, other: PerGpu) -> bool:
    return some[0] <= other[0] + _ROUNDING and some[1] <= other[1] + _ROUNDING
