"""Units, which get GPUs together: a job, or two that share them; and the share that each should have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.core.model.snapshot import JobId
from scheduler.core.solvers.solution import SharedTime, Solution

#: One job, or two that run on the same GPUs, the lower id first.
Unit = tuple[JobId, ...]
#: Parts of wall-clock time by unit and GPU model.
TimeShares = dict[Unit, dict[str, float]]

#: A share below this is the solver's rounding.
NEGLIGIBLE_SHARE = 1e-6
#: Shares that agree in this many digits are equal.
SHARE_DIGITS = 6


def name_of(unit: Unit) -> str:
    """Return the unit as the key of a JSON object."""
    return "+".join(map(str, unit))


def unit_named(name: str) -> Unit:
    """Return the unit of such a key."""
    return tuple([JobId(int(job)) for job in name.split("+")])


def time_shares_of(solution: Solution, jobs: Sequence[JobId]) -> TimeShares:
    """Return the shares of a solution, `jobs` being those of its instance, in its order."""
    models = solution.instance.models
    time_shares: TimeShares = {}
    for row, shares in zip(jobs, solution.alone.tolist(), strict=True):
        _add(time_shares, (row,), dict(zip(models, shares, strict=True)))
    for part in solution.shared:
        for (first, second), weight in _couples(part):
            unit = tuple(sorted((jobs[first], jobs[second])))
            _add(time_shares, unit, dict(zip(models, (weight * part.time).tolist(), strict=True)))
    return time_shares


def by_job(time_shares: TimeShares) -> dict[JobId, dict[str, float]]:
    """Return the shares of each job on each model, alone and in pairs."""
    shares: dict[JobId, dict[str, float]] = {}
    for unit, parts in time_shares.items():
        for job in unit:
            own = shares.setdefault(job, {})
            for model, share in parts.items():
                own[model] = own.get(model, 0.0) + share
    return shares


def without(time_shares: TimeShares, gone: set[JobId]) -> TimeShares:
    """Return the targets when some jobs are gone; a job that was to share with one of them has that time
    alone.
    """
    kept: TimeShares = {}
    for unit, parts in time_shares.items():
        left = tuple([job for job in unit if job not in gone])
        if left:
            _add(kept, left, parts)
    return kept


def _add(time_shares: TimeShares, unit: Unit, shares: Mapping[str, float]) -> None:
    for model, share in shares.items():
        if share > NEGLIGIBLE_SHARE:
            own = time_shares.setdefault(unit, {})
            own[model] = own.get(model, 0.0) + share


def _couples(part: SharedTime) -> list[tuple[tuple[int, int], float]]:
    """Return few couples of rows, and each one's part of the time, so that all jobs of a group get equal
    time.

    The solution gives every possible couple an equal part; as many couples as jobs suffice. Two groups are
    matched like supplies and demands (the north-west corner rule); the jobs of one group form a ring.
    """
    first, second = part.first.tolist(), part.second.tolist()
    if part.alike:
        if len(first) == 2:
            return [((first[0], first[1]), 1.0)]
        ring = zip(first, np.roll(first, -1).tolist(), strict=True)
        return [(couple, 1 / len(first)) for couple in ring]
    couples = []
    row = column = 0
    # In units of which each job of the first group supplies as many as there are jobs in the second.
    supply, demand = len(second), len(first)
    while row < len(first):
        amount = min(supply, demand)
        couples.append(((first[row], second[column]), amount / (len(first) * len(second))))
        supply, demand = supply - amount, demand - amount
        if not supply:
            row, supply = row + 1, len(second)
        if not demand:
            column, demand = column + 1, len(first)
    return couples
