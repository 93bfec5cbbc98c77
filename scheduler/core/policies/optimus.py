"""Optimus: each GPU to the job whose remaining time it shortens most.

Y. Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys 2018,
section 4.1: every job gets the fewest GPUs that it can have, then one more at a time goes where (t(n) -
t(n+1)) · GPUs of a replica is largest, t being the remaining time with n replicas; a job on as few nodes as
possible (4.2). There are no parameter servers, as in the comparison by Pollux's authors. Deviations:

- Remaining time is what `run_time` expects at the job's own size on the GPU model in question, scaled to each
  other size by its measured goodput, or, if nothing was measured, by the number of GPUs. The paper predicts
  the epochs left from the loss, and iteration times by its own model.
- A job gets at most twice the replicas that it ever had, and keeps its nodes while its number of replicas is
  the same.
- Jobs that are not elastic have their own size or nothing. A job that does not get the fewest GPUs waits:
  higher priority first, then by submission.
- Several GPU models are decided one by one, as in `pollux`. Between intervals a job that waits starts on idle
  GPUs, with the fewest that it can have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any, ClassVar

from scheduler.core.building_blocks.elastic.arrangement import arranged
from scheduler.core.building_blocks.elastic.grants import changes_of, grants_of, minimum_starts, waiting_in
from scheduler.core.building_blocks.elastic.pools import Pool, pools_of
from scheduler.core.building_blocks.elastic.speedups import relative_goodputs
from scheduler.core.building_blocks.ordering import waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import size_speed, work_left_seconds_on
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory

#: By job: GPU-seconds of earlier attempts, and what its own gang would have needed for the same work.
Work = dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimus:
    """Marginal gain in remaining time, one replica after the other."""

    #: It decides itself how many GPUs an elastic job gets.
    resizes: ClassVar[bool] = True

    #: The time between two decisions about all jobs.
    interval_seconds: float = 600.0

    def __post_init__(self) -> None:
        if not self.interval_seconds > 0:
            raise ValueError("interval_seconds must be above 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Decide about all jobs where an interval ends; else start waiting ones on idle GPUs."""
        known: dict[str, Any] = dict(memory) if memory.get("policy") == "optimus" else {}
        next_at = known.get("at", float("-inf")) + self.interval_seconds
        order = sorted(waiting_jobs(view), key=_rank)
        if not (order or any(job.elastic is not None for job in view.jobs.values())):
            return Decision(grants=(), keep_running=True, memory=known)
        work, sizes = _work_done(view, known), _last_sizes(view, known)
        if view.now < next_at - INSTANT_SECONDS:
            grants = minimum_starts(view, order)
            queue, stops = waiting_in(order, grants), tuple[JobId, ...]()
        else:
            known, next_at = {"policy": "optimus", "at": view.now}, view.now + self.interval_seconds
            pools = pools_of(view, _rank)
            rows = []
            for pool in pools:
                replicas = _sizes(view, pool, work)
                rows.append(arranged(pool.room, pool.gangs, replicas, limit=pool.limit))
            grants, stops = changes_of(view, pools, grants_of(view, pools, rows))
            # A job that was given a number of GPUs but finds none on the nodes that it may use leaves them to
            # others.
            left = [view.jobs[job] for job in waiting_in(order, grants)]
            grants += minimum_starts(view, left, grants, stops)
            running = view.running.keys() - set(stops)
            line = sorted(view.jobs.values(), key=_rank)
            queue = waiting_in([job for job in line if job.id not in running], grants)
        return Decision(
            grants=grants,
            queue=queue,
            reasons=dict.fromkeys(queue, (_FEWEST_FIRST,)),
            keep_running=True,
            stops=stops,
            memory={**known, "work": work, "ran": sizes},
            wake_at=next_at,
        )


def most_gain(seconds: Sequence[Mapping[int, float]], replica_gpus: Sequence[int], gpus: int) -> list[int]:
    """Return how many replicas each job gets, in their order.

    `seconds`: the remaining time by number of replicas, of each that a job can have. First each gets its
    fewest as long as there are GPUs, then the next larger number goes, again and again, to the job whose time
    it shortens most for each GPU.
    """
    sizes = [sorted(by_size) for by_size in seconds]
    given = [0] * len(seconds)
    place = [0] * len(seconds)
    queue: list[tuple[float, int]] = []

    def gain(job: int) -> float:
        before, after = sizes[job][place[job]], sizes[job][place[job] + 1]
        return (seconds[job][before] - seconds[job][after]) / ((after - before) * replica_gpus[job])

    for job, (fewest, *larger) in enumerate(sizes):
        if fewest * replica_gpus[job] <= gpus:
            given[job] = fewest
            gpus -= fewest * replica_gpus[job]
            if larger:
                heappush(queue, (-gain(job), job))
    while queue and gpus > 0:
        worth, job = heappop(queue)
        more = (sizes[job][place[job] + 1] - given[job]) * replica_gpus[job]
        if worth >= 0 or more > gpus:
            continue
        place[job] += 1
        given[job], gpus = sizes[job][place[job]], gpus - more
        if place[job] + 1 < len(sizes[job]):
            heappush(queue, (-gain(job), job))
    return given


def _last_sizes(view: View, known: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return GPUs and model of the last attempt of elastic jobs, as JSON."""
    before = {job: ran for job, ran in known.get("ran", {}).items() if int(job) in view.jobs}
    return before | {
        str(job): [sum(map(len, running.replicas)), running.gpu_model]
        for job, running in view.running.items()
        if view.jobs[job].elastic is not None and not running.is_nominated
    }


def _work_done(view: View, known: Mapping[str, Any]) -> Work:
    """Return the service of elastic jobs in ended attempts, and what their own gangs would have needed for
    it.

    Facts contain only the service, in GPU-seconds; the size is taken from the last round.
    """
    work: Work = {}
    for job in view.jobs.values():
        service = sum(job.attained_service.values())
        if job.elastic is None or job.goodput is None or not service:
            continue
        before, worth = known.get("work", {}).get(str(job.id), (0.0, 0.0))
        gpus, model = known.get("ran", {}).get(str(job.id), (job.gpus, ""))
        worth += (service - before) / gpus * size_speed(job, model, gpus) * job.gpus
        work[str(job.id)] = [service, worth]
    return work


def _as_own_gang(job: Job, work: Work) -> Job:
    """Return the job with the service that its own gang would have needed for its progress."""
    service, worth = work.get(str(job.id), (0.0, 0.0))
    if not service or job.measured:
        return job
    return replace(
        job, attained_service={at: had * worth / service for at, had in job.attained_service.items()}
    )


def seconds_left(view: View, pool: Pool, work: Work | None = None) -> list[dict[int, float]]:
    """Return the seconds that each job of a pool would still run, by each number of replicas that it can
    have.
    """
    model, limit_seconds = pool.gpu_model, view.default_time_limit_seconds
    largest = max(pool.room, default=0)
    seconds = []
    for job, gang in zip(pool.jobs, pool.gangs, strict=True):
        known = _as_own_gang(job, work or {})
        left = work_left_seconds_on(model, known, view.running.get(job.id), view.now, limit_seconds)
        gpus = [size * gang.replica_gpus for size in gang.sizes]
        speeds = _speeds(job, model, gpus, largest)
        times = {size: left / each for size, each in zip(gang.sizes, speeds, strict=True) if each > 0}
        seconds.append(times or {gang.sizes[0]: left})
    return seconds


def _sizes(view: View, pool: Pool, work: Work) -> list[int]:
    """Return the replicas of each gang of a pool."""
    seconds = seconds_left(view, pool, work)
    kept = sum([sum(gang.base.values()) * gang.replica_gpus for gang in pool.gangs if gang.pinned])
    free = [number for number, gang in enumerate(pool.gangs) if not gang.pinned]
    chosen = most_gain(
        [seconds[number] for number in free],
        [pool.gangs[number].replica_gpus for number in free],
        pool.limit - kept,
    )
    found = [sum(gang.base.values()) for gang in pool.gangs]
    for number, size in zip(free, chosen, strict=True):
        found[number] = size
    return found


def _speeds(job: Job, gpu_model: str, gpus: Sequence[int], largest_node: int) -> Sequence[float]:
    """Return the speed of a job at each size, relative to its own size, which may exceed what it may have
    now. Each size is taken to be on one node where one could hold it. 0: the job does not run so.
    """
    if job.elastic is None:
        return [1.0] * len(gpus)
    measured = relative_goodputs(job, gpu_model, gpus, largest_node)
    return [count / job.gpus for count in gpus] if measured is None else measured


def _rank(job: Job) -> tuple[int, float, JobId]:
    return -job.priority, job.submitted_at, job.id


_FEWEST_FIRST = Reason(
    code="fewest_first",
    tier=Tier.ORDER,
    message="Jobs before it in line have the fewest GPUs that they can run on, and no more came free.",
    hint="A job that can run on fewer GPUs (`elastic`) starts sooner.",
)
