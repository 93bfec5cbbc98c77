"""Give the job that has waited longest a turn, whatever the policy of its view prefers (decision 0072).

An operator bounds how long jobs of a virtual cluster wait (`VirtualCluster.longest_wait_seconds`). Once a job
has waited for longer it is *due*. In each view one due job at a time has GPUs reserved: the one with the
highest priority, then the longest wait, among those that would fit if the view were empty.

- The job starts at once if it fits beside the running jobs, at the largest of its sizes that fits.
- Otherwise the policy decides first. Its decision stands if it starts the job, as a preemptive policy may.
- Otherwise the policy decides again around a reservation. The reserved place is the one that comes free when
  the fewest of the oldest allocations of the view end, at the smallest of the job's sizes. A job that runs
  there is *pinned*: the policy neither stops nor moves it. What is idle there, or comes free, is offered to
  no other job of the view. Newer allocations never enter the reservation, so that the job starts when the
  oldest have ended: within the bound and the longest of the running jobs.
- The job keeps its GPUs for as long as the bound, its *turn*, so that a preemptive policy does not stop it in
  the next round.

Deviations from a reservation as in EASY: no job starts on reserved GPUs because its time limit ends in time,
since the start would then depend on the time limits of running jobs. Other views may use reserved GPUs:
guarantees outrank the turns of opportunistic jobs, and opportunistic jobs give way. Neither reservation nor
turn holds back a waiting job with a higher priority than the due job.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from scheduler.core.building_blocks.policy import Tagged, View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import demand_of, demand_of_grant, shape_in, sizes_of
from scheduler.core.fitting.holding import Holding
from scheduler.core.model import wording
from scheduler.core.model.errors import PolicyError, UnknownPlugin
from scheduler.core.model.plan import Decision, Grant, Placement, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory, NodeId, Running
from scheduler.core.round.admit import Admission, is_due
from scheduler.core.round.alarms import Alarms
from scheduler.core.round.facts import Facts
from scheduler.core.round.preemption_limits.displacing import placed_by
from scheduler.core.round.run_view import Plugins, ViewOutcome, place, settle_exactly

#: The key of the turns in a round's memory; no virtual cluster may have this name.
LONG_WAITS = "long waits"
#: The most due jobs tried in a view and round.
TRIED = 100

Unit = tuple[JobId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """The reservation for a due job."""

    job: Job
    grant: Grant
    holding: Holding
    #: Its placement now; None if it has to wait for these jobs to end.
    placement: Placement | None = None
    until: tuple[Unit, ...] = ()

    @property
    def gpus(self) -> str:
        return wording.gpus(self.grant.gpus, [self.holding.model])


class LongWaits:
    """Serves the views of a round around jobs that have waited too long."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        self._facts, self._admission = facts, admission
        self._bounds = {
            vc.name: vc.longest_wait_seconds
            for vc in facts.virtual_clusters.values()
            if vc.longest_wait_seconds > 0
        }
        #: When each waiting job is due.
        self._alarms = Alarms()
        #: The jobs that were due when last checked, and when each became due.
        self._due: dict[JobId, float] = {}
        #: The jobs whose turn began in this round, or goes on.
        self._served: set[JobId] = set()

    def refresh(self, jobs: Collection[JobId]) -> None:
        """Update the jobs that changed, and those that are now due."""
        self._served = set()
        if not self._bounds:
            return
        for number in jobs:
            due_at = self._due_at(number)
            if due_at is not None:
                self._alarms.put(due_at, number)
        while (alarm := self._alarms.first) is not None and is_due(alarm[0], self._facts.frame.now):
            due_at, number = self._alarms.pop()
            self._due[number] = due_at
        for number in [number for number, due_at in self._due.items() if self._due_at(number) != due_at]:
            del self._due[number]

    def _due_at(self, number: JobId) -> float | None:
        """Return when a job will have waited too long; None if it does not wait, or its wait has no bound."""
        job = self._admission.admitted.get(number)
        if job is None or number in self._facts.current or job.virtual_cluster not in self._bounds:
            return None
        return self._facts.virtual_clusters[job.virtual_cluster].due_at(job.waiting_since)

    @property
    def wake_at(self) -> float | None:
        """When the next waiting job is due."""
        while (alarm := self._alarms.first) is not None and self._due_at(alarm[1]) != alarm[0]:
            self._alarms.pop()
        return None if alarm is None else alarm[0]

    @property
    def stands_until(self) -> float:
        """The instant before which time alone changes nothing here.

        Minus infinity if a job is due, or a turn goes on.
        """
        if not self._bounds:
            return inf
        # A job held back by a quota has no alarm, but goes ahead of others there once it is due.
        if self._due or self.memory() is not None or self._admission.is_crowded:
            return -inf
        # An instant counts as reached slightly before it.
        return inf if self.wake_at is None else self.wake_at - 2 * INSTANT_SECONDS

    def memory(self) -> Memory | None:
        """Return the memory; None if it is empty now and was before."""
        if not self._served and not self._facts.frame.memory.get(LONG_WAITS, {}).get("served"):
            return None
        return {"served": sorted(self._served)}

    def run_view(self, view: View, plugins: Plugins, run: Callable[[View], ViewOutcome]) -> ViewOutcome:
        """Serve a view by `run`, around the turn of its due job."""
        going_on = self._going_on(view) if self._bounds else {}
        due = [view.jobs[job] for job in self._due if job in view.jobs]
        if not due and not going_on:
            return run(view)
        line = sorted(due, key=lambda job: (-job.priority, self._due[job.id], job.id))
        waiting = view.waiting.values()
        highest = max([job.priority for job in waiting], default=None)
        units = [unit for unit, job in going_on.items() if highest is None or job.priority >= highest]
        self._served.update([job.id for job in going_on.values()])
        if units:
            view = replace(view, capacity=view.capacity.pinning(units))
        ahead = max([job.priority for job in waiting if job.id not in self._due], default=None)
        first = (job for job in line[:TRIED] if ahead is None or job.priority >= ahead)
        turn = next(filter(None, (_turn_of(job, view, plugins) for job in first)), None)
        if turn is None or turn.placement is None:
            outcome = run(view)
            if turn is None or outcome.failure or turn.job.id in placed_by(outcome):
                return outcome
        return self._around(turn, view, line, run)

    def _going_on(self, view: View) -> dict[Unit, Job]:
        """Return the jobs whose turn goes on, by the jobs that share their GPUs."""
        found = {}
        for number in map(JobId, self._facts.frame.memory.get(LONG_WAITS, {}).get("served", ())):
            running = view.running.get(number)
            if running is not None and running.jobs in view.capacity.pending:
                bound = self._bounds.get(view.jobs[number].virtual_cluster, 0.0)
                if view.now < running.since_of(number) + bound - INSTANT_SECONDS:
                    found[running.jobs] = view.jobs[number]
        return found

    def _around(
        self, turn: _Turn, view: View, line: Sequence[Job], run: Callable[[View], ViewOutcome]
    ) -> ViewOutcome:
        capacity = view.capacity.reserving(turn.holding, turn.until)
        outcome = run(replace(view.without({turn.job.id}), capacity=capacity, tagged=_tagged(turn, view)))
        decision, placements = _undisturbed(outcome.decision, view, turn.until), dict(outcome.placements)
        if turn.placement is not None:
            placements[len(decision.grants)] = turn.placement
            decision = replace(decision, grants=(*decision.grants, turn.grant))
            self._served.add(turn.job.id)
        else:
            decision = replace(decision, queue=(turn.job.id, *decision.queue))
        view = replace(view, capacity=view.capacity.pinning(turn.until))
        left = settle_exactly(view, decision, placements)
        outcome = replace(outcome, view=view, decision=decision, placements=placements, capacity=left)
        return outcome if turn.placement is not None else self._explained(outcome, turn, line)

    def _explained(self, outcome: ViewOutcome, turn: _Turn, line: Sequence[Job]) -> ViewOutcome:
        """Return the outcome with reasons on when its turn comes, for the due job and those behind it."""
        view, left, job = outcome.view, outcome.capacity, turn.job
        placed = placed_by(outcome)
        ends = [_end(view.running[name], view) for unit in turn.until for name in unit]
        starts_by = None if None in ends else max([end for end in ends if end is not None], default=view.now)
        when, ahead = _when(turn.until, starts_by), {other.id: place for place, other in enumerate(line)}
        reasons = dict(outcome.decision.reasons)
        reasons[job.id] = (self._reserved(turn, when, starts_by), *reasons.get(job.id, ()))
        behind = Reason(
            code="behind_longest_wait",
            tier=Tier.ORDER,
            message=f"{turn.gpus} are reserved for job {job.id}, which"
            f" has waited for {wording.duration(view.now - job.waiting_since)}; it starts {when}.",
            blocking={"jobs": [job.id]} | ({} if starts_by is None else {"starts_by": starts_by}),
        )
        held_back: dict[object, bool] = {}
        for other in view.jobs.values():
            if other.id in placed or other.id == job.id:
                continue
            shape = shape_in(left.cluster, other)
            if shape not in held_back:
                held_back[shape] = left.find(demand_of(other, left.cluster, sizes_of(other)[-1])) is not None
            if held_back[shape] or other.id in ahead:
                reasons[other.id] = (behind, *reasons.get(other.id, ()))
        return replace(outcome, decision=replace(outcome.decision, reasons=reasons))

    def _reserved(self, turn: _Turn, when: str, starts_by: float | None) -> Reason:
        job, now = turn.job, self._facts.frame.now
        bound = self._bounds[job.virtual_cluster]
        return Reason(
            code="longest_wait",
            tier=Tier.ORDER,
            message=f"It has waited for {wording.duration(now - job.waiting_since)}, longer than the"
            f" {wording.duration(bound)} after which GPUs are reserved in virtual cluster"
            f" {job.virtual_cluster}: {turn.gpus} are reserved for it, and it starts {when}.",
            blocking={"jobs": [name for unit in turn.until for name in unit]}
            | ({} if starts_by is None else {"starts_by": starts_by}),
            needed=turn.grant.gpus,
        )


def _turn_of(job: Job, view: View, plugins: Plugins) -> _Turn | None:
    """Return what to reserve for a job; None where it could not start even if its view were empty."""
    capacity = view.capacity.fork()
    capacity.keep_all()
    for size in sizes_of(job):
        demand = demand_of(job, capacity.cluster, size)
        if capacity.find(demand) is not None:
            return _at_once(job, size, view, plugins)
    size = sizes_of(job)[-1]
    demand = demand_of(job, view.capacity.cluster, size)
    # The oldest first, so that the due job never waits for a job that starts later.
    line = sorted(view.capacity.pending.values(), key=_age)

    def without(count: int) -> Capacity:
        left = capacity.fork()
        for holding in line[:count]:
            left.drop(holding)
        return left

    count = bisect_left(range(len(line) + 1), 1, key=lambda count: without(count).find(demand) is not None)
    fit = without(count).find(demand) if count <= len(line) else None
    if fit is None:
        return None
    masks = {part.node: part.mask for part in fit.holding.parts}
    ending = [
        holding.running.jobs
        for holding in line[:count]
        if holding.running is not None
        and holding.model == fit.holding.model
        # If the guarantee is what it lacks, the end of any job helps.
        and (
            capacity.account.limits is not None
            or any([masks.get(part.node, 0) & part.mask for part in holding.parts])
        )
    ]
    return _Turn(job=job, grant=Grant(jobs=(job.id,), gpus=size), holding=fit.holding, until=tuple(ending))


def _at_once(job: Job, size: int, view: View, plugins: Plugins) -> _Turn | None:
    """Return the turn of a job that the view's placer can place beside what runs; None where it cannot."""
    grant = Grant(jobs=(job.id,), gpus=size)
    try:
        decision = Decision(grants=(grant,), keep_running=True)
        placed, _ = place(view, decision, plugins.made_placer)
    except (PolicyError, UnknownPlugin):
        return None
    placement = placed.placements.get(0)
    if placement is None:
        return None
    capacity = view.capacity.fork()
    capacity.keep_all()
    nodes = [number for _, number in capacity.cluster.homes(placement)]
    fit = capacity.fit_on(demand_of_grant(grant, view.jobs, capacity.cluster), placement, nodes)
    return _Turn(job=job, grant=grant, holding=fit.holding, placement=placement)


def _tagged(turn: _Turn, view: View) -> Tagged | None:
    """Return the jobs that constraints between tags concern, including the job that starts now."""
    if view.tagged is None or turn.placement is None or not view.tagged.concerns(turn.job):
        return view.tagged
    cluster = view.capacity.cluster
    nodes = Counter[NodeId]()
    for model, number in cluster.homes(turn.placement):
        node = cluster.fleets[model].nodes[number]
        nodes[(cluster.home_of(node) or node).id] += 1
    return replace(view.tagged, elsewhere=[*view.tagged.elsewhere, (turn.job, nodes)])


def _age(holding: Holding) -> tuple[bool, float, int]:
    assert holding.running is not None
    return holding.running.is_nominated, holding.running.since, holding.running.allocation


def _undisturbed(decision: Decision, view: View, units: Iterable[Unit]) -> Decision:
    """Return the decision without jobs that join allocations whose end the due job awaits."""
    hosts = {job for unit in units for job in unit}
    if hosts.isdisjoint(decision.joins):
        return decision
    refused = [guest for host, guests in decision.joins.items() if host in hosts for guest in guests]
    joins = {host: guests for host, guests in decision.joins.items() if host not in hosts}
    return replace(decision, joins=joins, queue=(*decision.queue, *refused))


def _end(running: Running, view: View) -> float | None:
    """Return when an allocation ends at the latest; None where one of its jobs has no time limit."""
    ends = []
    for job in running.jobs:
        limit = view.jobs[job].time_limit_seconds
        if limit is None:
            return None
        ends.append((view.now if running.is_nominated else running.since_of(job)) + limit)
    return max(ends)


def _when(units: Sequence[Unit], starts_by: float | None) -> str:
    jobs = [job for unit in units for job in unit]
    after = f"when {wording.jobs(jobs)} {'has' if len(jobs) == 1 else 'have'} ended"
    return after if starts_by is None else f"{after}, by {wording.instant(starts_by)} at the latest"
