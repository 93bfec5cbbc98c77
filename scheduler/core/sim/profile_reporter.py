"""Simulated jobs whose devices report how they use GPUs: as live, after their first whole minute alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.model.snapshot import Job, JobId, Running
from scheduler.core.model.training import Profile
from scheduler.core.perf.profiles import blended, first_known, told_at
from scheduler.core.round.facts import Facts
from scheduler.core.sim.event_queue import EventQueue
from scheduler.core.sim.progress import Attempt, Progress
from scheduler.core.sim.workload import Truth

#: Tenant and application; a job without an application is similar to no other.
_Class = tuple[str, str]


class ProfileReporter:
    """The true profiles of these jobs, and what is known about them and similar jobs."""

    def __init__(
        self, facts: Callable[[], Facts], progress: Mapping[JobId, Progress], events: EventQueue
    ) -> None:
        self._facts, self._progress, self._events = facts, progress, events
        self._true: dict[JobId, Profile] = {}
        self._measured: set[JobId] = set()
        #: The jobs that have not been measured, by class.
        self._like: dict[_Class, dict[JobId, None]] = {}
        self._of_users: dict[tuple[_Class, str], Profile] = {}
        self._of_classes: dict[_Class, Profile] = {}

    def add(self, job: Job, truth: Truth) -> Job:
        """Add a job; return it with its known profile."""
        if truth.profile is None:
            return job
        self._true[job.id] = truth.profile
        self._like.setdefault(_class_of(job), {})[job.id] = None
        return replace(job, profile=self._known_of(job, None))

    def begin(self, job: JobId, running: Running) -> None:
        """Begin an attempt. Figures that are measured beside others on its GPUs do not describe the job."""
        is_alone = len(running.jobs) == 1 and not self._facts().shares(running)
        if job in self._true and job not in self._measured and is_alone:
            attempt = self._progress[job].present
            self._events.schedule(told_at(self._events.now), partial(self._tell, job, attempt))

    def _tell(self, job: JobId, attempt: Attempt) -> bool:
        if self._progress[job].attempt is not attempt or attempt.state is not AttemptState.RUNNING:
            return False
        if len(self._facts().current[job].jobs) > 1:
            return False  # Another job has joined it.
        facts, profile = self._facts(), self._true[job]
        known = facts.jobs[job]
        self._measured.add(job)
        facts.put_job(replace(known, profile=self._known_of(known, profile)))
        of_class = _class_of(known)
        self._like[of_class].pop(job, None)
        if not known.application:
            return True
        user = of_class, known.user
        self._of_users[user] = blended(self._of_users.get(user, profile), profile)
        self._of_classes[of_class] = self._of_users[user]
        for number in list(self._like[of_class]):
            other = facts.jobs.get(number)
            if other is None:
                del self._like[of_class][number]
            elif (found := self._known_of(other, None)) != other.profile:
                facts.put_job(replace(other, profile=found))
        return True

    def _known_of(self, job: Job, own: Profile | None) -> Profile | None:
        """Return each figure from the job itself, else from similar jobs of its user, else of any user."""
        of_class = _class_of(job)
        return first_known([own, self._of_users.get((of_class, job.user)), self._of_classes.get(of_class)])


def _class_of(job: Job) -> _Class:
    return job.tenant, job.application
