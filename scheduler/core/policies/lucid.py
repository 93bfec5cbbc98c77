"""Lucid: shortest service first, nothing is preempted, and in a crowd two light jobs share GPUs.

Q. Hu, M. Zhang, P. Sun, Y. Wen and T. Zhang, "Lucid: A Non-intrusive, Scalable and Interpretable Scheduler
for Deep Learning Training Jobs", ASPLOS 2023, sections 3.3 to 3.5. Order: expected time left times GPUs. A
job's sharing score, by what it makes of a GPU alone, is 0 (tiny), 1 (medium) or 2 (jumbo); two jobs of as
many GPUs share if their scores sum to `capacity` at most, their memory fits, and the guest is expected to
need no more than twice the GPU time of its host, so that no short job is tied to a long one. Only pairs,
and only gangs of up to `most_gpus`. What is not the paper's:

- A guest comes with its host: it is the first in line behind it that may share, when the host starts. The
  paper's joins a host that runs; a plan here has no way to add a job to GPUs that are in use. What is left
  of a pair runs on alone.
- Jobs share only where not everyone fits. The paper looks for a host first and for idle GPUs then, unless
  few jobs are forecast.
- The paper fits a decision tree for scores on each cluster. Ours has two rules, which agree with the
  published labels of 53 of 66 measured configurations and understate two (`sharing_score`). What was
  measured of the pair overrules them: no speed may be below `least_speed`.
- Profiles are facts of jobs (`Job.profile`): by trial runs, by earlier runs, or by those of jobs like it. A
  job without a profile shares with nobody. The paper runs every new job on a few nodes first.
- Durations are expected as everywhere here (`run_time`), and not by the paper's additive model.
- Who is first and does not fit is passed by others, as in the paper while jobs share.
- Priority of our jobs comes before all of that, and pairs have the same one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.building_blocks.co_location import CoLocation
from scheduler.core.building_blocks.ordering import Outcome, start_in_order, waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import remaining_seconds
from scheduler.core.fitting.demand import shape_in
from scheduler.core.fitting.settle import settle_all
from scheduler.core.model.plan import Decision, Grant, Mode, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory, Profile

TINY, MEDIUM, JUMBO = 0, 1, 2
#: A device that computes for less of the time is hardly used; one whose memory is busy for more suffers.
TINY_BELOW, JUMBO_FROM = 0.25, 0.30
#: The guest is expected to need at most so many times the GPU time of its host.
_LONGER = 2.0
#: So many in line that ask for the same are looked at for each host.
GUESTS_MOST = 100


def sharing_score(profile: Profile | None) -> int | None:
    """Return how much a job is in others' way: TINY, MEDIUM or JUMBO; None: nobody knows."""
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

    #: What the scores of a pair may sum to; below 0 nobody shares.
    capacity: int = 2
    #: Larger gangs do not share.
    most_gpus: int = 8
    #: Of a pair that was measured: each must be as fast as this part of its speed alone.
    least_speed: float = 0.85

    def __post_init__(self) -> None:
        if self.most_gpus < 1 or not 0 <= self.least_speed <= 1:
            raise ValueError("most_gpus must be at least 1, and least_speed between 0 and 1")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep what runs; start those that need the least GPU time, and beside them who may share."""
        service = {
            job.id: remaining_seconds(job, None, view.now, view.default_time_limit_seconds) * job.gpus
            for job in waiting_jobs(view)
        }

        def rank(job: Job) -> tuple[int, float, int, float, JobId]:
            return -job.priority, service[job.id], job.gpus, job.submitted_at, job.id

        outcome = start_in_order(sorted(waiting_jobs(view), key=rank), view)
        if outcome.queue and outcome.grants and self.capacity >= 0:
            outcome = self._paired(view, outcome, service)
        return outcome.decision(outcome.reasons(_LESS_FIRST))

    def _paired(self, view: View, outcome: Outcome, service: Mapping[JobId, float]) -> Outcome:
        """Let those that start take along who waits and may share with them."""
        pairs = _Pairs(self, view, service, outcome.queue)
        grants: list[Grant] = []
        for grant in outcome.grants:
            host = view.jobs[grant.jobs[0]]
            guest = pairs.guest_of(host, grant)
            if guest is not None:
                grant = Grant(jobs=(host.id, guest), gpus=grant.gpus, mode=Mode.PACK)
            grants.append(grant)
        return self._that_fit(view, grants, outcome)

    def _that_fit(self, view: View, grants: Sequence[Grant], alone: Outcome) -> Outcome:
        """Return the pairs, if all find a place: two jobs need the CPUs and the memory of both."""
        capacity = view.capacity.fork()
        capacity.keep_all()
        placed = settle_all(grants, view.jobs, capacity)
        if len(placed) < len(grants):
            return alone
        started = {job for grant in grants for job in grant.jobs}
        return Outcome(grants=tuple(grants), queue=tuple([job for job in alone.queue if job not in started]))


class _Pairs:
    """Who may share with whom in a view."""

    def __init__(
        self, policy: Lucid, view: View, service: Mapping[JobId, float], queue: Sequence[JobId]
    ) -> None:
        self._policy, self._view, self._service = policy, view, service
        self._co_location = CoLocation(view)
        self._speeds = {
            (*sorted(pair.applications), pair.gpus): min(pair.speeds) for pair in view.pair_speeds
        }

        #: By what they ask for, so that replicas share GPUs one to one: those that share, in line.
        self._guests: dict[Hashable, list[Job]] = {}
        for number in queue:
            job = view.jobs[number]
            if self._shares(job):
                self._guests.setdefault(self._shape(job), []).append(job)

    def guest_of(self, host: Job, grant: Grant) -> JobId | None:
        """Return, and take out of the line, the first that may share with a job that starts."""
        if not self._shares(host) or grant.gpus != host.gpus:
            return None
        guests = self._guests.get(self._shape(host), [])
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
        return (
            job.gpus <= self._policy.most_gpus
            and job.elastic is None
            and job.trial is None
            and sharing_score(job.profile) is not None
            and self._co_location.shares(job)
        )

    def _are_light(self, host: Job, guest: Job) -> bool:
        measured = self._speeds.get((*sorted((host.application, guest.application)), host.gpus))
        if measured is not None and host.application and guest.application:
            return measured >= self._policy.least_speed
        scores = [sharing_score(job.profile) for job in (host, guest)]
        return sum([JUMBO if score is None else score for score in scores]) <= self._policy.capacity

    def _shape(self, job: Job) -> Hashable:
        return shape_in(self._view.capacity.cluster, job), job.priority


_LESS_FIRST = Reason(
    code="less_service_first",
    tier=Tier.ORDER,
    message="Jobs that are expected to need less GPU time go before it.",
    hint="A shorter estimate, a shorter time limit or fewer GPUs move it forward.",
)
