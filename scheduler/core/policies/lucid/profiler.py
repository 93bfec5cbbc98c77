"""Short runs of new jobs on a few GPUs that are kept for them (Lucid, ASPLOS'23, section 3.2).

New jobs run there for a while, those with the fewest GPUs first; no job passes the first that does not fit. A
job that ends meanwhile is done, so a user who tries something out has the answer at once. Any other is
stopped and waits with the others, its profile known. Time-aware scaling: while more than ten wait for the
profiler it borrows GPUs from the others, and gives them back when fewer than five wait and little more is
expected. Deviations from the paper and its authors' simulator:

- The profiler is a number of GPUs of the model of which the view has most, not nodes of its own: the other
  jobs have that many fewer. A job that does not accept that model, or is too large for the profiler, skips
  it. So does a job that never shares GPUs whatever its profile: one with more than `most_gpus`, elastic, with
  parts of GPUs, or after a trial run. The profiler shrinks so that the largest gang of the view always has
  the GPUs that it needs. An elastic gang for which the whole view is too small needs its fewest.
- If a job's turn among the others has come when its time is up, it goes on in place and keeps its progress.
  In the authors' simulator every job starts again.
- A new job for which the profiler has enough GPUs, but none where it may run, is served with the others.
- Priority comes before the number of GPUs.
- The load expected in ten minutes is the mean of the last hour; the authors fit an additive model to the
  calendar.
- A job is profiled once, even if it was interrupted there. If the memory is lost, the jobs there go on as
  ordinary jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.core.building_blocks.ordering import Outcome, Starts, anywhere, waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.demand import amount_of, least_gpus, models_of, sizes_of
from scheduler.core.fitting.holding import Holding
from scheduler.core.model import wording
from scheduler.core.model.plan import Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId

#: With more than `_CROWD` waiting it borrows; with fewer than `_CALM` it gives back, unless more than
#: `_FULL_TIMES` the GPUs of the largest profiled job are expected in an interval.
_CROWD, _CALM, _FULL_TIMES = 10, 5, 5
#: Intervals of ten minutes, and the hour of them from which the next is predicted.
_INTERVAL_SECONDS, _INTERVALS = 600.0, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """GPUs of the profiler, those it may borrow, and GPUs of the largest job there; seconds of a run."""

    gpus: int
    lent_gpus: int
    most_gpus: int
    seconds: float


class Profiler:
    """The profiler of a view in a round. `known`: its memory; `is_new`: whether a job has yet to be profiled,
    by its own facts.
    """

    def __init__(
        self, terms: Terms, view: View, known: Mapping[str, Any], is_new: Callable[[Job], bool]
    ) -> None:
        self._terms, self._view = terms, view
        offered = {model: view.capacity.offered(model) for model in view.capacity.models}
        self._model = min(offered, key=lambda model: (-offered[model], model))
        self._most = offered[self._model]
        self._largest = self._largest_gang(offered)
        self._lent = bool(known.get("lent"))
        self._at = float(known.get("at", view.now - _INTERVALS * _INTERVAL_SECONDS))
        self._came = self._submissions(known.get("came", ()))
        #: Jobs in the profiler.
        self._sent = [JobId(job) for job in known.get("profiling", ()) if job in view.running]
        self._is_new = is_new
        there = {gpu for job in self._sent for gpu in view.running[job].gpus}
        #: GPUs that profiled jobs have; GPUs of the model that others have.
        self._used: int = len(there)
        self._others: float = len(
            {
                gpu
                for running in view.running.values()
                if running.gpu_model == self._model
                for gpu in running.gpus
            }
            - there
        )
        #: Jobs that wait for the profiler and may not use the GPUs kept for it.
        self.waiting: list[JobId] = []
        self._kept_off: set[JobId] = set()
        self._stopped: list[JobId] = []

    @property
    def alone(self) -> frozenset[JobId]:
        """Jobs that neither host a guest nor become one in this round."""
        return frozenset([*self._sent, *self._stopped, *self.waiting])

    @property
    def _size(self) -> int:
        lent = self._terms.lent_gpus if self._lent else 0
        return max(0, min(self._terms.gpus + lent, self._most - self._largest))

    def serve(self, rank: Callable[[Job], tuple[Any, ...]]) -> Outcome:
        """Serve the other jobs by rank, including those whose time in the profiler is up, then the profiler's
        jobs.
        """
        view, capacity = self._view, self._view.capacity.fork()
        done = {
            job: view.running[job].jobs
            for job in self._sent
            if self._is_over(job) and view.running[job].jobs not in capacity.pinned
        }
        capacity.keep_all(but=done)
        # A job whose time is up makes room for no other before it is known whether it stays.
        there = {job: capacity.pending.pop(jobs) for job, jobs in done.items()}
        new = [job for job in waiting_jobs(view) if self._goes_there(job)]
        self._return(len(new))
        ids = {job.id for job in new}
        line = [job for job in waiting_jobs(view) if job.id not in ids]
        line = sorted([*line, *(view.jobs[job] for job in done)], key=rank)
        starts, grants = Starts(capacity, anywhere), list[Grant]()
        for job in line:
            if job.id in done:
                self._keep_or_stop(job, there[job.id], starts)
            else:
                grants += self._start(job, starts)
        if self._stopped:
            # Another job may fit where these were.
            starts, started = Starts(capacity, anywhere), {grant.jobs[0] for grant in grants}
            for job in line:
                if job.id not in done and job.id not in started:
                    grants += self._start(job, starts)
        new.sort(key=lambda job: (-job.priority, job.gpus, job.submitted_at, job.id))
        rest = self._profile(new, starts, grants)
        if len(rest) > _CROWD and not self._lent and self._terms.lent_gpus:
            self._lent = True
            rest = self._profile(rest, starts, grants)
        self.waiting = [job.id for job in rest]
        placed = {grant.jobs[0] for grant in grants}.union(self.waiting, done).difference(self._stopped)
        queue = [job.id for job in (*line, *new) if job.id not in placed]
        return Outcome(grants=tuple(grants), queue=(*queue, *self.waiting), stops=tuple(self._stopped))

    def memory(self) -> dict[str, Any]:
        """Return what is to be remembered; plain values."""
        return {
            "policy": "lucid",
            "profiling": sorted([*self._sent, *self._stopped]),
            "lent": self._lent,
            "at": self._view.now,
            "came": [[interval, gpus] for interval, gpus in sorted(self._came.items())],
        }

    def wake_at(self, *, someone_waits: bool) -> float | None:
        """Return when the time of a job is up, or borrowed GPUs may go back; None: neither."""
        view, instants = self._view, []
        for job in self._sent:
            running = view.running.get(job)
            if running is None:
                instants.append(view.now + self._terms.seconds)
            elif not running.is_nominated and not self._is_over(job):
                instants.append(running.since + self._terms.seconds)
        if self._lent and someone_waits:
            instants.append((view.now // _INTERVAL_SECONDS + 1) * _INTERVAL_SECONDS)
        return min(instants, default=None)

    def reasons(self, others: Reason) -> dict[JobId, tuple[Reason, ...]]:
        """Return the reasons of the jobs that the profiler concerns; `others`: why a job waits with the
        others.
        """
        kept = wording.gpus(self._size, [self._model])
        found: dict[JobId, tuple[Reason, ...]] = {}
        for job in self.waiting:
            found[job] = (_waits(kept, self._terms.seconds, self._size),)
        for job in self._kept_off:
            found[job] = (_kept_for_profiling(kept, self._size), others)
        for job in self._stopped:
            found[job] = (_profiled(self._terms.seconds), others)
        return found

    # Who goes where

    def _goes_there(self, job: Job) -> bool:
        return (
            self._is_new(job)
            and job.gpus <= min(self._terms.most_gpus, self._size)
            and self._model in models_of(job, self._view.capacity.cluster)
        )

    def _is_over(self, job: JobId) -> bool:
        running = self._view.running[job]
        ran = self._view.now - running.since
        return not running.is_nominated and ran >= self._terms.seconds - INSTANT_SECONDS

    def _has_room(self, gpus: float, leaving: int = 0) -> bool:
        """Whether the others may have `gpus` more GPUs of the model, if `leaving` leave the profiler."""
        return self._others + gpus <= self._most - max(self._size, self._used - leaving)

    def _keep_or_stop(self, job: Job, holding: Holding, starts: Starts) -> None:
        """Let a job whose time is up go on as one of the others if these may have its GPUs, else stop it."""
        running, capacity = self._view.running[job.id], starts.capacity
        is_elsewhere = running.gpu_model != self._model
        capacity.pending[running.jobs] = holding
        self._sent.remove(job.id)
        if capacity.may_stay(holding) and (is_elsewhere or self._has_room(job.gpus, job.gpus)):
            capacity.keep(holding)
            self._others += 0 if is_elsewhere else job.gpus
        else:
            capacity.drop(holding)
            self._stopped.append(job.id)
        self._used -= job.gpus

    def _start(self, job: Job, starts: Starts) -> list[Grant]:
        """Start one of the others, if it fits beside the profiler."""
        if starts.exhausted:
            return []
        accepted = models_of(job, self._view.capacity.cluster)
        if self._model in accepted and self._has_room(amount_of(job, self._needs(job))):
            job = self._beside(job)
        elif self._model in accepted:
            self._kept_off.add(job.id)
            job = replace(job, gpu_models=tuple([model for model in accepted if model != self._model]))
            if not job.gpu_models:
                return []
        started = starts.start(job)
        if started is None:
            return []
        grant, holding = started
        self._kept_off.discard(job.id)
        if holding.model == self._model:
            self._others += amount_of(job, grant.gpus)
        return [replace(grant, gpu_model=holding.model)]

    def _beside(self, job: Job) -> Job:
        """Limit a gang for which the view is too small to the room beside the profiler."""
        if job.elastic is None or self._needs(job) == job.gpus:
            return job
        least, _ = job.elastic
        return replace(job, elastic=(least, max(filter(self._has_room, sizes_of(job)), default=least)))

    def _profile(self, new: Sequence[Job], starts: Starts, grants: list[Grant]) -> Sequence[Job]:
        """Start these jobs in the profiler, in their order, and return those that wait for it."""
        for place, job in enumerate(new):
            if job.gpus > self._size - self._used:
                return new[place:]
            started = starts.start(replace(job, gpu_models=(self._model,)))
            if started is None:
                grants += self._start(job, starts)
                continue
            grants.append(replace(started[0], gpu_model=self._model))
            self._sent.append(job.id)
            self._used += job.gpus
        return ()

    # How large it is

    def _largest_gang(self, offered: Mapping[str, int]) -> int:
        """Return the GPUs of the model without which some gang of the view could never start."""
        largest, cluster = 0, self._view.capacity.cluster
        for job in self._view.jobs.values():
            gpus = self._needs(job)
            if largest < gpus <= self._most:
                accepted, replica = models_of(job, cluster), max([task.gpus for task in job.tasks])
                elsewhere = [
                    offered[model]
                    for model in accepted
                    if model != self._model and cluster.fleets[model].largest_node >= replica
                ]
                if self._model in accepted and gpus > max(elsewhere, default=0):
                    largest = gpus
        return largest

    def _needs(self, job: Job) -> int:
        """Return the GPUs without which a gang waits: its own size, or its fewest if the view has less."""
        return job.gpus if job.gpus <= self._most else least_gpus(job)

    def _submissions(self, known: Sequence[Sequence[int]]) -> dict[int, int]:
        """Return how many GPUs the jobs submitted in the last hour asked for, by interval."""
        now = self._view.now
        came = {int(interval): int(gpus) for interval, gpus in known}
        for job in self._view.jobs.values():
            if self._at < job.submitted_at <= now:
                interval = int(job.submitted_at // _INTERVAL_SECONDS)
                came[interval] = came.get(interval, 0) + job.gpus
        first = int(now // _INTERVAL_SECONDS) - _INTERVALS
        return {interval: gpus for interval, gpus in came.items() if interval > first}

    def _return(self, waiting: int) -> None:
        """Give back what was borrowed, if it is not needed."""
        expected = sum(self._came.values()) / _INTERVALS
        most = min(self._terms.most_gpus, self._terms.gpus)
        if waiting < _CALM and self._used <= self._terms.gpus and expected <= _FULL_TIMES * most:
            self._lent = False


def _waits(kept: str, seconds: float, gpus: int) -> Reason:
    return Reason(
        code="waits_for_profiler",
        tier=Tier.ORDER,
        message=f"It is to be profiled first, for {seconds:g} s at most; jobs with fewer GPUs, or that came"
        f" earlier, have the {kept} for that.",
        blocking={"gpus": gpus},
    )


def _kept_for_profiling(kept: str, gpus: int) -> Reason:
    return Reason(
        code="kept_for_profiling",
        tier=Tier.ORDER,
        message=f"{kept} are reserved for profiling new jobs.",
        blocking={"gpus": gpus},
    )


def _profiled(seconds: float) -> Reason:
    return Reason(
        code="profiled",
        tier=Tier.ORDER,
        message=f"It was profiled for {seconds:g} s, and waits with the others now.",
    )
