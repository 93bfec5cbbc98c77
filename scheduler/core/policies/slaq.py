"""SLAQ: GPUs go where the loss is expected to fall most in the next minutes.

H. Zhang et al., "SLAQ: Quality-Driven Scheduling for Distributed Machine Learning", SoCC'17. For each job a
curve is fitted to how its loss fell (`perf.convergence`); it predicts by how much the loss will fall in the
next epoch with any number of GPUs. Every job has its fewest GPUs. Then, as long as some are left, the next
one goes to the job whose loss falls most with it. So new jobs get most, and those that have nearly converged
get little. Losses of different jobs are compared relative to how much each has fallen in all. Deviations:

- A job's steps come in proportion to its GPUs, at the pace that it had so far; the paper measures seconds of
  an iteration by cores and adds what coordinating costs.
- The paper's yardstick is the largest change of a loss between two iterations. Here the loss is known only
  now and then, so the yardstick is how far it has fallen since it was first known.
- The loss of a new job is assumed to fall, in an epoch on its fewest GPUs, by half of all it ever will, by
  two thirds on twice as many, and so on. A job is new until it has been served for an epoch on its fewest
  GPUs.
- A job that was served for longer and has not reported enough is worth as much as the median of those that
  have, and less in proportion to its service. So it does not pay not to report.
- A loss that rises, stands still or is not a number is not expected to fall: its job gets no GPU beyond the
  fewest.
- Epochs are minutes where the paper has seconds, since a resized job starts again from a checkpoint. A
  waiting job gets its fewest GPUs at once, by priority and in order of submission.
- A job that is not elastic has all its GPUs or none, and no running job is stopped. Where there are fewer
  GPUs than jobs the rest waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heapreplace
from statistics import median
from typing import ClassVar

from scheduler.core.building_blocks.elastic.extra_workers import decide_by_epochs
from scheduler.core.building_blocks.ordering import waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import attained_service
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, Memory
from scheduler.core.perf.convergence import LEAST_POINTS, fit_loss

#: The expected fall of a loss with a number of GPUs, relative to its fall so far.
Fall = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slaq:
    """The fewest GPUs for each job, and the others one by one to the job whose loss falls most by it."""

    #: It decides how large elastic gangs are.
    resizes: ClassVar[bool] = True
    #: It reads `Job.losses`, which no other policy needs.
    reads_losses: ClassVar[bool] = True

    #: How often GPUs are divided again, and how far ahead it looks.
    epoch_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not self.epoch_seconds > 0:
            raise ValueError("epoch_seconds must be above 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Start the jobs that fit on their fewest GPUs, and divide the rest by the expected fall of
        losses.
        """
        waiting = sorted(waiting_jobs(view), key=lambda job: (-job.priority, job.submitted_at, job.id))
        return decide_by_epochs(
            view, memory, waiting, partial(self._divide, view), _LATER, self.epoch_seconds
        )

    def _divide(
        self, view: View, jobs: Sequence[Job], choices: Sequence[Sequence[int]], idle: int
    ) -> list[int]:
        fewest = [choice[0] for choice in choices]
        known = [self._fall(view, job) for job in jobs]
        known_falls = [(fall, least) for fall, least in zip(known, fewest, strict=True) if fall is not None]
        falls = [
            fall or self._guess(view, job, least, known_falls)
            for fall, job, least in zip(known, jobs, fewest, strict=True)
        ]
        return divide_greedily(falls, choices, idle)

    def _guess(self, view: View, job: Job, fewest: int, known_falls: Sequence[tuple[Fall, int]]) -> Fall:
        """Return the assumed fall of a job that has not reported enough.

        `known_falls`: the falls of jobs that have, each with the fewest GPUs of its job.
        """
        served = attained_service(job, view.running.get(job.id), view.now)
        new = fewest * self.epoch_seconds
        if served <= new or not known_falls:
            return lambda gpus: 1.0 - 1.0 / (1.0 + gpus / fewest)
        return lambda gpus: (
            median([fall(gpus / fewest * least) for fall, least in known_falls]) * new / served
        )

    def _fall(self, view: View, job: Job) -> Fall | None:
        """Return by how much a job's loss is expected to fall until the next epoch; None: unknown."""
        service = attained_service(job, view.running.get(job.id), view.now)
        if not all([math.isfinite(loss) for _, loss in job.losses]):
            return _no_fall
        if len(job.losses) < LEAST_POINTS or service <= 0:
            return None
        curve = fit_loss(job.losses)
        if curve is None:
            return _no_fall
        step = job.losses[-1][0]
        losses = [loss for _, loss in job.losses]
        steps_per_gpu = step / service * self.epoch_seconds
        fallen = max(losses) - min(losses)
        return lambda gpus: (curve.at(step) - curve.at(step + steps_per_gpu * gpus)) / fallen


def _no_fall(gpus: float) -> float:
    return 0.0


def divide_greedily(falls: Sequence[Fall], choices: Sequence[Sequence[int]], idle: int) -> list[int]:
    """Return the size of each job: from its first choice on, the job that gains most by a GPU is next.

    `choices` are the sizes that each job may have, ascending. The division is optimal if gains fall with
    every GPU and sizes are one GPU apart. Where the next size of a job is too large, the others go on.
    """
    places = [0] * len(falls)

    def offer(job: int) -> tuple[float, int] | None:
        """Return the gain for each GPU of the job's next size, negated so that the largest is first in a
        heap.
        """
        if places[job] + 1 == len(choices[job]):
            return None
        now, larger = choices[job][places[job]], choices[job][places[job] + 1]
        return -(falls[job](larger) - falls[job](now)) / (larger - now), job

    offers = [offered for job in range(len(falls)) if (offered := offer(job)) is not None]
    heapify(offers)
    while offers and idle > 0:
        gain, job = offers[0]
        more = choices[job][places[job] + 1] - choices[job][places[job]]
        if gain >= 0 or more > idle:
            heappop(offers)
            continue
        places[job] += 1
        idle -= more
        following = offer(job)
        if following is None:
            heappop(offers)
        else:
            heapreplace(offers, following)
    return [choice[place] for choice, place in zip(choices, places, strict=True)]


_LATER = Reason(
    code="higher_priority_first",
    tier=Tier.ORDER,
    message="Jobs of higher priority, and earlier jobs of the same priority, come first.",
)
