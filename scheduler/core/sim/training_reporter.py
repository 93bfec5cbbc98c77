"""Simulated jobs that report their epochs: what rounds see of them, and when their batch sizes change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.model.snapshot import Job, JobId
from scheduler.core.model.training import Training
from scheduler.core.round.facts import Facts
from scheduler.core.sim.batch_sizes import Schedule
from scheduler.core.sim.event_queue import EventQueue
from scheduler.core.sim.progress import Attempt, Progress
from scheduler.core.sim.workload import Truth


class TrainingReporter:
    """The schedules of these jobs, and which of them run."""

    def __init__(
        self, facts: Callable[[], Facts], progress: Mapping[JobId, Progress], events: EventQueue
    ) -> None:
        self._facts, self._progress, self._events = facts, progress, events
        self._schedules: dict[JobId, Schedule] = {}
        self._running: set[JobId] = set()

    def add(self, job: Job, truth: Truth) -> None:
        """Add a job that comes."""
        if job.training is not None:
            self._schedules[job.id] = Schedule(job.training, truth.phases, truth.work_seconds)

    def begin(self, job: JobId) -> None:
        """Note that an attempt of the job begins."""
        if job in self._schedules:
            self._running.add(job)

    def end(self, job: JobId) -> Training | None:
        """Note that the job's attempt has ended; return what it reported last."""
        self._running.discard(job)
        return self._training(job)

    def report(self) -> None:
        """Pass the progress of running jobs to the scheduler."""
        facts = self._facts()
        for job in sorted(self._running):
            known = facts.jobs[job]
            training = self._training(job)
            if training != known.training:
                facts.put_job(replace(known, training=training))

    def _training(self, job: JobId) -> Training | None:
        if job not in self._schedules:
            return self._progress[job].job.training
        return self._schedules[job].at(self._progress[job].done_seconds(self._events.now))

    def schedule_change(self, job: JobId) -> None:
        """Schedule the next change of its batch size, after which a round is due."""
        progress = self._progress[job]
        attempt, counted_at = progress.present, progress.present.counted_at
        done = progress.done_seconds(counted_at)
        change = self._schedules[job].next_change(done) if job in self._schedules else None
        if change is not None:
            instant = max(self._events.now, counted_at + (change - done) / attempt.rate)
            self._events.schedule(instant, partial(self._change, job, attempt, attempt.version))

    def _change(self, job: JobId, attempt: Attempt, version: int) -> bool:
        if attempt.version != version or attempt.state is not AttemptState.RUNNING:
            return False
        attempt.count(self._events.now)
        self.schedule_change(job)
        return True
