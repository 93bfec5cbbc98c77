"""One pool of GPUs: those that wait in an order, in which whoever does not fit is passed by others."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from scheduler.simulation.errors import InputError


class PaiJob(NamedTuple):
    """A job; GPUs in thousandths, times in seconds."""

    submitted_at: float
    seconds: float
    milligpus: int
    user: str
    group: str


def run_queue(jobs: Sequence[PaiJob], ranks: Sequence[float], milligpus: int) -> list[float]:
    """Return for how long each job waits, the lowest rank first, equals by their place in the list.

    Of jobs that ask for as much the first in the order is the first that starts, so one queue for each amount
    is enough. Raises InputError for a job that never fits.
    """
    waits = [0.0] * len(jobs)
    coming = sorted(range(len(jobs)), key=lambda number: (jobs[number].submitted_at, number), reverse=True)
    queues: dict[int, list[tuple[float, int]]] = {}
    ends: list[tuple[float, int]] = []
    idle = milligpus
    while coming or ends:
        now = min(([jobs[coming[-1]].submitted_at] if coming else []) + ([ends[0][0]] if ends else []))
        while ends and ends[0][0] <= now:
            idle += heapq.heappop(ends)[1]
        while coming and jobs[coming[-1]].submitted_at <= now:
            number = coming.pop()
            if jobs[number].milligpus > milligpus:
                raise InputError(
                    f"job {number} asks for more than the {milligpus / 1000:g} GPUs that there are"
                )
            heapq.heappush(queues.setdefault(jobs[number].milligpus, []), (ranks[number], number))
        while able := [queue for amount, queue in queues.items() if queue and amount <= idle]:
            _, number = heapq.heappop(min(able, key=lambda queue: queue[0]))
            job = jobs[number]
            waits[number] = now - job.submitted_at
            idle -= job.milligpus
            heapq.heappush(ends, (now + job.seconds, job.milligpus))
    return waits
