"""AlloX: give each job the GPU model, and the position in its queue, with which all jobs end soonest on
average.

T. Le, X. Sun, M. Chowdhury and Z. Liu, "AlloX: Compute Allocation in Hybrid Clusters", EuroSys 2020. Jobs run
on any of several models at different speeds. A matching of jobs to (GPU, position from the end) of least cost
is the schedule with the least sum of completion times (section 3.1, see `core.policies.allox.matching`). Jobs
that come first on an idle GPU start; everything else is planned again at each event (3.2). So a job may wait
for a fast model though a slow one is idle, if it ends sooner so. Fairness (3.3): only the fraction `alpha` of
the tenants, those with the least progress, takes part, at least one tenant; 1 turns this off. As in the paper
no running job is preempted or moved; its expected end only gives the time at which its GPUs are free.
Deviations and choices:

- Gangs: the paper's jobs take one machine each. Here the GPUs of a model are lanes as wide as the mean gang
  that waits, and a gang that is n times wider than a lane delays those behind it n times as long. A gang of
  width w and run time p, k-th from the end, costs p (1 + (k - 1) w / w'), where w' is the mean width. For
  jobs of one width that is the paper's cost; in general it is the order by GPU-seconds, which would be best
  if gangs could share the GPUs of a model in any fractions. A gang is ready when it would fit by the expected
  ends of what runs.
- Ties: the paper does not say which of several best plans it takes. Here jobs with the least work start
  first.
- A gang that comes first and does not fit now reserves the instant at which it will (EASY backfilling);
  others of its model start before it only when that does not delay it. The paper needs no reservation.
- Run times: `core.building_blocks.run_time`, which states the assumptions about unknown speeds. `reference`
  is the model on which estimates hold; empty: the fastest of those for which the job states its speed. The
  paper's estimator, which profiles samples of a job, is left out.
- Size: at most `window` jobs of a priority are matched at a time, the shortest on each model by turns, as in
  the authors' simulator (it takes 50). More are matched only when those have started.
- Fairness: the authors score a user by the dominant share of what it holds on its faster resource, less where
  it runs on the slower one. Here a tenant's score is the part that it holds of the GPUs of its jobs' fastest
  models, times the jobs' speed relative to those models, divided by its weight. Scores are computed again
  after each eighth of the idle GPUs. Where the chosen tenants can start nothing, `alpha` doubles until all
  take part (an option of the authors' code): no GPU is idle for fairness's sake.
- Higher priority first: each priority is planned separately, behind what is planned for those above it.
- A gang that is elastic is planned at its own size and starts at the largest that fits.
- Starvation: with `alpha` at 1 long jobs starve on an endless stream of short ones. Below it every tenant is
  served in turn; within a tenant long jobs may still starve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduler.core.building_blocks.backfill import BackfillReservation
from scheduler.core.building_blocks.ordering import waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import (
    left_seconds,
    relative_speeds,
    runs_nowhere,
    size_speed,
    start_seconds,
)
from scheduler.core.building_blocks.sharing import weights_of
from scheduler.core.fitting.demand import amount_of, demand_of, shape_in, sizes_of
from scheduler.core.fitting.holding import Fit, together
from scheduler.core.model.plan import Decision, Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory
from scheduler.core.policies.allox import matching
from scheduler.core.policies.allox.matching import Floats
from scheduler.core.policies.allox.releases import End, Releases, free_after, lanes_of

#: With a fairness filter, idle GPUs are handed out in this many steps; scores are computed again after each.
STEPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AlloX:
    """Least sum of completion times over GPU models, within priorities; nothing that runs is disturbed."""

    #: No job stops, moves or shares GPUs for one that starts.
    only_starts: ClassVar[bool] = True

    #: Part of the tenants, those with the least progress, that take part; 1: no fairness.
    alpha: float = 1.0
    #: Jobs that are matched at a time, so that a long queue costs a bounded time.
    window: int = 256
    #: GPU model on which estimates and limits hold; empty: each job's fastest.
    reference: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise ValueError("alpha must be above 0 and at most 1")
        if self.window < 1:
            raise ValueError("window must be at least 1")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep what runs; start the jobs that come first on idle GPUs in the best plan."""
        waiting = sorted(waiting_jobs(view), key=lambda job: (-job.priority, job.submitted_at, job.id))
        if not waiting:
            return Decision(grants=(), keep_running=True)
        starts = _Starts(view, self.reference)
        planning = _Planner(view, starts, waiting, self)
        for priority in sorted({job.priority for job in waiting}, reverse=True):
            planning.serve([job for job in waiting if job.priority == priority])
        return Decision(
            grants=tuple(starts.grants),
            reasons=planning.reasons,
            queue=tuple(planning.queue),
            keep_running=True,
            wake_at=starts.wake_at if planning.queue else None,
        )


@dataclass(frozen=True, slots=True)
class _PlanEntry:
    """A job's part of the plan."""

    job: Job
    model: str
    #: Seconds until it starts, and from then until it ends.
    start: float
    seconds: float

    @property
    def rank(self) -> tuple[float, float, float, JobId]:
        return self.start, self.seconds, self.job.submitted_at, self.job.id


class _Starts:
    """Idle GPUs, the ends of running jobs, and the jobs that start; the capacity only shrinks."""

    def __init__(self, view: View, reference: str) -> None:
        self.capacity = view.capacity.fork()
        self.capacity.keep_all()
        self.grants: list[Grant] = []
        #: By model: what runs or starts there.
        self.ends: dict[str, list[End]] = {model: [] for model in self.capacity.models}
        self._view = view
        self._reservations: dict[str, BackfillReservation] = {}
        # What did not fit, or delayed a reservation, will do so again: the capacity only shrinks.
        self._refused: set[object] = set()
        for jobs, holding in view.capacity.pending.items():
            running, default = holding.running, view.default_time_limit_seconds
            assert running is not None
            left = [left_seconds(view.jobs[job], running, view.now, default, reference) for job in jobs]
            self.ends[holding.model].append((max(left), holding))

    @property
    def idle(self) -> int:
        """How many GPUs may still be handed out."""
        return sum([self.capacity.offered(model) for model in self.capacity.models])

    @property
    def wake_at(self) -> float | None:
        """When the next job is expected to end, a round from now at the earliest; None when no GPUs are
        idle.
        """
        ends = [seconds for ends in self.ends.values() for seconds, _ in ends]
        if not ends or not self.idle:
            return None
        return self._view.now + max(self._view.round_seconds, min(ends))

    def start(self, planned: _PlanEntry) -> bool:
        """Start the job where it is planned if it fits, and delays no gang that is ahead of it."""
        job, model = planned.job, planned.model
        shape = shape_in(self.capacity.cluster, job), model
        if shape in self._refused or not self._has_room(job, model):
            return False
        fit = self._find(job, model)
        if fit is not None and self._keeps_reservation(planned, fit):
            self.capacity.take(fit)
            self.grants.append(Grant(jobs=(job.id,), gpus=fit.holding.gpus, gpu_model=model))
            self.ends[model].append((_stretched(planned, fit), fit.holding))
            return True
        if fit is None:
            self._refused.add(shape)
            if model not in self._reservations:
                smallest = demand_of(job, self.capacity.cluster, sizes_of(job)[-1], model)
                ends = sorted(self.ends[model], key=lambda end: end[0])
                reservation = BackfillReservation(smallest, self.capacity, ends, soonest=0.0)
                self._reservations[model] = reservation
        return False

    def has_room_for(self, jobs: Iterable[Job]) -> bool:
        """Return whether a GPU may still be handed out, or a part of one to one of these jobs."""
        return self.idle > 0 or (self.capacity.has_open_gpus and any(job.has_parts for job in jobs))

    def _has_room(self, job: Job, model: str) -> bool:
        return self.capacity.offered(model) > 0 or (job.has_parts and self.capacity.has_open_gpus)

    def _find(self, job: Job, model: str) -> Fit | None:
        for size in sizes_of(job):
            fit = self.capacity.find(demand_of(job, self.capacity.cluster, size, model))
            if fit is not None:
                return fit
        return None

    def _keeps_reservation(self, planned: _PlanEntry, fit: Fit) -> bool:
        reservation = self._reservations.get(planned.model)
        if reservation is None or reservation.outlasts(_stretched(planned, fit)):
            return True
        breaks = shape_in(self.capacity.cluster, planned.job), planned.model, "outlasts"
        if breaks in self._refused:
            return False
        if reservation.spares(fit):
            return True
        self._refused.add(breaks)
        return False


def _stretched(planned: _PlanEntry, fit: Fit) -> float:
    """Return how long the job runs at the size it gets."""
    return planned.seconds / size_speed(planned.job, planned.model, fit.holding.gpus)


class _Planner:
    """Plans for the jobs that wait, priority by priority."""

    def __init__(self, view: View, starts: _Starts, waiting: Sequence[Job], policy: AlloX) -> None:
        self.queue: list[JobId] = []
        self.reasons: dict[JobId, tuple[Reason, ...]] = {}
        self._starts, self._policy = starts, policy
        capacity, default = starts.capacity, view.default_time_limit_seconds
        self._models = [
            model
            for model in capacity.models
            if capacity.offered(model) or starts.ends[model] or capacity.has_open_gpus
        ]
        self._seconds: dict[JobId, Floats] = {}
        for job in waiting:
            known = start_seconds(job, capacity.models, default, policy.reference)
            self._seconds[job.id] = np.array([known.get(model, math.inf) for model in self._models])
            if not known:
                self.reasons[job.id] = (runs_nowhere(job),)
        self._progress = _Progress(view, starts)
        self._releases: list[Releases] = []
        #: By model: the seconds until each GPU has served the priorities planned already; `_then`: and this
        #: one.
        self._free: dict[str, Floats] = {}
        self._then: dict[str, Floats] = {}

    def serve(self, jobs: Sequence[Job]) -> None:
        """Plan and start jobs of one priority."""
        starts, alpha, waiting = self._starts, self._policy.alpha, list(jobs)
        step = max(1, starts.idle if alpha >= 1 else -(-starts.idle // STEPS))
        plan: dict[JobId, _PlanEntry] = {}
        chosen: set[str] = set()
        while waiting and starts.has_room_for(waiting):
            tenants = {job.tenant for job in waiting}
            chosen = self._progress.lowest(tenants, alpha)
            plan = self._plan([job for job in waiting if job.tenant in chosen])
            started = self._start(plan, step)
            waiting = [job for job in waiting if job.id not in started]
            is_whole = self._policy.alpha >= 1 and len(plan) < self._policy.window
            if is_whole or (chosen == tenants and not started):
                break
            if not started:
                alpha *= 2
        self._free = self._then
        self._line_up(waiting, plan, chosen)

    def _start(self, plan: dict[JobId, _PlanEntry], gpus: int) -> set[JobId]:
        """Start jobs that may start, in the order of the plan, until `gpus` GPUs are given away."""
        started = set()
        before = self._starts.idle
        for planned in sorted(plan.values(), key=lambda planned: planned.rank):
            # Jobs with parts of GPUs may still join GPUs of which others have parts.
            if before - self._starts.idle >= gpus and not planned.job.has_parts:
                continue
            if self._starts.start(planned):
                started.add(planned.job.id)
                self._releases = []
                gpus_taken = self._starts.grants[-1].gpus
                amount = amount_of(planned.job, gpus_taken)
                self._progress.charge(planned.job, planned.model, amount)
                if planned.model in self._free:
                    self._free[planned.model][:gpus_taken] += planned.seconds * (amount / gpus_taken)
                    self._free[planned.model].sort()
        return started

    def _plan(self, jobs: Sequence[Job]) -> dict[JobId, _PlanEntry]:
        """Return the best plan for these jobs, or for those in the window, behind what is planned already."""
        models, ends = self._models, self._starts.ends
        if not self._releases:
            self._releases = [Releases(model, self._starts.capacity, ends[model]) for model in models]
        releases = self._releases
        window, seconds, ready = self._runnable(jobs, releases)
        if not window:
            return {}
        widths = np.array([amount_of(job) for job in window], dtype=float)
        mean = float(widths.mean())
        free = [
            self._free.get(model, gpus.free_in_seconds) for model, gpus in zip(models, releases, strict=True)
        ]
        found = matching.match(seconds, ready, [lanes_of(gpus, mean) for gpus in free], widths / mean)
        self._then = {
            model: free_after(lanes, len(gpus))
            for model, gpus, lanes in zip(models, free, found.free, strict=True)
        }
        return {
            job.id: _PlanEntry(job, models[kind], start, float(seconds[row, kind]))
            for row, (job, kind, start) in enumerate(
                zip(window, found.kind.tolist(), found.start.tolist(), strict=True)
            )
        }

    def _runnable(
        self, jobs: Sequence[Job], releases: Sequence[Releases]
    ) -> tuple[list[Job], Floats, Floats]:
        """Return the jobs to be matched and, by job and model, for how many seconds each runs and when it
        fits.
        """
        seconds = np.array([self._seconds[job.id] for job in jobs])
        cluster = self._starts.capacity.cluster
        places: list[int] = []
        rows: list[list[float]] = []
        for place in matching.shortest_first(seconds).tolist():
            job = jobs[place]
            ready = [
                fits.fits_in_seconds(demand_of(job, cluster, sizes_of(job)[-1], model))
                if there < math.inf
                else math.inf
                for model, fits, there in zip(self._models, releases, seconds[place].tolist(), strict=True)
            ]
            if min(ready) < math.inf:
                places.append(place)
                rows.append(ready)
                if len(places) == self._policy.window:
                    break
        found = np.array(rows).reshape(len(rows), len(releases))
        return [jobs[place] for place in places], np.where(np.isinf(found), math.inf, seconds[places]), found

    def _line_up(self, waiting: Sequence[Job], plan: dict[JobId, _PlanEntry], chosen: set[str]) -> None:
        """Queue the waiting jobs, the planned ones first and then the shortest, and record why they wait."""
        behind = [job for job in waiting if job.id not in plan]
        behind.sort(key=lambda job: (self._seconds[job.id].min(initial=math.inf), job.submitted_at, job.id))
        planned = sorted([plan[job.id] for job in waiting if job.id in plan], key=lambda entry: entry.rank)
        self.queue += [entry.job.id for entry in planned] + [job.id for job in behind]
        self.reasons.update((entry.job.id, (_later(entry.model),)) for entry in planned)
        for job in behind:
            if chosen and job.tenant not in chosen:
                self.reasons[job.id] = (self._progress.reason(job.tenant),)
            else:
                self.reasons.setdefault(job.id, (_later(None),))


class _Progress:
    """The progress of each tenant: the score of section 3.3, by weight."""

    def __init__(self, view: View, starts: _Starts) -> None:
        self._weights = weights_of(view)
        self._scores = dict.fromkeys(self._weights, 0.0)
        capacity = starts.capacity
        self._gpus = {
            model: capacity.offered(model)
            + together([holding for _, holding in starts.ends[model]], has_parts=True)
            for model in capacity.models
        }
        for jobs, holding in view.capacity.pending.items():
            for job in jobs:
                self.charge(view.jobs[job], holding.model, holding.amount / len(jobs))

    def charge(self, job: Job, model: str, gpus: float) -> None:
        """Add to the tenant's score the job's part of the GPUs of its fastest model, times its relative speed
        here.
        """
        accepted = [name for name in self._gpus if not job.gpu_models or name in job.gpu_models]
        speeds = relative_speeds(job, [*accepted, model])
        fastest = max(accepted, key=lambda name: (speeds[name], name), default=model)
        speed = speeds[model] / speeds[fastest] if speeds[fastest] else 1.0
        self._scores[job.tenant] += speed * gpus / max(1, self._gpus.get(fastest, 0))

    def lowest(self, tenants: set[str], part: float) -> set[str]:
        """Return that fraction of the tenants with the least progress for their weight, at least one."""
        order = sorted(tenants, key=lambda tenant: (self._standing(tenant), tenant))
        return set(order[: max(1, math.floor(part * len(order) + 1e-9))])

    def _standing(self, tenant: str) -> float:
        weight = self._weights[tenant]
        return self._scores[tenant] / weight if weight > 0 else math.inf

    def reason(self, tenant: str) -> Reason:
        """Return why the jobs of a tenant that makes more progress than others wait."""
        return Reason(
            code="less_progress_first",
            tier=Tier.ORDER,
            message=f"Tenant {tenant} makes progress as with {self._scores[tenant]:.0%} of the GPUs that are"
            " fastest for it; tenants that make less for their weight go first.",
            blocking={"tenant": tenant},
        )


def _later(model: str | None) -> Reason:
    where = f"runs it on {model}, when others have run there" if model else "lets others go first"
    return Reason(
        code="planned_later",
        tier=Tier.ORDER,
        message=f"The plan by which jobs end soonest on average {where}.",
        blocking={} if model is None else {"gpu_model": model},
        hint="A shorter estimate, or its throughput on more GPU models, may move it forward.",
    )
