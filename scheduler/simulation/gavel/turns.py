"""Decide which unit has its turn, from how much of its share each had on each model since the last decision.

A unit's priority on a model is its share there divided by its part of all time that units had there since the
last reset. Every unit starts with half a round, so that the first turns follow the shares. A deficit is what
a unit missed up to the last reset; deficits only decide between equal priorities (paper, section 5; the
published code keeps all of this by model, not in one list as in the paper's algorithm 1).

One oddity is kept: a new pair starts with nothing, not with half a round. So at its first reset it seems to
have missed half a round, and comes before single jobs on leftover GPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.simulation.gavel.jobs import Cluster, RoundJob, Unit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The partner in a unit that has none.
NOBODY = -1
#: The arrays of the table, with a row per unit.
_COLUMNS = (
    "_first", "_second", "_gang", "_runs", "_received", "_deficit", "_share", "_decided", "_present",
)  # fmt: skip
#: The priority of a unit with a whole share that never ran.
NEVER_RAN = 1e9


@dataclass(frozen=True, slots=True)
class Choice:
    """The unit with the next turn on a model. A unit without a share yet only keeps GPUs from others."""

    unit: Unit
    gang: int
    has_share: bool


class Turns:
    """A table with a row per unit, in the order in which units appeared, and columns by model."""

    def __init__(self, cluster: Cluster, *, round_seconds: float, sharing: bool) -> None:
        self._cluster, self._sharing = cluster, sharing
        self._start = round_seconds / 2
        models = len(cluster.models)
        self._jobs: dict[int, RoundJob] = {}
        self._first = np.zeros(0, dtype=np.int64)
        self._second = np.zeros(0, dtype=np.int64)
        self._gang = np.zeros(0, dtype=np.int64)
        self._runs = np.zeros((0, models), dtype=np.bool_)
        self._received = np.zeros((0, models))
        self._deficit = np.zeros((0, models))
        self._share = np.zeros((0, models))
        #: Whether shares were decided since the unit appeared, and whether it is still there.
        self._decided = np.zeros(0, dtype=np.bool_)
        self._present = np.zeros(0, dtype=np.bool_)
        #: The time that units had, by model.
        self._total = [0.0] * models
        self._row: dict[Unit, int] = {}

    def admit(self, jobs: Mapping[int, RoundJob]) -> None:
        """Add jobs that arrived, with all pairs that each can be part of."""
        firsts, seconds, gangs, runs, received = [], [], [], [], []
        models = len(self._cluster.models)
        for number, job in jobs.items():
            firsts.append(number)
            seconds.append(NOBODY)
            gangs.append(job.gang)
            runs.append([rate > 0 for rate in job.rates])
            received.append([self._start] * models)
            for other, partner in self._jobs.items() if self._sharing else ():
                rates = self._cluster.together(partner, job)
                if rates is not None:
                    firsts.append(other)
                    seconds.append(number)
                    gangs.append(job.gang)
                    runs.append([min(pair) > 0 for pair in rates])
                    received.append([0.0] * models)
            self._jobs[number] = job
        nothing = np.zeros((len(firsts), models))
        self._first = np.concatenate([self._first, np.array(firsts, dtype=np.int64)])
        self._second = np.concatenate([self._second, np.array(seconds, dtype=np.int64)])
        self._gang = np.concatenate([self._gang, np.array(gangs, dtype=np.int64)])
        self._runs = np.concatenate([self._runs, np.array(runs, dtype=np.bool_)])
        self._received = np.concatenate([self._received, np.array(received)])
        self._deficit = np.concatenate([self._deficit, nothing])
        self._share = np.concatenate([self._share, nothing])
        self._decided = np.concatenate([self._decided, np.zeros(len(firsts), dtype=np.bool_)])
        self._present = np.concatenate([self._present, np.ones(len(firsts), dtype=np.bool_)])
        for row in range(len(self._first) - len(firsts), len(self._first)):
            self._row[self._unit(row)] = row

    def dismiss(self, jobs: Sequence[int]) -> None:
        """Forget jobs that ended, and the pairs that they were part of."""
        for job in jobs:
            del self._jobs[job]
        gone = np.array(jobs, dtype=np.int64)
        ended = np.isin(self._first, gone) | np.isin(self._second, gone)
        for row in np.flatnonzero(ended & self._present).tolist():
            del self._row[self._unit(row)]
        self._present &= ~ended
        if 2 * len(self._row) < len(self._first):
            # Drop rows of jobs that have gone from time to time, because with pairs there are very many.
            kept = self._present
            for name in _COLUMNS:
                setattr(self, name, getattr(self, name)[kept])
            self._row = {self._unit(row): row for row in range(len(self._first))}

    def credit(self, unit: Unit, model: int, seconds: float) -> None:
        """Count the time that a unit had on a model."""
        self._received[self._row[unit], model] += seconds
        self._total[model] += seconds

    def settle(self, elapsed_seconds: float) -> None:
        """Record what each job missed since the last reset, and start again."""
        had = self._received - self._start
        due = np.where(self._decided[:, None], self._share * elapsed_seconds, 0.0)
        self._deficit += due - had
        self._received[:] = self._start
        self._total = [self._start * len(self._row)] * len(self._total)

    def decide(self, shares: Mapping[Unit, Sequence[float]]) -> None:
        """Apply new shares; units that are left out have none from now on."""
        self._share[:] = 0.0
        for unit, parts in shares.items():
            self._share[self._row[unit]] = parts
        self._decided[:] = True

    def choose(
        self,
        order: Sequence[int],
        *,
        leftovers: bool,
        one_list: bool = False,
        newcomers: bool = False,
        leftover_pairs: bool = True,
    ) -> dict[int, list[Choice]]:
        """Return which jobs run next, by model, in the order in which they were chosen.

        With `leftovers`, GPUs in which no job has a share go to the jobs that missed most; otherwise they
        stay idle. With `one_list`, models are not filled one after another. With `newcomers`, jobs that
        arrived since the last decision run on leftovers; otherwise they only keep others from them. Without
        `leftover_pairs`, only single jobs get leftovers.
        """
        left = list(self._cluster.gpus)
        taken: set[int] = set()
        chosen: dict[int, list[Choice]] = {model: [] for model in order}
        steps = [order] if one_list else [[model] for model in order]
        for models in steps:
            priorities = {model: self._priorities(model) for model in models}
            self._take(self._in_turn(models, priorities, positive=True), left, taken, chosen, newcomers)
            if leftovers and any(left[model] for model in models):
                rest = self._in_turn(models, priorities, positive=False, taken=taken, pairs=leftover_pairs)
                self._take(rest, left, taken, chosen, newcomers)
        return chosen

    def _priorities(self, model: int) -> Floats:
        share, received, total = self._share[:, model], self._received[:, model], self._total[model]
        claims = (share > 0) & self._decided & self._runs[:, model]
        part = received / total if total else np.zeros(len(received))
        ran = claims & (part > 0)
        priority = np.where(claims, share * NEVER_RAN, 0.0)
        priority[ran] = share[ran] / part[ran]
        return priority

    def _in_turn(
        self,
        models: Sequence[int],
        priorities: Mapping[int, Floats],
        *,
        positive: bool,
        taken: Collection[int] = (),
        pairs: bool = True,
    ) -> list[tuple[int, int]]:
        """Return rows and models by falling priority, then deficit, then share, then order of appearance."""
        rows, columns, keys = [], [], []
        free = self._present if pairs else self._present & (self._second == NOBODY)
        if taken:
            busy = np.array(sorted(taken), dtype=np.int64)
            free = free & ~(np.isin(self._first, busy) | np.isin(self._second, busy))
        for model in models:
            priority = priorities[model]
            able = free & self._runs[:, model] & ((priority > 0) == positive)
            found = np.flatnonzero(able)
            rows.append(found)
            columns.append(np.full(len(found), model))
            keys.append(np.stack([self._share[found, model], self._deficit[found, model], priority[found]]))
        key = np.concatenate(keys, axis=1)
        place = np.lexsort(-key)
        row, column = np.concatenate(rows)[place], np.concatenate(columns)[place]
        return list(zip(row.tolist(), column.tolist(), strict=True))

    def _take(
        self,
        candidates: list[tuple[int, int]],
        left: list[int],
        taken: set[int],
        chosen: dict[int, list[Choice]],
        newcomers: bool,
    ) -> None:
        first, second, gang, decided = self._first, self._second, self._gang, self._decided
        for row, model in candidates:
            room = left[model]
            if not room:
                continue
            one, other, size = int(first[row]), int(second[row]), int(gang[row])
            if size > room or one in taken or other in taken:
                continue
            left[model] = room - size
            taken.add(one)
            if other != NOBODY:
                taken.add(other)
            unit: Unit = (one,) if other == NOBODY else (one, other)
            chosen[model].append(Choice(unit, size, newcomers or bool(decided[row])))

    def _unit(self, row: int) -> Unit:
        one, other = int(self._first[row]), int(self._second[row])
        return (one,) if other == NOBODY else (one, other)


@dataclass(frozen=True, slots=True)
class Lease:
    """GPUs of one model for a round, numbered from 0."""

    model: int
    gpus: tuple[int, ...]


def leases_of(chosen: Mapping[int, Sequence[Choice]], before: Mapping[Unit, Lease]) -> dict[Unit, Lease]:
    """Return the leases of a round; units without a share get none, though they kept others from GPUs.

    A unit with a turn runs on the GPUs of the last round if possible, else on the first free ones. Larger
    gangs choose first.
    """
    leases: dict[Unit, Lease] = {}
    for model, choices in chosen.items():
        _lease(model, sorted(choices, key=lambda choice: -choice.gang), before, leases)
    return leases


def _lease(
    model: int, choices: Sequence[Choice], before: Mapping[Unit, Lease], leases: dict[Unit, Lease]
) -> None:
    used: set[int] = set()
    nearest = 0
    for gang in sorted({choice.gang for choice in choices}, reverse=True):
        alike = [choice for choice in choices if choice.gang == gang]
        others = []
        for choice in alike:
            last = before.get(choice.unit)
            if last is not None and last.model == model and used.isdisjoint(last.gpus):
                used.update(last.gpus)
                leases[choice.unit] = last
            elif choice.has_share:
                others.append(choice)
        for choice in others:
            gpus: list[int] = []
            while len(gpus) < gang:
                if nearest not in used:
                    gpus.append(nearest)
                    used.add(nearest)
                nearest += 1
            leases[choice.unit] = Lease(model, tuple(gpus))
