"""Turns: which unit runs on which GPU model until the lease ends, by counting GPUs.

First come units that are owed time on a model, the largest deficit first, in one list over all models as in
Gavel's algorithm 1 (section 5); a running unit is ahead by what leaving would cost it. What is left over goes
to units without a turn, each on the model that is fastest for it. A unit with a turn on a model moves up to a
faster one that would stay idle. Gavel's code walks model by model instead, so that at low load a job takes an
idle V100 before the jobs that gain most from it are considered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from scheduler.core.building_blocks.entitlement import NOTHING
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.deficits import Deficits
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.units import SHARE_DIGITS, TimeShares, Unit
from scheduler.core.model.snapshot import Job, JobId

#: The speedup that justifies moving a running job to another model.
WORTH_MOVING = 1.1


class TimeSlices:
    """Which unit runs on which model in the coming lease. `strict`: the higher priority goes first."""

    def __init__(
        self, view: View, run_options: RunOptions, deficits: Deficits, *, strict: bool, random: bool = False
    ) -> None:
        self._view, self._run_options, self._deficits, self._strict = view, run_options, deficits, strict
        self._models = list(run_options.gpus)
        if random:
            view.rng.shuffle(self._models)
        self._free: dict[str, float] = dict(run_options.gpus)
        #: The units that have a turn, and their models; the most important unit first.
        self.chosen: dict[Unit, str] = {}
        self._taken: set[JobId] = set()

    def give(self, unit: Unit, model: str) -> bool:
        """Give the unit its turn if there is room, and none of its jobs has one."""
        gpus = self._gpus(unit)
        if gpus > self._free.get(model, 0) + NOTHING or not self._taken.isdisjoint(unit):
            return False
        self._free[model] -= gpus
        self._taken.update(unit)
        self.chosen[unit] = model
        return True

    def serve_due(self, time_shares: TimeShares) -> None:
        """Give turns to units that are owed time on a model."""
        for _, unit, model in sorted(self._due(time_shares)):
            self.give(unit, model)

    def serve_others(self, settled: Collection[JobId] = ()) -> None:
        """Hand out left-over GPUs: to units without a turn, then to units that are faster elsewhere.

        A `settled` job stays on its chosen model.
        """
        jobs = [job for job in self.line if self._run_options.of(job)]
        for _ in self._models:
            for job in jobs:
                if job.id not in self._taken and any(self._free.values()):
                    any(self.give((job.id,), model) for model in self.preferred(job))
            if not self._move_up(settled):
                return

    @cached_property
    def line(self) -> list[Job]:
        """All jobs in the order in which they get left-over GPUs: the job that is owed most first."""
        return sorted(self._view.jobs.values(), key=self._rank)

    def preferred(self, job: Job) -> Sequence[str]:
        """Return the models on which the job can run, the fastest first; its present model first if about as
        fast.
        """
        speed = {model: self._run_options.speed(job, model) for model in self._models}
        running = self._view.running.get(job.id)
        if running is not None and running.gpu_model in speed:
            speed[running.gpu_model] *= WORTH_MOVING
        return sorted([model for model in self._models if speed[model] > 0], key=lambda model: -speed[model])

    def _due(self, time_shares: TimeShares) -> Iterable[tuple[tuple[Any, ...], Unit, str]]:
        jobs, owed = self._view.jobs, self._deficits.owed
        for unit, shares in time_shares.items():
            if all(job in jobs and self._run_options.of(jobs[job]) for job in unit):
                first = min([(jobs[job].submitted_at, job) for job in unit])
                priority = max([jobs[job].priority for job in unit]) if self._strict else 0
                for model, share in shares.items():
                    speed = max([self._run_options.speed(jobs[job], model) for job in unit])
                    lead = owed(unit, model) + self._deficits.worth_staying(unit, model)
                    yield (-priority, -lead, -round(share, SHARE_DIGITS), first, -speed), unit, model

    def _rank(self, job: Job) -> tuple[Any, ...]:
        unit = (job.id,)
        deficits, models = self._deficits, self._models
        owed = sum([deficits.owed(unit, model) + deficits.worth_staying(unit, model) for model in models])
        return -job.priority if self._strict else 0, -owed, job.submitted_at, job.id

    def _move_up(self, settled: Collection[JobId]) -> bool:
        """Let jobs move to idle GPUs on which they are faster, those that gain most first."""
        gains = []
        for unit, model in self.chosen.items():
            if len(unit) > 1 or unit[0] in settled:
                continue
            job = self._view.jobs[unit[0]]
            here = self._run_options.speed(job, model)
            for better in self.preferred(job):
                there = self._run_options.speed(job, better)
                if there >= here * WORTH_MOVING and self._free[better] + NOTHING >= self._gpus(unit):
                    gains.append((here / there, unit, better))
        moved = set()
        for _, unit, better in sorted(gains):
            if unit not in moved and self._free[better] + NOTHING >= self._gpus(unit):
                self._free[self.chosen[unit]] += self._gpus(unit)
                self._free[better] -= self._gpus(unit)
                self.chosen[unit] = better
                moved.add(unit)
        return bool(moved)

    def _gpus(self, unit: Unit) -> float:
        return amount_of_unit(unit, self._view.jobs, self._run_options)


def gpus_of(unit: Unit, jobs: Mapping[JobId, Job], run_options: RunOptions) -> int:
    """Return the GPUs that the unit takes; its jobs, if several, take as many each."""
    run_option = run_options.of(jobs[unit[0]])
    assert run_option is not None
    return run_option.gpus


def amount_of_unit(unit: Unit, jobs: Mapping[JobId, Job], run_options: RunOptions) -> float:
    """Return the same GPUs; a part of a GPU counts as a fraction."""
    run_option = run_options.of(jobs[unit[0]])
    assert run_option is not None
    return run_option.amount
