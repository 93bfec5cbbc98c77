"""The run times of similar jobs, for simulated rounds whose policy reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.snapshot import Job
from scheduler.core.perf.recurrence import Like, Recurrence
from scheduler.core.round.facts import Facts
from scheduler.core.round.registry import traits_of


class RecurrenceReporter:
    """Jobs that have ended, by similarity."""

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self._facts = facts
        self._known = Recurrence()

    def ended(self, job: Job) -> None:
        """Note that a job has ended for good."""
        if job.is_without_gpus:
            return  # Its run time is known from the GPU time that it had.
        seconds = sum(job.attained_service.values()) * WHOLE_GPU / job.milligpus
        self._known.ended(_like(job), seconds)

    def report(self) -> None:
        """Pass the usual run time of each job that has not ended to the scheduler."""
        facts = self._facts()
        names = {facts.frame.spare_policy, *(vc.policy for vc in facts.virtual_clusters.values())}
        if not any(traits_of(name).reads_recurrence for name in names):
            return
        for job in list(facts.jobs.values()):
            usual = self._known.usual(_like(job))
            if usual is not None and usual.seconds != job.usual_seconds:
                facts.put_job(replace(job, usual_seconds=usual.seconds))


def _like(job: Job) -> Like:
    return Like(job.tenant, job.user, job.application, job.gpus)
