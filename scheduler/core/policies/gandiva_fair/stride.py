"""Turns by stride for users: no user is further from its part than one quantum of the largest gang.

Gang-aware split stride as in S. Chaudhary et al., "Balancing Efficiency and Fairness in Heterogeneous GPU
Clusters for Deep Learning" (Gandiva-Fair), EuroSys 2020, section 4.1. A user is owed the GPU time of its part
of each model that it did not get. The user that is owed most goes first, with its job that is furthest behind
and fits, and is charged at once. A job that does not fit is skipped and keeps its debt, so it is early in the
queue next time. These debts correspond to the differences between the paper's passes:

- A new user is owed nothing. When a user leaves, its debt is spread over the others by their parts.
- Time that no user had is no debt: together users are owed nothing (`_level`). So a part that cannot be
  served, as with two gangs of three on four GPUs, does not become a later claim.

A gang that smaller gangs of its own user keep passing would never run. Once the gang itself is owed a quantum
it goes first, one gang on a model at a time, unless that drives another user beyond the bound (`_leader`).

Tests show the bound on random clusters where gangs leave no GPU unused: from any arrival on, a user is at
most a quantum of the largest gang away from its part, so in any window at most two. Debts of single jobs
(`time_shares.deficits`) do not keep that: a user with many jobs may be behind with all of them at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.deficits import Deficits
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.time_slices import TimeSlices
from scheduler.core.building_blocks.time_shares.units import TimeShares, Unit
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.plan import Decision
from scheduler.core.model.snapshot import Job, JobId, Memory

#: A tenant and one of its users; jobs without a stated user have one user together.
User = tuple[str, str]
#: GPUs, also fractions of them, by user and model.
Parts = Mapping[User, Mapping[str, float]]
#: By user and model: jobs and what they are owed there, in the order in which they get turns.
Candidates = Mapping[tuple[User, str], Sequence[tuple[float, Unit]]]

#: Digits after the point of GPU-seconds that are remembered.
DIGITS = 3
#: A user's debt is capped at this many quanta of the largest gang. A larger debt comes from time that was not
#: available, and would keep others waiting long after.
MOST_QUANTA = 2.0
#: A running job moves to another model for its own part there only once it is owed this many quanta more than
#: another job of its user, so that jobs of a user do not change places every minute.
MOVE_QUANTA = 10.0


def user_of(job: Job) -> User:
    """Return the user that the job counts for."""
    return job.tenant, job.user


class Stride:
    """GPU-seconds owed by user and model.

    Memory: `at`, `owed`, and the GPUs that users are `holding` after the round, each by tenant, user, model.
    """

    def __init__(self, view: View, memory: Memory) -> None:
        self._view = view
        self._at = float(memory.get("at", view.now))
        self._owed = dict(read_amounts(memory.get("owed", {})))
        self._holding = dict(read_amounts(memory.get("holding", {})))

    def settle(self, parts: Parts) -> None:
        """Record what users should have had since the last round, and what they had.

        The grants of that round count, not what runs now, so the time of jobs that have ended since is
        charged.
        """
        passed = max(0.0, self._view.now - self._at)
        owed: dict[User, dict[str, float]] = {}
        for user in sorted({user_of(job) for job in self._view.jobs.values()}):
            before, part, held = (each.get(user, {}) for each in (self._owed, parts, self._holding))
            owed[user] = dict(before)
            # GPUs of models of which the user has no part count in place of GPUs that it did not take
            # elsewhere.
            extra = sum([gpus for model, gpus in held.items() if not part.get(model)])
            for model, gpus in part.items():
                short = gpus - held.get(model, 0.0)
                made_up = min(extra, max(0.0, short))
                extra -= made_up
                owed[user][model] = before.get(model, 0.0) + (short - made_up) * passed
        self._owed = owed
        self._level(parts)

    def _level(self, parts: Parts) -> None:
        """Spread the users' total debt over them by their parts, so that together they are owed nothing."""
        for model in {model for part in parts.values() for model in part}:
            whole = sum([parts[user].get(model, 0.0) for user in self._owed if user in parts])
            excess = sum([owed.get(model, 0.0) for owed in self._owed.values()])
            if whole > 0:
                for user, owed in self._owed.items():
                    part = parts.get(user, {}).get(model, 0.0)
                    if part:
                        owed[model] -= excess * part / whole

    def owed(self, user: User, model: str) -> float:
        """Return the GPU-seconds that the user is behind its part; negative when it is ahead."""
        return self._owed.get(user, {}).get(model, 0.0)

    def owed_in_all(self, user: User) -> float:
        """Return the GPU-seconds that the user is owed on all models together."""
        return sum(self._owed.get(user, {}).values())

    def bound(self, model: str, most: float) -> None:
        """Forget what any user is owed, or is ahead, beyond `most` GPU-seconds of the model."""
        for owed in self._owed.values():
            if model in owed:
                owed[model] = min(max(owed[model], -most), most)

    def remember(self, decision: Decision) -> dict[str, Any]:
        """Return the memory for the next round, given what was decided in this one."""
        return {
            "at": self._view.now,
            "owed": write_amounts(self._owed, DIGITS),
            "holding": write_amounts(self._held_after(decision), DIGITS),
        }

    def _held_after(self, decision: Decision) -> dict[User, dict[str, float]]:
        view = self._view
        held: dict[User, dict[str, float]] = {}

        def add(jobs: Sequence[JobId], model: str, gpus: int) -> None:
            for job in jobs:
                if job in view.jobs:
                    own = held.setdefault(user_of(view.jobs[job]), {})
                    own[model] = own.get(model, 0.0) + amount_of(view.jobs[job], gpus) / len(jobs)

        leaving = {job for grant in decision.grants for job in grant.jobs}.union(decision.stops)
        for job, running in view.running.items():
            # The first job of a group that shares its GPUs stands for all.
            if job == running.jobs[0] and running.phase == "held" and leaving.isdisjoint(running.jobs):
                add(running.jobs, running.gpu_model, len(running.gpus))
        for grant in decision.grants:
            if grant.gpu_model is not None:
                add(grant.jobs, grant.gpu_model, grant.gpus)
        return held


class StrideTimeSlices(TimeSlices):
    """Turns by the debts to users and, within a user, by the debts to its jobs; `parts`: the users' present
    parts.
    """

    def __init__(
        self,
        view: View,
        run_options: RunOptions,
        deficits: Deficits,
        stride: Stride,
        parts: Parts,
        quantum_seconds: float,
    ) -> None:
        super().__init__(view, run_options, deficits, strict=False)
        self._stride, self._parts, self._quantum_seconds = stride, parts, quantum_seconds

    def serve_due(self, time_shares: TimeShares) -> None:
        """Give turns by stride, on each model to those that have targets there.

        A job that runs on a model as fast for it comes after all others: it moves only when it lost its GPUs.
        """
        candidates, movers = self._candidates(time_shares)
        largest: dict[str, float] = {}
        for (_, model), line in [*candidates.items(), *movers.items()]:
            largest[model] = max(largest.get(model, 0), *[self._gpus(unit) for _, unit in line])
        for model, gpus in largest.items():
            self._stride.bound(model, MOST_QUANTA * gpus * self._quantum_seconds)
        owed = self._owed_soon(sorted({*candidates, *movers}))
        for model, gpus in largest.items():
            unit = self._leader(model, candidates, owed, gpus * self._quantum_seconds)
            if unit is not None and self.give(unit, model):
                owed[user_of(self._view.jobs[unit[0]]), model] -= self._gpus(unit) * self._quantum_seconds
        self._take_turns(candidates, owed)
        self._take_turns(movers, owed)

    def _take_turns(self, candidates: Candidates, owed: dict[tuple[User, str], float]) -> None:
        """Give turns, each time to the user that is owed most, which pays for it."""
        lines = {key: iter(line) for key, line in candidates.items()}
        queue = [(-owed[key], key) for key in candidates]
        heapq.heapify(queue)
        while queue:
            behind, (user, model) = heapq.heappop(queue)
            unit = self._give_first(lines[user, model], model)
            if unit is not None:
                owed[user, model] = -behind - self._gpus(unit) * self._quantum_seconds
                heapq.heappush(queue, (-owed[user, model], (user, model)))

    def _candidates(self, time_shares: TimeShares) -> tuple[Candidates, Candidates]:
        """Return the jobs with a target on a model; and apart from them those for which it is no faster than
        the other model on which they run, with a target there, too.

        A job that runs on another model comes later: its user gets its part of both models whichever job is
        where.
        """
        found: dict[tuple[User, str], list[tuple[Any, ...]]] = {}
        movers: dict[tuple[User, str], list[tuple[Any, ...]]] = {}
        patience = MOVE_QUANTA * self._quantum_seconds
        for (priority, owed, *others), unit, model in self._due(time_shares):
            job, running = self._view.jobs[unit[0]], self._view.running.get(unit[0])
            here = model if running is None else running.gpu_model
            gains = self._run_options.speed(job, model) > self._run_options.speed(job, here)
            lines = found if here == model or gains or here not in time_shares[unit] else movers
            rank = priority, owed + (0.0 if here == model else patience), *others
            lines.setdefault((user_of(job), model), []).append((rank, unit))
        return self._in_order(found), self._in_order(movers)

    def _in_order(self, found: Mapping[tuple[User, str], list[tuple[Any, ...]]]) -> Candidates:
        return {
            key: [(self._deficits.owed(unit, key[1]), unit) for _, unit in sorted(line)]
            for key, line in sorted(found.items())
        }

    def _owed_soon(self, keys: Iterable[tuple[User, str]]) -> dict[tuple[User, str], float]:
        """Return what users would be owed at the end of the quantum if they got nothing more."""
        owed = {
            (user, model): self._stride.owed(user, model)
            + self._parts.get(user, {}).get(model, 0.0) * self._quantum_seconds
            for user, model in keys
        }
        for unit, model in self.chosen.items():
            key = user_of(self._view.jobs[unit[0]]), model
            if key in owed:
                owed[key] -= self._gpus(unit) * self._quantum_seconds
        return owed

    def _leader(
        self,
        model: str,
        candidates: Candidates,
        owed: Mapping[tuple[User, str], float],
        most: float,
    ) -> Unit | None:
        """Return the gang that is furthest behind, if it may go first without putting a user beyond the
        bound.
        """
        behind = [(seconds, user) for (user, where), seconds in owed.items() if where == model]
        overdue = [
            (seconds, unit, user)
            for (user, where), line in candidates.items()
            if where == model and owed[user, where] > 0
            for seconds, unit in line[:1]
            if seconds >= self._quantum_seconds and self._gpus(unit) > 1
        ]
        if not overdue:
            return None
        _, unit, owner = max(overdue, key=lambda entry: (entry[0], entry[1]))
        return unit if all(seconds <= most for seconds, user in behind if user != owner) else None

    def _give_first(self, line: Iterator[tuple[float, Unit]], model: str) -> Unit | None:
        """Give a turn to the first job that fits; those before it fit nowhere until the quantum ends."""
        if self._free.get(model, 0) > 0:
            for _, unit in line:
                if self.give(unit, model):
                    return unit
        return None

    @cached_property
    def line(self) -> list[Job]:
        """All jobs in the order in which users would take turns on left-over GPUs of any model, each one
        charged.
        """
        own: dict[User, list[tuple[tuple[Any, ...], Job]]] = {}
        for job in self._view.jobs.values():
            own.setdefault(user_of(job), []).append((super()._rank(job), job))
        places: list[tuple[float, float, JobId, Job]] = []
        for user, jobs in own.items():
            owed = self._stride.owed_in_all(user)
            for _, job in sorted(jobs, key=lambda entry: entry[0]):
                places.append((-owed, job.submitted_at, job.id, job))
                if job.id not in self._view.running:
                    owed -= amount_of(job) * self._quantum_seconds
        return [job for *_, job in sorted(places, key=lambda place: place[:3])]


def read_amounts(nested: Mapping[str, Any]) -> Iterator[tuple[User, dict[str, float]]]:
    """Yield what is written by tenant, user and model."""
    for tenant, users in nested.items():
        for user, models in users.items():
            # The database returns them in its own order, and sums of floats depend on the order.
            yield (tenant, user), dict(sorted(models.items()))


def write_amounts(amounts: Parts, digits: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return amounts by tenant, user and model, as JSON has it; those of nothing are left out."""
    nested: dict[str, dict[str, dict[str, float]]] = {}
    for (tenant, user), models in sorted(amounts.items()):
        rounded = {model: round(amount, digits) for model, amount in sorted(models.items())}
        if kept := {model: amount for model, amount in rounded.items() if amount}:
            nested.setdefault(tenant, {})[user] = kept
    return nested
