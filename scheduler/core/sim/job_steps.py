"""The steps of jobs after their attempts have ended; in the live loop, `attempts.services.job_steps`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.core.model.attempts import EndJob, JobAfter, job_after
from scheduler.core.model.changing import changed
from scheduler.core.model.lifecycle import JobEvent
from scheduler.core.model.snapshot import Job, JobId, Running, Trial
from scheduler.core.round.facts import Facts
from scheduler.core.round.preemption_limits.backoff import after_preemption
from scheduler.core.sim.dependents import Dependents
from scheduler.core.sim.event_queue import EventQueue, nothing
from scheduler.core.sim.failures import Failure
from scheduler.core.sim.progress import Progress
from scheduler.core.sim.recurrence_reporter import RecurrenceReporter
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.sampler import ClusterSampler


class JobSteps:
    """Lets jobs wait again, or end."""

    def __init__(
        self,
        facts: Callable[[], Facts],
        progress: Mapping[JobId, Progress],
        sampler: ClusterSampler,
        events: EventQueue,
        rules: Rules,
    ) -> None:
        self._facts, self._progress, self._sampler = facts, progress, sampler
        self._events, self._rules = events, rules
        self.recurrence = RecurrenceReporter(facts)
        self.dependents = Dependents(facts)

    def receive(self, job: Job) -> None:
        """Record what a new job waits for: instants, and other jobs."""
        for instant in (job.eligible_at, job.may_borrow_at):
            if instant > self._events.now:
                self._events.schedule(instant, nothing)
        self.dependents.add(job)

    def begin(self, job: JobId) -> None:
        """Count an attempt that begins."""
        known = self._facts().jobs[job]
        self._facts().put_job(changed(known, attempts=known.attempts + 1))
        if self.dependents.started(job):
            # The present round has decided without the jobs that this one lets go on.
            self._events.schedule(self._events.now, nothing)

    def take_after(self, job: JobId, end: EndJob, failure: Failure | None = None) -> JobAfter:
        """Let a job take the step that follows from the end of its attempt; return which."""
        trial, after = self._facts().jobs[job].trial, self.after(job, end)
        match after:
            case JobAfter.SUCCEEDED:
                self._conclude(job)
            case JobAfter.TRIAL_PASSED if trial is not None:
                self._pass(job, trial)
            case JobAfter.CANCELLED:
                self._conclude(job, JobEvent.CANCELLED)
            case JobAfter.FAILED:
                self._after_failure(job, failure)
            case _:
                self._wait_again(job)
        return after

    def _pass(self, job: JobId, trial: Trial) -> None:
        """Queue the job itself after its trial."""
        progress, known = self._progress[job], self._facts().jobs[job]
        best = self._rules.speeds.best(trial.gang, self._facts().cluster.models)
        progress.become(changed(trial.gang, profile=progress.job.profile), best)
        self._wait_again(job)
        service, attempts, profile = known.attained_service, known.attempts, known.profile
        gang = changed(trial.gang, attained_service=service, attempts=attempts, profile=profile)
        self._facts().put_job(gang)

    def _after_failure(self, job: JobId, failure: Failure | None) -> None:
        """Retry a job that failed, if its failure allows that."""
        progress, failures = self._progress[job], self._rules.failures
        progress.failures += failure is not None
        if failure is None or not failures.is_worth_retrying(failure, progress.failures):
            self._conclude(job, JobEvent.FAILED)
            return
        self._wait_again(job)
        eligible_at = self._events.now + progress.failures * failures.backoff_seconds
        self._facts().put_job(changed(self._facts().jobs[job], eligible_at=eligible_at))
        self._events.schedule(eligible_at, nothing)

    def hold_off(self, job: JobId, running: Running) -> None:
        """Back off a job that was preempted before its minimum run time."""
        facts, known, now = self._facts(), self._facts().jobs[job], self._events.now
        vc = facts.virtual_clusters.get(known.virtual_cluster)
        short_runs, waits = after_preemption(
            known.short_runs,
            ran_seconds=now - running.since_of(job),
            least_seconds=0.0 if vc is None else vc.min_run_seconds,
            first_wait=facts.frame.backoff_seconds,
            longest_wait=facts.frame.most_backoff_seconds,
        )
        if short_runs != known.short_runs:
            facts.put_job(changed(known, short_runs=short_runs, may_borrow_at=now + waits))
            self._events.schedule(now + waits, nothing)

    def _wait_again(self, job: JobId) -> None:
        self._progress[job].requeue()
        self._sampler.add_waiting(self._progress[job].job)

    def close(self, job: JobId, event: JobEvent) -> None:
        """End a waiting job."""
        self._sampler.drop_waiting(self._progress[job].job)
        self._conclude(job, event)

    def _conclude(self, job: JobId, event: JobEvent | None = None) -> None:
        """End a job permanently: as in the trace, unless `event` states another end."""
        self._progress[job].finish(self._events.now, event)
        self.recurrence.ended(self._facts().jobs[job])
        self._facts().drop_job(job)
        self.dependents.ended(job, well=self._progress[job].outcome == JobEvent.SUCCEEDED)

    def after(self, job: JobId, end: EndJob) -> JobAfter:
        known = self._facts().jobs[job]
        return job_after(end, is_trial=known.trial is not None, cancelling=known.cancelling)
