"""IADeep: first in, first out; a job that finds no idle GPUs starts where it is predicted to interfere least.

W. Chen, Z. Mo, H. Xu, K. Ye and C. Xu, "Interference-aware Multiplexing for Deep Learning in GPU Clusters: A
Middleware Approach", SC 2023, with its published scheduler (buzy-coder/IADeep). Tasks arrive online; each
gets an idle GPU if there is one. Else it gets the GPU with room for it on which the predicted interference of
all tasks there is then least. Interference of jobs that share GPUs is the sum of how much longer each one's
iterations take than alone: (together - alone) / alone. Measurements of jobs that share GPUs are recorded, and
later predictions use them. Deviations:

- A job goes with others that start in the same round, or joins a group that runs; nothing is preempted.
- The published scheduler knows sets of jobs and predicts others by a random forest; until it has enough
  records of sets, it takes unknown interference for none. Ours knows pairs: a job beside several is as fast
  as the product of its speeds beside each. A pair that was not measured is predicted from the stages of the
  two (Muri), else from how busy each keeps the device and its memory alone: a resource that would be busy for
  more than 100 % of the time slows both down. Without profiles there is no sharing.
- Its limits on how busy a GPU is (and `tuning`, one change at a time) are one limit on what a job may add:
  `most_interference`. Two jobs that take turns come to 2.
- Its local coordinator tunes the batch sizes of jobs that share. Here jobs do that themselves.
- Only jobs that ask for the same share; elastic ones and trial runs never do. Memory is checked as far as it
  is known, and the switch of virtual clusters binds (`co_location`). Priority comes before all else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.building_blocks.co_location import CoLocation
from scheduler.core.building_blocks.companions import alike, beside, hosts_of, joinable, together, waiting_in
from scheduler.core.building_blocks.ordering import Outcome, start_in_order, waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory
from scheduler.core.perf.interleaving import speed_in_group

#: The most groups of jobs that ask for the same that are considered, and the most waiting jobs.
GROUPS_MOST, LINE_MOST = 100, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class IADeep:
    """Order of arrival, and groups of least predicted interference."""

    #: Jobs that share the same GPUs, at most; 1: none do.
    largest_group: int = 3
    #: What a job may add to the interference on the GPUs that it shares.
    most_interference: float = 1.0

    def __post_init__(self) -> None:
        if self.largest_group < 1 or self.most_interference < 0:
            raise ValueError("largest_group must be at least 1, and most_interference at least 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep what runs; start the jobs that came first, and let others share where they interfere least."""
        line = sorted(waiting_jobs(view), key=lambda job: (-job.priority, job.submitted_at, job.id))
        outcome = start_in_order(line, view)
        if outcome.queue and self.largest_group > 1:
            outcome = self._accompanied(view, outcome)
        return outcome.decision(outcome.reasons(_EARLIER_FIRST))

    def _accompanied(self, view: View, outcome: Outcome) -> Outcome:
        """Let jobs that wait go with those that start, and join those that run."""
        known = Interference(view)
        groups: dict[Hashable, list[list[Job]]] = {}
        for host in hosts_of(view, outcome).values():
            if known.shares(host):
                groups.setdefault(_kind(view, host), []).append([host])
        there: dict[JobId, int] = {}
        for held in joinable(view, outcome):
            group = [view.jobs[job] for job in held.jobs]
            if all([known.shares(job) for job in group]):
                groups.setdefault(_kind(view, group[0]), []).append(group)
                there[group[0].id] = len(group)
        self._fill(groups, waiting_in(view, outcome), view, known)
        filled = {group[0].id: [job.id for job in group] for each in groups.values() for group in each}
        starting = {host: group[1:] for host, group in filled.items() if host not in there}
        outcome = together(view, outcome, starting) if any(starting.values()) else outcome
        return beside(view, outcome, {host: filled[host][count:] for host, count in there.items()})

    def _fill(
        self, groups: Mapping[Hashable, list[list[Job]]], line: Iterable[Job], view: View, known: Interference
    ) -> None:
        """Put each job in line into the group to which it adds least."""
        looked_at: dict[Hashable, int] = {}
        for job in line:
            kind = _kind(view, job)
            looked_at[kind] = looked_at.get(kind, 0) + 1
            if looked_at[kind] <= LINE_MOST and kind in groups and known.shares(job):
                group = self._best(groups[kind][:GROUPS_MOST], job, known)
                if group is not None:
                    group.append(job)

    def _best(self, groups: Sequence[list[Job]], job: Job, known: Interference) -> list[Job] | None:
        """Return the group to which a job adds least interference; None: it adds too much to all."""
        best, least = None, self.most_interference
        for group in groups:
            if len(group) < self.largest_group and known.may_share([*group, job]):
                added = known.added(group, job)
                if added is not None and (added < least or (best is None and added <= least)):
                    best, least = group, added
        return best


def _kind(view: View, job: Job) -> Hashable:
    return alike(view, job), job.priority


class Interference:
    """Measured and predicted interference of a view's jobs that share GPUs."""

    def __init__(self, view: View) -> None:
        self._co_location = CoLocation(view)
        self._known: dict[tuple[JobId, JobId], float | None] = {}

    def shares(self, job: Job) -> bool:
        """Whether a job shares GPUs with any other."""
        is_plain = job.elastic is None and job.trial is None
        return is_plain and job.profile is not None and self._co_location.shares(job)

    def may_share(self, jobs: Sequence[Job]) -> bool:
        """Whether jobs may have the same GPUs."""
        return self._co_location.may_share(jobs)

    def added(self, group: Sequence[Job], job: Job) -> float | None:
        """Return by how much the interference of a group grows with one more; None: unknown."""
        before, after = self.of(group), self.of([*group, job])
        return None if before is None or after is None else after - before

    def of(self, group: Sequence[Job]) -> float | None:
        """Return the interference of jobs that share GPUs, at least 0; None: unknown."""
        total = 0.0
        for job in group:
            speed = 1.0
            for other in group:
                beside = 1.0 if other is job else self._speed(job, other)
                if not beside:
                    return None
                speed *= beside
            total += 1.0 / speed - 1.0
        return total

    def _speed(self, job: Job, other: Job) -> float | None:
        """Return how fast a job is beside another, relative to alone; 0: it does not run so; None:
        unknown.
        """
        key = job.id, other.id
        if key not in self._known:
            measured = self._co_location.measured(job, other)
            self._known[key] = _predicted(job, other) if measured is None else measured
        return self._known[key]


def _predicted(job: Job, other: Job) -> float | None:
    own, theirs = job.profile, other.profile
    if own is None or theirs is None:
        return None
    if own.stages is not None and theirs.stages is not None:
        return speed_in_group(own.stages, [theirs.stages])
    if own.utilisation is None or theirs.utilisation is None:
        return None
    busy = own.utilisation + theirs.utilisation
    memory = (own.memory_utilisation or 0.0) + (theirs.memory_utilisation or 0.0)
    return 1.0 / max(1.0, busy, memory)


_EARLIER_FIRST = Reason(
    code="earlier_first",
    tier=Tier.ORDER,
    message="Jobs of higher priority, and those that came earlier, go before it.",
    hint="A job whose use of GPUs was measured may start beside others.",
)
