"""The placement of a lease on the view's GPUs: which jobs stay, move, start or leave.

A job that has its turn on the model it runs on keeps exactly its GPUs: its lease is extended, and nothing is
checkpointed (Gavel, section 5). No job stops for a turn that cannot be taken: gangs without a turn leave only
when others need their place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from scheduler.core.building_blocks.ordering import MANY, Outcome, settled_outcome
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.time_slices import TimeSlices, gpus_of
from scheduler.core.building_blocks.time_shares.units import Unit
from scheduler.core.fitting.demand import demand_of_grant, shape_in
from scheduler.core.fitting.holding import Holding
from scheduler.core.fitting.offers import Pending
from scheduler.core.model.plan import Grant, Mode
from scheduler.core.model.snapshot import Job, JobId

#: The most gangs at a time for which others have to move.
MOST_GATHERED = 16


class LeaseSettler:
    """Settles units on a copy of the view's capacity; `changing`: whether running jobs may have to leave."""

    def __init__(self, view: View, run_options: RunOptions, *, changing: bool) -> None:
        self._view, self._run_options = view, run_options
        self._capacity = view.capacity.fork()
        self._grants: list[Grant] = []
        self._settled: set[JobId] = set()
        self._misfits: set[object] = set()
        if not changing:
            self._capacity.keep_all()
            self._settled.update(view.running)
        #: The most GPUs of each model that are available: cheaper to ask than a place.
        self._left = {model: self._capacity.offered(model) for model in self._capacity.models}
        for unit in [unit for unit in self._capacity.pending if unit in self._capacity.pinned]:
            self._keep(unit, self._capacity.pending[unit])

    @property
    def has_room(self) -> bool:
        """Return whether a GPU may still be handed out, or a part of one."""
        return any(left > 0 for left in self._left.values()) or self._capacity.has_open_gpus

    def serve(self, chosen: Mapping[Unit, str], first: Sequence[Unit] = ()) -> None:
        """Give places to units that have turns; to those in `first` before others, which may have to move."""
        self._capacity.pending = self._by_importance(chosen)
        for unit in first:
            self.start(unit, chosen[unit])
        self._extend(chosen)
        for unit, model in chosen.items():
            self.start(unit, model)

    def gangs_without_place(self, chosen: Mapping[Unit, str]) -> list[Unit]:
        """Return units of several GPUs that found no place, at most `MOST_GATHERED`."""
        jobs = self._view.jobs
        left = [unit for unit in chosen if self._settled.isdisjoint(unit)]
        return [unit for unit in left if gpus_of(unit, jobs, self._run_options) > 1][:MOST_GATHERED]

    def gpus_served(self, chosen: Mapping[Unit, str]) -> int:
        """Return the GPUs of the units that have a place."""
        served = [unit for unit in chosen if self._settled.issuperset(unit)]
        return sum([gpus_of(unit, self._view.jobs, self._run_options) for unit in served])

    def _extend(self, chosen: Mapping[Unit, str]) -> None:
        """Extend units that run on the model of their turn."""
        for unit, model in chosen.items():
            holding = self._capacity.pending.get(unit)
            if holding is None or holding.model != model or not self._capacity.may_stay(holding):
                continue
            self._keep(unit, holding)
        if len(self._capacity.pending) > MANY:
            # The order in which these jobs leave does not matter: those with room stay in the end.
            for holding in list(self._capacity.pending.values()):
                self._capacity.drop(holding)

    def start(self, unit: Unit, model: str) -> bool:
        """Start or move the unit if it fits on that model; others that have no place yet may have to
        leave.
        """
        if not self._settled.isdisjoint(unit):
            return False
        gpus, jobs = gpus_of(unit, self._view.jobs, self._run_options), self._view.jobs
        has_parts = jobs[unit[0]].has_parts
        if gpus > self._left[model] and not has_parts:
            return False
        shape = tuple([shape_in(self._capacity.cluster, jobs[job]) for job in unit]), gpus, model
        if shape in self._misfits:
            return False
        mode = Mode.EXCLUSIVE if len(unit) == 1 else Mode.PACK
        grant = Grant(jobs=unit, gpus=gpus, gpu_model=model, mode=mode)
        fit = self._capacity.find(demand_of_grant(grant, jobs, self._capacity.cluster))
        if fit is None:
            self._misfits.add(shape)
            return False
        self._capacity.take(fit)
        # Parts are not counted: the number of GPUs that they open is known only after placement.
        self._left[model] -= 0 if has_parts else gpus
        for held in [held for held in self._capacity.pending if not set(held).isdisjoint(unit)]:
            self._capacity.drop(self._capacity.pending[held])
            self._misfits.clear()
        self._grants.append(grant)
        self._settled.update(unit)
        return True

    def spare_others(self) -> None:
        """Let each job stay whose place no other job took."""
        for jobs, holding in list(self._capacity.pending.items()):
            if self._capacity.may_stay(holding):
                self._keep(jobs, holding)

    def fill(self, jobs: Iterable[Job], turns: TimeSlices, waiting_for: Collection[JobId] = ()) -> None:
        """Start jobs on idle GPUs, each on the fastest model with room; jobs in `waiting_for` do not
        start.
        """
        for job in jobs:
            if not self.has_room:
                return
            if job.id not in self._settled and job.id not in waiting_for:
                any(self.start((job.id,), model) for model in turns.preferred(job))

    def outcome(self, line: Sequence[Job]) -> Outcome:
        """Return the outcome; `line`: all jobs of the view in the order in which they are served."""
        return settled_outcome(self._view, self._grants, self._settled, [job.id for job in line])

    def _keep(self, unit: Unit, holding: Holding) -> None:
        self._capacity.keep(holding)
        self._left[holding.model] -= 0 if holding.shared else holding.gpus
        self._settled.update(unit)

    def _by_importance(self, chosen: Mapping[Unit, str]) -> Pending:
        """Return the holdings, those without a turn last; the last ones are the first victims."""
        pending = dict(self._capacity.pending)
        ranked = {unit: pending.pop(unit) for unit in chosen if unit in pending}
        return ranked | pending
