"""Tiresias: queues of attained service, for training jobs of unknown run time.

J. Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019, sections 3.2 (two-
dimensional attained service, discretised; 2D-LAS and 2D-Gittins) and 3.3 (placement by skew). At every event
all GPUs count as free; the queues are walked from the first, jobs are admitted whole where they fit and
passed over where they do not, and running jobs that are not admitted are preempted.

Faithful: attained service is GPUs x seconds; K queues by thresholds; 2D-Gittins orders a queue by its index,
the last queue as 2D-LAS does; a job that has waited `promote` times as long as it has executed goes back to
the first queue and starts again; skewed gangs are consolidated and wait for that, others fill fragments.

Deviations from the paper, or where sources disagree:

- Priority of our jobs comes before the queue. The paper has no priorities.
- Inside a queue of 2D-LAS the paper has first in first out, by start. In its simulator a job that reaches a
  threshold joins the end of the next queue, and after each round those that run come before those that wait,
  both in the order that they had. `inside` chooses: `running` as the simulator, and the default; `submission`
  alone; `start` by first start, never-started last (docs/reproduction.md compares them).
- A Gittins index looks as far as the bound of its queue (`delta` = bound - attained service). For a running
  attempt it is taken where the attempt entered its queue or started, so that it changes only at events and
  equals do not take turns for ever. Without samples the discipline is LAS.
- The distribution comes from `service_samples`, else from jobs that ran and have ended (memory).
- Service is wall time on any model; work that is repeated after a preemption counts again.
- The pack limit is a parameter; the paper refits it to a job history with a linear classifier.
- A skewed gang larger than a node asks for one rack, and for nothing where no rack could ever hold it. The
  paper says "as few machines as possible", which the default placer does anyway.

The published simulator (SymbioticLab/Tiresias) is NOT followed where it contradicts the paper: its `gittins`
mode sorts the lowest index first; it sums whole samples where the index takes what is left of them; its next
demotion mixes GPU-seconds with seconds and comes late; its wake-up adds the time of the event to itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, zip_longest
from operator import attrgetter
from typing import Any, Literal

from scheduler.core.building_blocks.kept_orders import RankedLine
from scheduler.core.building_blocks.ordering import Outcome, serve_in_order, serve_ranked, start_all
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS, attained_service
from scheduler.core.fitting.consolidation import Consolidation
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.plan import Decision, Locality, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory

# The Gittins index of attained service, from samples of the total service that jobs needed.
#
# J. Gittins, "Bandit Processes and Dynamic Allocation Indices", Journal of the Royal Statistical Society B
# 41(2), 1979; as Tiresias uses it (NSDI'19, section 3.2.2), service being GPUs x seconds.


class Gittins:
    """Answers for many jobs from the same samples, each in the time of two binary searches."""

    def __init__(self, samples: Iterable[float]) -> None:
        self._samples = sorted(samples)
        #: Sum of the first n samples, for n = 0, 1, ...
        self._sums = [0.0, *accumulate(self._samples)]

    def index(self, attained: float, delta: float) -> float:
        """Return P(S - a <= delta | S > a) / E[min(S - a, delta) | S > a], in 1/GPU-seconds.

        That is the chance that a job with attained service `a` ends within the next `delta`, divided by the
        service that this is expected to cost. 0 where no sample is larger than `a`: nothing is known there.
        """
        first = bisect_right(self._samples, attained)
        beyond = bisect_right(self._samples, attained + delta)
        left = len(self._samples) - first
        if left == 0 or delta <= 0:
            return 0.0
        ending = beyond - first
        expected = self._sums[beyond] - self._sums[first] - attained * ending + delta * (left - ending)
        return ending / expected


#: Ended jobs whose service is remembered for the Gittins index, the latest.
SAMPLES_KEPT = 200

NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiresias:
    """Queues of attained service; the defaults are those of the published simulator."""

    discipline: Literal["las", "gittins"] = "las"
    #: GPU-seconds at which a job leaves the first, second, ... queue; one more queue than numbers.
    thresholds: Sequence[float] = (3_250.0, 7_200.0)
    #: GPU-seconds that jobs needed in all, for "gittins"; empty: learned from those that end.
    service_samples: Sequence[float] = ()
    #: The order within a queue: jobs that ran and joined it first; by submission; by their first start.
    inside: Literal["running", "submission", "start"] = "running"
    #: A job that waited this many times as long as it has run is promoted to the first queue; 0: never.
    promote: float = 0.0
    #: Gangs of a larger skew (largest tensor / model size) are consolidated.
    pack_limit: float = 0.5

    def __post_init__(self) -> None:
        if self.discipline not in ("las", "gittins"):
            raise ValueError(f"discipline must be las or gittins, not {self.discipline!r}")
        if self.inside not in ("running", "submission", "start"):
            raise ValueError(f"inside must be running, submission or start, not {self.inside!r}")
        if list(self.thresholds) != sorted(set(self.thresholds)) or min(self.thresholds, default=1) <= 0:
            raise ValueError("thresholds must rise, and be above 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Grant the jobs of the first queues; look again at the next demotion or promotion."""
        if not self.learns and len(view.running) == len(view.jobs):
            return Decision(grants=(), memory=memory, keep_running=True)
        queues = _Queues(self, view, memory)
        if self._settles:
            newcomers = queues.newcomers()
            calm = None if newcomers is None else start_all(newcomers, view, locality_of=self.locality(view))
            if calm is not None:
                # Once a job has to wait, a later round works out which job joined which queue when.
                return calm.decision({}, memory=memory)
        if self.promote > 0:
            queues.promote_the_starving()
        if self.inside == "running":
            queues.line_up()
        outcome = queues.served(self.locality(view))
        return outcome.decision(
            outcome.reasons(_LATER_QUEUE),
            memory=queues.remember(outcome),
            wake_at=queues.next_change(outcome) if outcome.queue else None,
        )

    @property
    def learns(self) -> bool:
        """Whether it takes the distribution of service from the jobs that end."""
        return self.discipline == "gittins" and not self.service_samples

    @property
    def _settles(self) -> bool:
        """Whether a waiting job stays in its queue, and those that never ran keep their order there."""
        return self.inside == "running" and not self.promote and not self.learns

    @property
    def walks_lines(self) -> bool:
        """Whether the order is that of the lines, with those that never ran behind them."""
        return self._settles and self.discipline == "las"

    def locality(self, view: View) -> Callable[[Job], Locality]:
        """Return the rule by which gangs ask to be near together."""
        consolidation = Consolidation(view.capacity.cluster)
        return lambda job: consolidation.narrowest(job) if self.is_skewed(job) else Locality.ANY

    def is_skewed(self, job: Job) -> bool:
        return job.skew is not None and job.skew > self.pack_limit


class _Queues:
    """The queue and position of every job, from the facts and the memory of earlier rounds.

    Memory, all of it by job: `reset`, its service when it was last promoted; `left`, the instant at which it
    left the first queue and its service then; `first`, its first start, if it was preempted since; `seen`,
    the service of those that run and their GPUs. And `at`, the instant of it, `samples`, and `lines`: by
    queue, the jobs that have started, in their order.
    """

    def __init__(self, policy: Tiresias, view: View, memory: Memory) -> None:
        self._policy, self._view = policy, view
        if memory.get("policy") != "tiresias":
            memory = {}
        self._reset = self._of_present_jobs(memory, "reset")
        self._left = self._of_present_jobs(memory, "left")
        self._first = self._of_present_jobs(memory, "first")
        #: Jobs that start again in this round, as if they had never started.
        self._promoted: set[JobId] = set()
        self._lines: list[list[JobId]] = [list(line) for line in memory.get("lines", ())]
        #: Places in the lines.
        self._places: dict[JobId, int] = {}
        self._samples = self._learned(memory)
        samples = policy.service_samples or self._samples
        self._gittins = Gittins(samples) if policy.discipline == "gittins" else None
        #: Service and queue by job, computed when first needed.
        self._standing: dict[JobId, tuple[float, int]] = {}

    def served(self, locality_of: Callable[[Job], Locality]) -> Outcome:
        """Serve all jobs in the order of the queues."""
        view = self._view
        if not self._policy.walks_lines:
            return serve_in_order(view, self.rank, locality_of=locality_of)
        if not view.waiting:
            return Outcome()
        order = self._in_lines()
        waiting = [job for job in order if job.id not in view.running]
        calm = start_all(waiting, view, locality_of=locality_of)
        return serve_ranked(order, view, locality_of=locality_of) if calm is None else calm

    def rank(self, job: Job) -> tuple[int, int, float, tuple[int, float], float, JobId]:
        return *self._rank_of_queue(job), self._turn(job), job.submitted_at, job.id

    def _rank_of_newcomer(self, job: Job) -> tuple[int, int, float, float, JobId]:
        """Return the rank of a waiting job that is in no line."""
        return *self._rank_of_queue(job), job.submitted_at, job.id

    def _rank_of_queue(self, job: Job) -> tuple[int, int, float]:
        _, queue = self._stands(job)
        index = 0.0
        if self._gittins is not None and queue < len(self._policy.thresholds):
            bound = self._policy.thresholds[queue - 1] if queue else 0.0
            entered = max(bound, self._service(job, ended_only=True))
            index = self._gittins.index(entered, self._policy.thresholds[queue] - entered)
        return -job.priority, queue, -index

    def _settled(self) -> RankedLine:
        """Return the waiting jobs by queue, then submission, for a policy under which they settle."""
        return self._view.ranked(self._rank_of_newcomer, self._policy)

    def newcomers(self) -> list[Job] | None:
        """Return the waiting jobs in order; None where some of them have run before."""
        if any(map(_has_run, self._view.waiting.values())):
            return None
        return self._settled().jobs

    def _in_lines(self) -> list[Job]:
        """Return all jobs by queue: those of its line, then those that wait and never ran, by submission."""
        jobs, places = self._view.jobs, self._places
        queues = [[jobs[number] for number in line] for line in self._lines]
        for rank, job in self._settled().ranked:
            if job.id not in places:
                queues[rank[1]].append(job)
        # Sorting is stable, so within a priority the order stays as it is.
        return sorted(chain.from_iterable(queues), key=_priority, reverse=True)

    def line_up(self) -> None:
        """Append jobs that have entered another queue since the last round to the end of its line."""
        view, known = self._view, {job for line in self._lines for job in line}
        settled = self._settled().ranks if self._policy.walks_lines else {}
        lines: list[list[JobId]] = [[] for _ in range(len(self._policy.thresholds) + 1)]
        comers: list[tuple[float, float, JobId, int]] = []
        strangers = [job for job in view.running if job not in known]
        # Strangers are in no line, and memory may have lines of queues that there are no more.
        for line, before in zip_longest([*self._lines, strangers], lines[: len(self._lines)]):
            for number in line:
                rank = settled.get(number)
                if rank is not None and lines[rank[1]] is before:
                    before.append(number)
                    continue
                job = view.jobs.get(number)
                if job is None or number in self._promoted:
                    continue
                service, queue = self._stands(job)
                if lines[queue] is before:
                    before.append(number)
                else:
                    comers.append((self._came_at(job, service, queue), job.submitted_at, number, queue))
        for _, _, number, queue in sorted(comers):
            lines[queue].append(number)
        self._lines = lines
        self._places = {job: place for line in lines for place, job in enumerate(line)}

    def _came_at(self, job: Job, service: float, queue: int) -> float:
        """Return when a job came to its queue: when its service reached the threshold before it."""
        running = self._view.running.get(job.id)
        if running is None or running.is_nominated:
            return self._view.now
        since, bound = running.since_of(job.id), self._policy.thresholds[queue - 1] if queue else 0.0
        if self._service(job, ended_only=True) >= bound:
            return since
        gpus = amount_of(job, len(running.gpus))
        return max(since, self._view.now - (service - bound) / gpus)

    def _lines_after(self, outcome: Outcome) -> list[list[JobId]]:
        """Return the lines including jobs started now, running jobs before waiting ones."""
        runs = {job.id for job, _ in self._receiving(outcome)}
        started = [self._view.jobs[job] for job in runs if job not in self._places]
        lines = [list(line) for line in self._lines]
        for job in sorted(started, key=lambda job: (self._turn(job), job.submitted_at, job.id)):
            lines[self._stands(job)[1]].append(job.id)
        return [
            [job for job in line if job in runs] + [job for job in line if job not in runs] for line in lines
        ]

    def promote_the_starving(self) -> None:
        """Move jobs that have waited too long relative to their service back to the first queue."""
        for job in self._view.jobs.values():
            service, name = self._service(job), str(job.id)
            if self._queue_of(job, service) == 0:
                self._left.pop(name, None)
                continue
            if name not in self._left:
                self._left[name] = self._leaving(job, service)
            if job.id not in self._view.running and self._patience(job, service) <= INSTANT_SECONDS:
                self._reset[name] = self._reset.get(name, 0.0) + service
                del self._left[name]
                self._promoted.add(job.id)

    def next_change(self, outcome: Outcome) -> float | None:
        """Return the next instant at which a job that runs is demoted, or one that waits is promoted."""
        instants = []
        thresholds, view = self._policy.thresholds, self._view
        for job, gpus in self._receiving(outcome):
            service, queue = self._stands(job)
            if queue < len(thresholds):
                instants.append((thresholds[queue] - service) / gpus)
        if self._policy.promote > 0:
            for job in [view.jobs[number] for number in outcome.queue]:
                service, queue = self._stands(job)
                if queue > 0:
                    instants.append(self._patience(job, service))
        return view.now + max(min(instants), INSTANT_SECONDS) if instants else None

    def remember(self, outcome: Outcome) -> dict[str, Any]:
        """Return the memory for the next round."""
        if self._policy.inside == "start":
            for number in outcome.stops:
                self._first.setdefault(str(number), self._view.running[number].since_of(number))
        memory: dict[str, Any] = {"reset": self._reset, "left": self._left, "first": self._first}
        if self._policy.inside == "running":
            memory["lines"] = self._lines_after(outcome)
        if self._policy.learns:
            memory["samples"] = self._samples
            memory["seen"] = {
                str(job.id): [self._service(job, whole=True), gpus] for job, gpus in self._receiving(outcome)
            }
        memory = {name: value for name, value in memory.items() if value}
        return {"policy": "tiresias", "at": self._view.now, **memory}

    # What is known of one job

    def _stands(self, job: Job) -> tuple[float, int]:
        """Return the job's service and queue, which are fixed for a round after promotions."""
        standing = self._standing.get(job.id)
        if standing is None:
            service = self._service(job)
            standing = self._standing[job.id] = service, self._queue_of(job, service)
        return standing

    def _service(self, job: Job, *, ended_only: bool = False, whole: bool = False) -> float:
        """Return the GPU-seconds received since the last promotion; `whole`: since the first start."""
        running = None if ended_only else self._view.running.get(job.id)
        service = attained_service(job, running, self._view.now)
        if whole or not self._reset:
            return service
        return max(0.0, service - float(self._reset.get(str(job.id), 0.0)))

    def _queue_of(self, job: Job, service: float) -> int:
        return bisect_right(self._policy.thresholds, service + amount_of(job) * INSTANT_SECONDS)

    def _turn(self, job: Job) -> tuple[int, float]:
        """Return the sort key that precedes submission in a queue: jobs that have started come first."""
        if self._policy.inside == "running":
            place = self._places.get(job.id)
            return (1, 0.0) if place is None else (0, place)
        return 0, self._started_at(job) if self._policy.inside == "start" else 0.0

    def _started_at(self, job: Job) -> float:
        """Return when the job first started; now where that was forgotten, `NEVER` when it never did."""
        first = self._first.get(str(job.id)) if self._first else None
        if first is not None:
            return float(first)
        running = self._view.running.get(job.id)
        if running is not None:
            return running.since_of(job.id)
        return self._view.now if _has_run(job) else NEVER

    def _leaving(self, job: Job, service: float) -> list[float]:
        """Return when the job left the first queue, and its service then."""
        running, bound = self._view.running.get(job.id), self._policy.thresholds[0]
        if running is None or running.is_nominated:
            return [self._view.now, service]
        since_then = (service - bound) / amount_of(job, sum(map(len, running.replicas)))
        return [max(running.since_of(job.id), self._view.now - since_then), bound]

    def _patience(self, job: Job, service: float) -> float:
        """Return for how many more seconds the job may wait before it is promoted."""
        left_at, service_then = self._left.get(str(job.id)) or (self._view.now, service)
        waited = (self._view.now - left_at) - (service - service_then) / amount_of(job)
        return self._policy.promote * service / amount_of(job) - waited

    # What is known of all

    def _receiving(self, outcome: Outcome) -> Iterator[tuple[Job, float]]:
        """Yield the jobs that run after this round, with their GPUs; a part of a GPU counts as a fraction."""
        jobs, named = self._view.jobs, {job for grant in outcome.grants for job in grant.jobs}
        for grant in outcome.grants:
            yield from ((jobs[number], amount_of(jobs[number], grant.gpus)) for number in grant.jobs)
        named.update(outcome.stops)
        for number, running in self._view.running.items():
            if number not in named:
                yield jobs[number], amount_of(jobs[number], sum(map(len, running.replicas)))

    def _of_present_jobs(self, memory: Memory, name: str) -> dict[str, Any]:
        known: Mapping[str, Any] = memory.get(name, {})
        return {job: value for job, value in known.items() if int(job) in self._view.jobs}

    def _learned(self, memory: Memory) -> list[float]:
        """Return the samples with those of jobs that ran last time and have ended: their service then plus
        the time since.
        """
        samples = list(memory.get("samples", ()))
        passed = self._view.now - memory.get("at", self._view.now)
        for job, (service, gpus) in sorted(memory.get("seen", {}).items(), key=lambda pair: int(pair[0])):
            if int(job) not in self._view.jobs:
                samples.append(service + passed * gpus)
        return samples[-SAMPLES_KEPT:]


def _has_run(job: Job) -> bool:
    return bool(job.attempts or job.attained_service)


_priority = attrgetter("priority")


_LATER_QUEUE = Reason(
    code="queue_of_service",
    tier=Tier.ORDER,
    message="Jobs in earlier queues, with fewer GPU-seconds, and earlier jobs of its own queue come first.",
)
