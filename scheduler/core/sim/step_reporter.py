"""Simulated jobs that report their true steps, whatever was declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from scheduler.core.building_blocks.pace import EVERY_SECONDS, LEAST_PART, Line, Pace, measured_seconds
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.model.snapshot import JobId, Running
from scheduler.core.round.facts import Facts
from scheduler.core.sim.event_queue import EventQueue
from scheduler.core.sim.progress import Attempt, Progress


class StepReporter:
    """What is known about each job's steps, except in trial runs. A step is a second of its work."""

    def __init__(
        self,
        facts: Callable[[], Facts],
        progress: Mapping[JobId, Progress],
        events: EventQueue,
        *,
        is_on: bool,
    ) -> None:
        self._facts, self._progress, self._events, self._is_on = facts, progress, events, is_on
        self._paces: dict[JobId, Pace] = {}

    def begin(self, job: JobId, running: Running) -> None:
        """Note that an attempt of the job begins; its first line comes with its first step."""
        if not self._is_on or self._facts().jobs[job].trial is not None:
            return
        progress = self._progress[job]
        attempt = progress.present
        self._count(job, running, at=attempt.counted_at, step=progress.done_seconds(attempt.counted_at))
        part = LEAST_PART * progress.truth.work_seconds / attempt.rate
        self._events.schedule(
            attempt.counted_at + max(EVERY_SECONDS, part), partial(self._look, job, attempt)
        )

    def report(self) -> None:
        """Pass the new lines that count to the scheduler."""
        if not self._is_on:
            return
        for running in self._facts().running.values():
            if running.phase == "held" and not running.stopping:
                for job in running.jobs:
                    self.note(job, running, after_seconds=EVERY_SECONDS)

    def note(self, job: JobId, running: Running, *, after_seconds: float = 0.0) -> None:
        """Count the newest line, if enough time has passed since the last one that counted.

        `running` is where it was until now.
        """
        progress, now = self._progress[job], self._events.now
        attempt, pace = progress.present, self._paces.get(job)
        at = now if attempt.state is AttemptState.RUNNING else attempt.counted_at
        if pace is not None and at > pace.at and at >= pace.at + after_seconds:
            self._count(job, running, at=at, step=progress.done_seconds(now))

    def _look(self, job: JobId, attempt: Attempt) -> bool:
        """Count a line as soon as it shows how long the job will run, which is worth a round."""
        facts = self._facts()
        running = facts.current.get(job)
        if running is None or self._progress[job].attempt is not attempt:
            return False
        knew = facts.jobs[job].measured
        self.note(job, running)
        return facts.jobs[job].measured and not knew

    def _count(self, job: JobId, running: Running, *, at: float, step: float) -> None:
        facts, progress = self._facts(), self._progress[job]
        known = facts.jobs[job]
        before, gpus = self._paces.get(job, Pace()), facts.amount(running)
        service = {**known.attained_service}
        service[running.gpu_model] = service.get(running.gpu_model, 0.0) + (at - running.since_of(job)) * gpus
        pace = self._paces[job] = before.after(
            Line(
                attempt=progress.attempts,
                sequence=before.sequence + 1,
                at=at,
                step=step,
                total_steps=progress.truth.work_seconds,
                gpu_model=running.gpu_model,
                gpus=gpus,
                is_alone=len(running.jobs) == 1,
                service=service,
            )
        )
        measured = measured_seconds(pace, amount_of(known), known.throughput)
        if measured is not None:
            facts.put_job(replace(known, estimate_seconds=measured, measured=True))
