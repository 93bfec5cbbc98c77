"""Muri: where not all jobs fit, jobs that need different resources share GPUs in groups of up to four.

Y. Zhao, Y. Liu, Y. Peng, Y. Zhu, X. Liu and X. Jin, "Multi-Resource Interleaving for Deep Learning Training",
SIGCOMM 2022, section 4. Order: least remaining time times GPUs (Muri-S), or, where durations are not known,
least attained service (Muri-L). Jobs ask for a place in that order; for each place four jobs of equal gangs
are admitted. If more are admitted than fit, they are matched by how busy they would keep storage and CPUs,
GPU and network together (`interleaved_groups`): first to pairs, then pairs to fours, and no more than needed.
A group that would be slower than its jobs one after the other is split. Groups are served in the order of
their best jobs; a job whose group does not fit waits. Deviations:

- Stage times are facts of jobs (`Job.profile`). A job without them, an elastic one or a trial run stays
  alone.
- The paper's executor lets the jobs of a group wait for each other at each stage. Here they run at the same
  time, and the hardware interleaves them: stages determine which jobs share, and not how fast they are then.
- Groups are made again at most once in `interval_seconds`, when idle GPUs do not suffice for a waiting job,
  when those that share would fit alone, or when a group turns out to be slower than its jobs by turns; the
  published code does so at every arrival and end. In between, idle GPUs go to the first job, and the rest of
  a group runs on when one of its jobs ends.
- When jobs that run together come into several groups, the first group keeps the GPUs if its other jobs wait:
  these join, and the jobs of other groups leave. A group of jobs that run apart stops first, all of it, and
  starts in a later round. Until its jobs have stopped nothing else starts, for `HOLD_SECONDS` at most.
- Memory is checked as far as it is known. The switch of virtual clusters decides whether jobs share at all
  (`co_location`): stage times count as measured.
- The time of jobs in a group counts as if they were alone, on the model where they run, or, while they wait,
  on the model of the view on which they are fastest; the paper has one model.
- Jobs of equal gangs are those that ask for the same in all respects (shape, models, topology, nodes) and
  have the same priority, which comes before all else. Jobs that were not admitted have what is left over.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.core.building_blocks.co_location import CoLocation
from scheduler.core.building_blocks.companions import beside
from scheduler.core.building_blocks.interleaved_groups import LARGEST_GROUP, grouped
from scheduler.core.building_blocks.ordering import (
    Outcome,
    Starts,
    anywhere,
    settled_outcome,
    start_in_order,
    waiting_jobs,
)
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import seconds_to_run
from scheduler.core.building_blocks.service import INSTANT_SECONDS, attained_service
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import amount_of, models_of, shape_in, sizes_of
from scheduler.core.fitting.joining import may_be_joined
from scheduler.core.fitting.settle import settle_all
from scheduler.core.model.plan import Decision, Grant, Mode, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory
from scheduler.core.perf.interleaving import Stages, cycle_seconds

Group = tuple[JobId, ...]

#: The longest time for which nothing else starts while jobs stop in order to start together.
HOLD_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Muri:
    """Interleaving groups by remaining or attained GPU time."""

    #: Muri-S, by remaining time times GPUs; else Muri-L, by attained service.
    knows_durations: bool = True
    #: Jobs that share the same GPUs, at most; 1: none do.
    largest_group: int = LARGEST_GROUP
    #: A group of n must keep its resources busy for this part of n / 4 of the time.
    least_efficiency: float = 0.0
    #: Groups are made again no more often than this.
    interval_seconds: float = 360.0

    def __post_init__(self) -> None:
        if not 1 <= self.largest_group <= LARGEST_GROUP:
            raise ValueError(f"largest_group must be between 1 and {LARGEST_GROUP}")
        if not (0 <= self.least_efficiency <= 1 and self.interval_seconds >= 0):
            raise ValueError("least_efficiency must be between 0 and 1, and interval_seconds at least 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Start what fits; when something does not, make groups again if it is time."""
        state = _State(self, view, memory if memory.get("policy") == "muri" else {})
        calm = state.started()
        if not state.has_to_regroup(calm):
            return state.decision(calm, wake_at=state.holds_until if state.coming else None)
        if state.regroups_at > view.now + INSTANT_SECONDS:
            return state.decision(calm, wake_at=state.regroups_at)
        return state.decision(state.regrouped())


class _State:
    """What one round knows. Memory: `groups` made last, as lists of jobs, and `at`, when that was."""

    def __init__(self, policy: Muri, view: View, memory: Memory) -> None:
        self.policy, self.view = policy, view
        groups = [tuple([JobId(job) for job in group]) for group in memory.get("groups", ())]
        #: Groups that were made last and have not started: some of their jobs may be stopping for it.
        self.coming = [group for group in groups if not any(job in view.running for job in group)]
        self.made_at: float | None = memory.get("at")
        self.regroups_at = view.now if self.made_at is None else self.made_at + policy.interval_seconds
        self.holds_until = view.now if self.made_at is None else self.made_at + HOLD_SECONDS
        self.co_location = CoLocation(view)
        self.ranks = {job.id: self._rank(job) for job in view.jobs.values()}

    def started(self) -> Outcome:
        """Start groups whose jobs have stopped for it, then what fits beside everything that runs."""
        view = self.view
        waiting = sorted(waiting_jobs(view), key=self._place)
        if not self.coming:
            return start_in_order(waiting, view)
        capacity = view.capacity.fork()
        capacity.keep_all()
        is_over = self.holds_until <= view.now + INSTANT_SECONDS
        ready = [group for group in self.coming if all(job in view.jobs for job in group)]
        self.coming = [] if is_over else [group for group in self.coming if group not in ready]
        together = [grant for group in ready for grant in self._grants(group)]
        placed = settle_all(together, view.jobs, capacity)
        grants = [together[position] for position in sorted(placed)]
        begun = {job for grant in grants for job in grant.jobs}
        starts = Starts(capacity, anywhere)
        queue: list[JobId] = []
        for job in waiting:
            started = None if self.coming or starts.exhausted or job.id in begun else starts.start(job)
            if started is not None:
                grants.append(started[0])
            elif job.id not in begun:
                queue.append(job.id)
        return Outcome(grants=tuple(grants), queue=tuple(queue))

    def has_to_regroup(self, calm: Outcome) -> bool:
        """Whether a job cannot start, or jobs that share should not, or would fit alone."""
        if self.coming:
            return False
        if calm.queue:
            return True
        sharing = {held.jobs for held in self.view.running.values() if len(held.jobs) > 1}
        if not sharing:
            return False
        if any(not self._may_share(jobs) for jobs in sharing):
            return True
        room = _Room(self.view.capacity)
        jobs = sorted(self.view.jobs.values(), key=lambda job: len(room.models_of(job)))
        return all([room.take(room.models_of(job), job.gpus) for job in jobs])

    def regrouped(self) -> Outcome:
        """Make groups of all jobs, and serve them by their best one."""
        view = self.view
        pinned = sorted({held.jobs for held in view.running.values() if held.jobs in view.capacity.pinned})
        staying = {job for unit in pinned for job in unit}
        order = sorted(view.jobs.values(), key=self._place)
        groups = self._split(self._groups([job for job in order if job.id not in staying]))
        groups.sort(key=lambda group: min([self.ranks[job] for job in group]))
        admitted = {job for group in groups for job in group}
        left_over = [(job.id,) for job in order if job.id not in admitted and job.id not in staying]
        units = [*pinned, *groups, *left_over]
        homes = self._homes(units)
        tries = [(unit, grant) for unit in units for grant in self._grants(homes.get(unit, unit))]
        units, grants = [unit for unit, _ in tries], [grant for _, grant in tries]
        placed = settle_all(grants, view.jobs, view.capacity.fork())
        kept = {homes[group]: group for position in placed if (group := units[position]) in homes}
        leaves = {job: _REGROUPED for home, group in kept.items() for job in home if job not in group}
        settled = {job for position in placed for job in grants[position].jobs}.difference(leaves)
        changed = [
            grants[position]
            for position in sorted(placed)
            if units[position] not in homes and not self._is_running(units[position])
        ]
        # A group of which some jobs run stops now, and starts when all its jobs wait.
        self.coming = [
            grant.jobs
            for grant in changed
            if len(grant.jobs) > 1 and any(job in view.running for job in grant.jobs)
        ]
        self.made_at = view.now
        for grant in [grant for grant in changed if not leaves.keys().isdisjoint(grant.jobs)]:
            changed.remove(grant)
            settled.difference_update(grant.jobs)
        outcome = settled_outcome(view, changed, settled, [job.id for job in order])
        stops = tuple([job for job in outcome.stops if view.running[job].jobs not in kept])
        guests = {home[0]: [job for job in group if job not in home] for home, group in kept.items()}
        return beside(view, replace(outcome, stops=stops, leaves=leaves), guests)

    def _homes(self, groups: Sequence[Group]) -> dict[Group, Group]:
        """Return for each changed group the running jobs whose GPUs it keeps."""
        running, homes = self.view.running, dict[Group, Group]()
        for group in groups:
            there = {running[job].jobs for job in group if job in running}
            if len(there) == 1 and not self._is_running(group):
                (home,) = there
                if home not in homes.values() and may_be_joined(running[home[0]]):
                    homes[group] = home
        return homes

    def decision(self, outcome: Outcome, wake_at: float | None = None) -> Decision:
        memory: dict[str, Any] = {}
        if self.made_at is not None:
            groups = [list(group) for group in self.coming]
            memory = {"policy": "muri", "at": self.made_at, "groups": groups}
        reason = _LESS_LEFT if self.policy.knows_durations else _LESS_HAD
        return outcome.decision(outcome.reasons(reason), memory=memory, wake_at=wake_at)

    def _groups(self, order: Sequence[Job]) -> list[Group]:
        admitted = self._admitted(order)
        together: dict[Hashable, list[Job]] = {}
        alone: list[Job] = []
        for shape, jobs in admitted.items():
            for job in jobs:
                if not self._may_be_grouped(job):
                    alone.append(job)
                else:
                    together.setdefault(shape, []).append(job)
        room = _Room(self.view.capacity)
        for job in sorted(alone, key=lambda job: len(room.models_of(job))):
            room.take(room.models_of(job), job.gpus)
        by_models: dict[tuple[str, ...], dict[Hashable, list[Job]]] = {}
        for shape, jobs in together.items():
            by_models.setdefault(room.models_of(jobs[0]), {})[shape] = jobs
        sizes = {shape: jobs[0].gpus for shape, jobs in together.items()}
        groups: list[tuple[Job, ...]] = []
        # One model may be crowded and another not. Jobs that accept few models come before those that accept
        # many.
        for models in sorted(by_models, key=len):
            found = grouped(
                by_models[models],
                sizes.__getitem__,
                _known_stages,
                room.of(models),
                largest=self.policy.largest_group,
                least_efficiency=self.policy.least_efficiency,
                may_share=None if self.co_location.is_unlimited else self.co_location.may_share,
            )
            room.take(models, sum([group[0].gpus for group in found]))
            groups += found
        return [*[(job.id,) for job in alone], *[tuple(sorted(job.id for job in group)) for group in groups]]

    def _admitted(self, order: Sequence[Job]) -> dict[Hashable, list[Job]]:
        """Return the admitted jobs by shape: for each place the next four jobs that are alike."""
        view, largest = self.view, self.policy.largest_group
        shapes = {job.id: self._shape(job) for job in order}
        by_shape: dict[Hashable, list[Job]] = {}
        for job in order:
            by_shape.setdefault(shapes[job.id], []).append(job)
        admitted, seen = dict.fromkeys(by_shape, 0), dict.fromkeys(by_shape, 0)
        starts = Starts(_emptied(view.capacity), anywhere)
        for job in order:
            shape = shapes[job.id]
            seen[shape] += 1
            if seen[shape] > admitted[shape] and not starts.exhausted and starts.start(job) is not None:
                alike = largest if self._may_be_grouped(job) else 1
                admitted[shape] = min(admitted[shape] + alike, len(by_shape[shape]))
        return {shape: jobs[: admitted[shape]] for shape, jobs in by_shape.items()}

    def _split(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups without those that are slower than their jobs one after the other."""
        kept: list[Group] = []
        for group in groups:
            stages = [_known_stages(self.view.jobs[job]) for job in group] if len(group) > 1 else []
            if stages and cycle_seconds(stages) > sum([sum(each) for each in stages]):
                kept += [(job,) for job in group]
            else:
                kept.append(group)
        return kept

    def _grants(self, group: Group) -> list[Grant]:
        """Return what to ask for, the wish first: an elastic job that does not fit whole has fewer GPUs."""
        running = self.view.running.get(group[0])
        if running is not None and set(running.jobs) == set(group):
            # Where it is, at the size it has.
            return [Grant(jobs=running.jobs, gpus=self.view.capacity.pending[running.jobs].size)]
        mode = Mode.PACK if len(group) > 1 else Mode.EXCLUSIVE
        sizes = sizes_of(self.view.jobs[group[0]])
        return [Grant(jobs=group, gpus=gpus, mode=mode) for gpus in sizes]

    def _is_running(self, group: Group) -> bool:
        running = self.view.running.get(group[0])
        return running is not None and set(running.jobs) == set(group)

    def _may_share(self, jobs: Group) -> bool:
        """Whether those that share GPUs may go on doing so, by what was measured since they were grouped."""
        return self.co_location.may_share([self.view.jobs[job] for job in jobs])

    def _shape(self, job: Job) -> Hashable:
        """Return the key that jobs must have in common to share GPUs; a job without stages has its own."""
        shape = shape_in(self.view.capacity.cluster, job)
        return shape, job.priority, self._may_be_grouped(job)

    def _may_be_grouped(self, job: Job) -> bool:
        return self.policy.largest_group > 1 and _stages_of(job) is not None and self.co_location.shares(job)

    def _rank(self, job: Job) -> tuple[Any, ...]:
        running = self.view.running.get(job.id)
        if self.policy.knows_durations:
            left = seconds_to_run(job, running, self.view)
            value = left * amount_of(job)
        else:
            value = attained_service(job, running, self.view.now)
        return -job.priority, value, running is None, job.submitted_at, job.id

    def _place(self, job: Job) -> tuple[Any, ...]:
        return self.ranks[job.id]


class _Room:
    """What is left of each model while jobs are dealt out by counts."""

    def __init__(self, capacity: Capacity) -> None:
        self._cluster = capacity.cluster
        self._left = {model: max(capacity.offered(model), 0) for model in capacity.models}

    def models_of(self, job: Job) -> tuple[str, ...]:
        """Return the models on offer that a job accepts."""
        return tuple([model for model in models_of(job, self._cluster) if model in self._left])

    def of(self, models: Sequence[str]) -> int:
        return sum([self._left[model] for model in models])

    def take(self, models: Sequence[str], gpus: int) -> bool:
        """Take `gpus` GPUs of these models, most from where most is left; return whether they sufficed."""
        for model in sorted(models, key=lambda model: -self._left[model]):
            taken = min(gpus, self._left[model])
            self._left[model] -= taken
            gpus -= taken
        return gpus == 0


def _emptied(capacity: Capacity) -> Capacity:
    """Return the capacity as if only the jobs ran that must stay where they are."""
    empty = capacity.fork()
    for jobs, holding in list(empty.pending.items()):
        if jobs in empty.pinned:
            empty.keep(holding)
        else:
            empty.drop(holding)
    return empty


def _stages_of(job: Job) -> Stages | None:
    if job.profile is None or job.elastic is not None or job.trial is not None:
        return None
    return job.profile.stages


def _known_stages(job: Job) -> Stages:
    stages = _stages_of(job)
    assert stages is not None
    return stages


_REGROUPED = "Jobs that share GPUs were grouped again; it continues with other jobs or alone."
_LESS_LEFT = Reason(
    code="less_service_left_first",
    tier=Tier.ORDER,
    message="Jobs, or groups of jobs that share GPUs, with less GPU time left go before it.",
    hint="A shorter estimate, a shorter time limit or fewer GPUs move it forward.",
)
_LESS_HAD = Reason(
    code="less_service_had_first",
    tier=Tier.ORDER,
    message="Jobs, or groups of jobs that share GPUs, with less GPU time come first.",
)
