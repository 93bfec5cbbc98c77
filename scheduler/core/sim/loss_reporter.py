"""Simulated jobs that report how their loss falls: along each one's curve, by the work that it has done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from scheduler.core.building_blocks.pace import EVERY_SECONDS
from scheduler.core.model.snapshot import Job, JobId
from scheduler.core.perf.convergence import LossCurve
from scheduler.core.round.facts import Facts
from scheduler.core.sim.event_queue import EventQueue
from scheduler.core.sim.progress import Progress
from scheduler.core.sim.workload import Truth

#: The most losses of a job in the facts: spread evenly over its lines, always with the latest, as live.
MOST_LOSSES = 32


class LossReporter:
    """Losses of the jobs that have a curve. A step is a second of work."""

    def __init__(
        self, facts: Callable[[], Facts], progress: Mapping[JobId, Progress], events: EventQueue
    ) -> None:
        self._facts, self._progress, self._events = facts, progress, events
        self._curves: dict[JobId, LossCurve] = {}
        self._losses: dict[JobId, list[tuple[float, float]]] = {}
        #: The instant of the last line of each running job.
        self._lines: dict[JobId, float] = {}

    def add(self, job: Job, truth: Truth) -> None:
        """Add a job that comes."""
        if truth.loss is not None:
            self._curves[job.id] = truth.loss
            self._losses[job.id] = list(job.losses)

    def begin(self, job: JobId) -> None:
        """Note that an attempt of the job begins."""
        if job in self._curves:
            self._lines[job] = self._events.now
            self._note(job)

    def end(self, job: JobId) -> None:
        """Note that the job's attempt has ended."""
        if self._lines.pop(job, None) is not None:
            self._note(job)

    def report(self) -> None:
        """Pass the new lines to the scheduler."""
        for job, at in sorted(self._lines.items()):
            if self._events.now >= at + EVERY_SECONDS:
                self._lines[job] = self._events.now
                self._note(job)

    def _note(self, job: JobId) -> None:
        """Write a line, unless no work was done since the last one; repeated work replaces later lines."""
        step, lines = self._progress[job].done_seconds(self._events.now), self._losses[job]
        while lines and lines[-1][0] >= step:
            lines.pop()
        lines.append((step, self._curves[job].at(step)))
        known = self._facts().jobs.get(job)
        if known is not None:
            every = -(-len(lines) // MOST_LOSSES)
            kept = tuple(lines[::-1][::every][::-1])
            self._facts().put_job(replace(known, losses=kept))
