"""SRTF, SRSF and Tiresias, as Muri's authors compare with them: exact to the last digit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.reproduction.muri.jobs import (
    MuriJob,
    Nodes,
    Outcome,
    arrivals_of,
    check_sizes,
    next_end,
)

#: GPU-seconds of service with which a job goes to the second queue of Tiresias, and to the third.
QUEUE_LIMITS = (3250, 7200)


def run_shortest(
    jobs: Sequence[MuriJob], *, by_service: bool = False, nodes: int = 8, gpus_per_node: int = 8
) -> Outcome:
    """Run SRTF, or SRSF if `by_service`: least remaining time, or time times GPUs; whoever fits runs."""
    cluster = Nodes(nodes, gpus_per_node)
    check_sizes(jobs, cluster)
    arrivals, active, events = arrivals_of(jobs)[::-1], list[MuriJob](), 0
    ends_at, ending = math.inf, list[MuriJob]()

    def remaining(job: MuriJob) -> float:
        seconds = job.iterations_left * job.iteration_seconds
        return seconds * job.gpus if by_service else seconds

    now = 0.0
    while arrivals or active:
        starts_at = arrivals[-1][0] if arrivals else math.inf
        now = min(starts_at, ends_at)
        if ends_at <= starts_at:
            _end(ending, active, now)
        if starts_at <= ends_at:
            active += _arrive(arrivals)
        for job in active:
            if job.running:
                _progress(job, now)
            job.counted_at = now
        active.sort(key=remaining)
        cluster.clear()
        for job in active:
            job.running = cluster.place(job.gpus)
        running = [job for job in active if job.running]
        ends = [now + job.iterations_left * job.iteration_seconds for job in running]
        ends_at, ending = next_end(running, ends)
        events += 1
    return _outcome(jobs, now, events)


def run_tiresias(jobs: Sequence[MuriJob], *, nodes: int = 8, gpus_per_node: int = 8) -> Outcome:
    """Run Tiresias: three queues by service, those that run before those that wait, GPUs by count alone."""
    cluster = Nodes(nodes, gpus_per_node)
    check_sizes(jobs, cluster)
    arrivals, active, events = arrivals_of(jobs)[::-1], list[MuriJob](), 0
    queues: list[list[MuriJob]] = [[] for _ in range(len(QUEUE_LIMITS) + 1)]
    queue_of: dict[int, int] = {}
    ends_at, ending, demotion_at = math.inf, list[MuriJob](), math.inf
    now = 0.0
    while arrivals or active:
        starts_at = arrivals[-1][0] if arrivals else math.inf
        now = min(starts_at, ends_at, demotion_at)
        if now == ends_at <= starts_at:
            _end(ending, active, now)
            for job in ending:
                queues[queue_of[job.number]].remove(job)
        if now == starts_at:
            for job in _arrive(arrivals):
                active.append(job)
                queues[0].append(job)
                queue_of[job.number] = 0
        for job in active:
            if job.running:
                _progress(job, now)
                queue = queue_of[job.number]
                if queue < len(QUEUE_LIMITS) and job.executed_seconds * job.gpus >= QUEUE_LIMITS[queue]:
                    queues[queue].remove(job)
                    queues[queue + 1].append(job)
                    queue_of[job.number] = queue + 1
            job.counted_at = now
        free = cluster.gpus
        for line in queues:
            for job in line:
                job.running = job.gpus <= free
                free -= job.gpus if job.running else 0
        for line in queues:
            line.sort(key=lambda job: not job.running)
        running = [job for job in active if job.running]
        ends = [now + job.iterations_left * job.iteration_seconds for job in running]
        ends_at = min(ends, default=math.inf)
        ending = [job for job, end in zip(running, ends, strict=True) if end == ends_at]
        demotion_at = min(
            [
                math.ceil(QUEUE_LIMITS[queue_of[job.number]] / job.gpus) - job.executed_seconds + now
                for job in running
                if queue_of[job.number] < len(QUEUE_LIMITS)
            ],
            default=math.inf,
        )
        events += 1
    return _outcome(jobs, now, events)


def _arrive(arrivals: list[tuple[float, list[MuriJob]]]) -> list[MuriJob]:
    _, jobs = arrivals.pop()
    for job in jobs:
        job.counted_at = job.submitted_at
    return jobs


def _end(ending: Sequence[MuriJob], active: list[MuriJob], now: float) -> None:
    for job in ending:
        job.ended_at, job.running = now, False
        active.remove(job)


def _progress(job: MuriJob, now: float) -> None:
    passed = now - job.counted_at
    job.executed_seconds = job.executed_seconds + now - job.counted_at
    job.iterations_left -= max(passed - job.pause_seconds, 0) / job.iteration_seconds


def _outcome(jobs: Sequence[MuriJob], now: float, events: int) -> Outcome:
    return Outcome(
        completion_seconds={job.number: (job.ended_at or now) - job.submitted_at for job in jobs},
        makespan_seconds=now,
        events=events,
    )
