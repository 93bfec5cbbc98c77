"""Lucid: shortest service first, nothing is preempted, and in a crowd two light jobs share GPUs.

Q. Hu, M. Zhang, P. Sun, Y. Wen and T. Zhang, "Lucid: A Non-intrusive, Scalable and Interpretable Scheduler
for Deep Learning Training Jobs", ASPLOS 2023, sections 3.2 to 3.5. Order: expected time left times GPUs. A
job's sharing score, by how it uses a GPU alone, is 0 (tiny), 1 (medium) or 2 (jumbo); two jobs of as many
GPUs share if their scores sum to `capacity` at most, their memory fits, and the guest is expected to need no
more than twice the GPU time of its host, so that no short job is tied to a long one. Only pairs, and only
gangs of up to `most_gpus`. Deviations:

- A guest comes with its host, or joins it later: it is the first in line that may share with it. Hosts that
  start choose before those that run. The job that is left of a pair runs on, and may get another guest.
- Jobs share only where not all fit. The paper looks for a host before it looks for idle GPUs, unless few jobs
  are forecast.
- The paper fits a decision tree for scores on each cluster. Ours has two rules, which agree with the
  published labels of 53 of 66 measured configurations and understate two (`sharing_score`). What was measured
  of the pair overrules them: no speed may be below `least_speed`. Where jobs may share freely and the two
  were not measured, the prediction from measured pairs overrules them as well (`perf.interference`).
- Profiles are facts of jobs (`Job.profile`), from their own runs or those of jobs like them. A job without a
  profile does not share. The paper runs every new job on a few nodes first. Here operators set the number of
  GPUs for this (`profiler`, which lists our choices), by default none.
- Durations are expected as everywhere here (`run_time`), and not by the paper's additive model: on the GPU
  model where a job runs, or, while it waits, on the model of the view on which it is fastest.
- A job that is first and does not fit is passed by others, as in the paper while jobs share.
- Priority of our jobs comes before all of that, and pairs have the same one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.building_blocks.co_location import CoLocation, shares_gpus
from scheduler.core.building_blocks.companions import alike, beside, hosts_of, joinable, together
from scheduler.core.building_blocks.ordering import Outcome, start_in_order, waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import seconds_to_run
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory
from scheduler.core.model.training import Profile
from scheduler.core.perf.profiles import TOLD_AFTER_SECONDS
from scheduler.core.policies.lucid.profiler import Profiler, Terms

TINY, MEDIUM, JUMBO = 0, 1, 2
#: A device busy for less than the first is hardly used; one whose memory is busy for more than the second
#: suffers.
TINY_BELOW, JUMBO_FROM = 0.25, 0.30
#: The guest is expected to need at most this many times the GPU time of its host.
_LONGER = 2.0
#: The most waiting jobs that ask for the same that are considered for each host.
GUESTS_MOST = 100


def sharing_score(profile: Profile | None) -> int | None:
    """Return how much a job slows others down: TINY, MEDIUM or JUMBO; None: unknown."""
    if profile is None or profile.utilisation is None:
        return None
    if profile.utilisation < TINY_BELOW:
        return TINY
    if profile.memory_utilisation is None:
        return JUMBO
    return JUMBO if profile.memory_utilisation >= JUMBO_FROM else MEDIUM


@dataclass(frozen=True, slots=True, kw_only=True)
class Lucid:
    """Order of expected GPU time, and pairs by sharing score."""

    #: What the scores of a pair may sum to; below 0 no job shares.
    capacity: int = 2
    #: Larger gangs do not share.
    most_gpus: int = 8
    #: In a pair that was measured, or predicted, each must be as fast as this part of its speed alone.
    least_speed: float = 0.85
    #: GPUs on which new jobs run first, to be profiled; 0: none do.
    profiler_gpus: int = 0
    #: The longest such run. Devices report after three minutes at the latest.
    profiling_seconds: float = 200.0
    #: GPUs that the profiler borrows while many wait for it; 0: none.
    lent_gpus: int = 8
    #: Whether all new jobs run there, as in the paper; else only jobs without a profile.
    profiles_all: bool = True

    def __post_init__(self) -> None:
        if self.most_gpus < 1 or not 0 <= self.least_speed <= 1:
            raise ValueError("most_gpus must be at least 1, and least_speed between 0 and 1")
        for name in ("profiler_gpus", "lent_gpus"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0 GPUs")
        if not TOLD_AFTER_SECONDS <= self.profiling_seconds < math.inf:
            raise ValueError(
                f"profiling_seconds is {self.profiling_seconds:g}; it must be at least"
                f" {TOLD_AFTER_SECONDS:g}: a job loads in its first minute, and devices report whole minutes"
            )

    @property
    def measures_profiles(self) -> bool:
        """Whether it runs new jobs to profile them: then the simulator reports no profile before."""
        return self.profiler_gpus > 0

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep what runs; start the jobs that need the least GPU time, and guests that may share with
        them.
        """
        service = {job.id: _gpu_seconds(job, view) for job in waiting_jobs(view)}

        def rank(job: Job) -> tuple[int, float, float, float, JobId]:
            needed = service[job.id] if job.id in service else _gpu_seconds(job, view)
            return -job.priority, needed, amount_of(job), job.submitted_at, job.id

        if not (self.profiler_gpus and view.jobs and view.capacity.models):
            outcome = start_in_order(sorted(waiting_jobs(view), key=rank), view)
            outcome = self._shared(view, outcome, service)
            return outcome.decision(outcome.reasons(_LESS_FIRST))
        profiler = self._profiler(view, memory)
        outcome = self._shared(view, profiler.serve(rank), service, profiler.alone)
        reasons = {**outcome.reasons(_LESS_FIRST), **profiler.reasons(_LESS_FIRST)}
        return outcome.decision(
            {job: reasons[job] for job in outcome.queue},
            memory=profiler.memory(),
            wake_at=profiler.wake_at(someone_waits=len(outcome.queue) > len(profiler.waiting)),
        )

    def _profiler(self, view: View, memory: Memory) -> Profiler:
        def is_new(job: Job) -> bool:
            knows = not self.profiles_all and sharing_score(job.profile) is not None
            return not job.attempts and not knows and self.may_share(view, job)

        terms = Terms(
            gpus=self.profiler_gpus,
            lent_gpus=self.lent_gpus,
            most_gpus=self.most_gpus,
            seconds=self.profiling_seconds,
        )
        return Profiler(terms, view, memory if memory.get("policy") == "lucid" else {}, is_new)

    def _shared(
        self,
        view: View,
        outcome: Outcome,
        service: Mapping[JobId, float],
        alone: Collection[JobId] = (),
    ) -> Outcome:
        """Give hosts that start or run the waiting jobs that may share with them; `alone`: the jobs that are
        left out.
        """
        line = [job for job in outcome.queue if job not in alone]
        if not line or self.capacity < 0:
            return outcome
        pairs = _Pairs(self, view, service, line)
        if not pairs.has_guests:
            return outcome
        hosts = [host for host in hosts_of(view, outcome).values() if host.id not in alone]
        if starting := pairs.guests_of(hosts):
            outcome = together(view, outcome, starting)
        singles = [held.jobs[0] for held in joinable(view, outcome) if len(held.jobs) == 1]
        running = [view.jobs[job] for job in singles if job not in alone]
        return beside(view, outcome, pairs.guests_of(running))

    def may_share(self, view: View, job: Job) -> bool:
        """Whether the job may share with any other, provided that its profile is known."""
        return (
            job.gpus <= self.most_gpus
            and job.elastic is None
            and job.trial is None
            and shares_gpus(view, job)
        )


def _gpu_seconds(job: Job, view: View) -> float:
    """Return the GPU-seconds that a job is expected to need from now on."""
    running = view.running.get(job.id)
    return seconds_to_run(job, running, view) * amount_of(job)


class _Pairs:
    """Which jobs of a view may share."""

    def __init__(
        self, policy: Lucid, view: View, service: Mapping[JobId, float], queue: Sequence[JobId]
    ) -> None:
        self._policy, self._view, self._service = policy, view, dict(service)
        self._co_location = CoLocation(view)
        self._speeds = {
            (*sorted(pair.applications), pair.gpus): min(pair.speeds) for pair in view.pair_speeds
        }

        #: By request, so that replicas share GPUs one to one: the jobs that share, in queue order.
        self._guests: dict[Hashable, list[Job]] = {}
        for number in queue:
            job = view.jobs[number]
            if self._shares(job):
                self._guests.setdefault(self._shape(job), []).append(job)

    @property
    def has_guests(self) -> bool:
        """Whether any job in line shares, before guests are taken out of it."""
        return bool(self._guests)

    def guests_of(self, hosts: Iterable[Job]) -> dict[JobId, tuple[JobId, ...]]:
        """Return the guest of each host that finds one, and take the guests out of the queue."""
        found = {host.id: guest for host in hosts if (guest := self._guest_of(host)) is not None}
        return {host: (guest,) for host, guest in found.items()}

    def _guest_of(self, host: Job) -> JobId | None:
        """Return the first job that may share with a host, and take it out of the queue."""
        if not self._shares(host):
            return None
        guests = self._guests.get(self._shape(host), [])
        if guests and host.id not in self._service:
            self._service[host.id] = _gpu_seconds(host, self._view)
        for place, guest in enumerate(guests[:GUESTS_MOST]):
            if self._get_along(host, guest):
                del guests[place]
                return guest.id
        return None

    def _get_along(self, host: Job, guest: Job) -> bool:
        return (
            self._service[guest.id] <= _LONGER * self._service[host.id]
            and self._are_light(host, guest)
            and self._co_location.may_share((host, guest))
        )

    def _shares(self, job: Job) -> bool:
        is_known = sharing_score(job.profile) is not None
        return is_known and self._policy.may_share(self._view, job)

    def _are_light(self, host: Job, guest: Job) -> bool:
        measured = self._speeds.get((*sorted((host.application, guest.application)), host.gpus))
        if measured is not None and host.application and guest.application:
            return measured >= self._policy.least_speed
        (foretold,) = self._co_location.foretold([(host, guest)])
        if foretold is not None:
            return min(foretold) >= self._policy.least_speed
        scores = [sharing_score(job.profile) for job in (host, guest)]
        return sum([JUMBO if score is None else score for score in scores]) <= self._policy.capacity

    def _shape(self, job: Job) -> Hashable:
        return alike(self._view, job), job.priority


_LESS_FIRST = Reason(
    code="less_service_first",
    tier=Tier.ORDER,
    message="Jobs that are expected to need less GPU time go before it.",
    hint="A shorter estimate, a shorter time limit or fewer GPUs move it forward.",
)
