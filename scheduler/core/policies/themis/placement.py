"""Where jobs run: winners and leftovers made real on a copy of the view's capacity.

A job that won on the model that it runs on keeps exactly its GPUs. Others leave only as far as their GPUs are
needed. First jobs leave by counting, those with the least claim first. If gangs still find no place because
free GPUs are fragmented, every job whose lease has ended makes room, and returns where no other job took its
place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler.core.building_blocks.ordering import Outcome, settled_outcome
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.units import Unit
from scheduler.core.fitting.demand import demand_of_grant, shape_in
from scheduler.core.fitting.holding import Holding, together
from scheduler.core.model.plan import Grant, Locality
from scheduler.core.model.snapshot import Job, JobId


class LeasePlacement:
    """Places jobs one after the other; jobs of `movable` holdings may have to leave, all others stay."""

    def __init__(self, view: View, run_options: RunOptions, movable: Iterable[Unit]) -> None:
        self._view, self._run_options = view, run_options
        self.capacity = view.capacity.fork()
        #: Jobs that may have to leave; the one with the least claim comes last.
        self._movable: dict[Unit, Holding] = {}
        for unit in movable:
            self._movable[unit] = self.capacity.pending[unit]
        self.capacity.keep_all(but=[job for unit in self._movable for job in unit])
        # Jobs that may have to leave later block no placement yet, and nothing is taken from them.
        self.capacity.pending = {}
        self._own: dict[str, int] = {}
        self._has_parts = any([holding.shared for holding in self._movable.values()])
        for holding in self._movable.values():
            self._own[holding.model] = self._own.get(holding.model, 0) + holding.gpus
        self._gone: dict[Unit, Holding] = {}
        self._grants: list[Grant] = []
        self._settled = {job for job in view.running if view.running[job].jobs not in self._movable}
        self._misfits: set[object] = set()

    @property
    def has_room(self) -> bool:
        """Return whether a GPU, or a part of one, may still be handed out without a job leaving."""
        return any(self.free(model) > 0 for model in self.capacity.models) or self.capacity.has_open_gpus

    def free(self, model: str) -> int:
        """Return the GPUs that are available without a job of this view leaving."""
        capacity, own = self.capacity, self._own.get(model, 0)
        if self._has_parts:
            movable = [holding for holding in self._movable.values() if holding.model == model]
            own = together(movable, has_parts=True)
        return min(capacity.offered(model), capacity.room(model) - own)

    def stay(self, job: JobId, model: str) -> bool:
        """Let a job stay if it runs alone on that model."""
        holding = self._movable.get((job,))
        if holding is None or holding.model != model or not self._may_stay(holding):
            return False
        self._keep((job,))
        return True

    def _may_stay(self, holding: Holding) -> bool:
        if holding.gpus <= self.capacity.room(holding.model):
            return True
        # Other jobs that stay may have opened the GPUs of which it has parts.
        return bool(holding.shared) and self.capacity.may_stay(holding)

    def make_room(self, needed: Mapping[str, float], movers: Iterable[JobId]) -> None:
        """Remove the jobs that move, then others, until this many GPUs of each model are free."""
        for job in movers:
            held = self._view.running.get(job)
            if held is not None and held.jobs in self._movable:
                self._leave(held.jobs)
        short = {model: gpus - self.free(model) for model, gpus in needed.items()}
        for unit, holding in reversed(list(self._movable.items())):
            if short.get(holding.model, 0) > 0:
                short[holding.model] -= holding.amount
                self._leave(unit)

    def clear(self, model: str) -> None:
        """Remove all movable jobs from a model; `settle_back` returns those whose place is still free."""
        for unit in [unit for unit, holding in self._movable.items() if holding.model == model]:
            self._leave(unit)

    def settle_back(self, units: Iterable[Unit]) -> list[Unit]:
        """Return jobs to their places where these are free; return the jobs that stay."""
        back = []
        for unit in units:
            if not self._settled.isdisjoint(unit):
                continue
            holding = self._movable.get(unit)
            if holding is not None:
                if not self._may_stay(holding):
                    continue
                self._keep(unit)
            elif unit not in self._gone or not self.capacity.give_back(self._gone.pop(unit)):
                continue
            self._settled.update(unit)
            back.append(unit)
        return back

    def start(self, job: Job, model: str, locality: Locality = Locality.ANY) -> bool:
        """Start the job on that model, or move it there, on GPUs that are free."""
        run_option = self._run_options.of(job)
        if run_option is None or job.id in self._settled:
            return False
        if run_option.gpus > self.free(model) and not job.has_parts:
            return False
        shape = shape_in(self.capacity.cluster, job), model, locality
        if shape in self._misfits:
            return False
        grant = Grant(jobs=(job.id,), gpus=run_option.gpus, gpu_model=model, locality=locality)
        fit = self.capacity.find(demand_of_grant(grant, self._view.jobs, self.capacity.cluster))
        if fit is None:
            self._misfits.add(shape)
            return False
        self.capacity.take(fit)
        self._grants.append(grant)
        self._settled.add(job.id)
        return True

    def take(self, job: Job, model: str, locality: Locality) -> bool:
        """Start the job likewise; where free GPUs are too fragmented, first remove all movable jobs from the
        model.
        """
        if self.start(job, model, locality):
            return True
        self.clear(model)
        return self.start(job, model, locality) or self.start(job, model)

    def is_settled(self, job: JobId) -> bool:
        """Return whether the job has a place from now on."""
        return job in self._settled

    def outcome(self, line: Sequence[JobId]) -> Outcome:
        """Return the outcome; `line`: all jobs of the view in the order in which they are served."""
        return settled_outcome(self._view, self._grants, self._settled, line)

    def _keep(self, unit: Unit) -> None:
        holding = self._remove(unit)
        self.capacity.pending[unit] = holding
        self.capacity.keep(holding)
        self._settled.update(unit)

    def _leave(self, unit: Unit) -> None:
        holding = self._gone[unit] = self._remove(unit)
        self.capacity.drop(holding)
        self._misfits.clear()

    def _remove(self, unit: Unit) -> Holding:
        holding = self._movable.pop(unit)
        self._own[holding.model] -= holding.gpus
        return holding
