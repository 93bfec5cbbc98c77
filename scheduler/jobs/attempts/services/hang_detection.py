"""Jobs that run and do nothing, by the rules of their owners or the site; and trial runs that are over."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from scheduler.core.model.lifecycle import AttemptState, StopCause
from scheduler.jobs.attempts.services.lifecycle import attempt_stop
from scheduler.jobs.attempts.services.steps import attempt_event, lock_jobs
from scheduler.models.attempts import Attempt, ProgressPoint
from scheduler.models.events import Event
from scheduler.models.jobs import Job
from scheduler.models.selectors.cluster import cluster_settings
from scheduler.models.selectors.nodes import served_since
from scheduler.telemetry.metrics.selectors.idleness import idle_gpu_seconds
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each

_ACTOR = "watch"
_WARNING = "attempt.stuck"


def watch_jobs() -> None:
    """Warn once of each silent attempt, or stop it, as its job says."""
    watched = Attempt.objects.filter(state=AttemptState.RUNNING, job__spec__watch__silent__isnull=False)
    # The newest line of each alone, by the index: an attempt of weeks has hundreds of thousands.
    lines = ProgressPoint.objects.filter(attempt=OuterRef("id")).order_by("-at")
    heard = watched.exclude(job__spec__watch__silent=None).annotate(
        heard_at=Coalesce(Subquery(lines.values("at")[:1]), F("running_at"))
    )
    now, since = database_now(), served_since()

    def watch(row: tuple[int, int, dict[str, Any], datetime]) -> None:
        attempt_id, job_id, rule, heard_at = row
        # A node's clock may be ahead: then it is found a little later.
        if now - _later(heard_at, since) >= timedelta(seconds=rule["silent"]):
            message = f"It reported no progress for {rule['silent']:g} s."
            _act(attempt_id, job_id, StopCause.STUCK, rule["then"], message)

    rows = heard.values_list("id", "job_id", "job__spec__watch", "heard_at")
    for_each("the watch for silence of (attempt, job, rule, heard at)", rows, watch)


def watch_idle_gpus() -> None:
    """Warn once of each attempt with idle GPUs, or stop it, as its job or else the site says."""
    settings = cluster_settings()
    usual = None
    if settings["idle_gpus_seconds"] is not None:
        usual = {name: settings[f"idle_gpus_{name}"] for name in ("seconds", "below_percent", "then")}
    running = Attempt.objects.filter(state=AttemptState.RUNNING).select_related("job", "allocation")
    if usual is None:
        running = running.filter(job__spec__watch__idle_gpus__isnull=False)
    # Few jobs have a rule of their own: the specifications of the others need not be read.
    own = ExpressionWrapper(Q(job__spec__watch__idle_gpus__isnull=False), output_field=BooleanField())
    now, since = database_now(), served_since()

    def watch(attempt: Attempt) -> None:
        rule = (_own_rule(attempt.job) if attempt.has_own_rule else None) or usual  # type: ignore[attr-defined]
        if rule is None or attempt.running_at is None:
            return
        # Only one that has run for as long can have been idle for as long: most cost no query.
        if now - _later(attempt.running_at, since) >= timedelta(seconds=rule["seconds"]):
            _act_on_idleness(attempt, rule)

    watched = running.annotate(has_own_rule=own).iterator(chunk_size=500)
    for_each("the watch for idle GPUs of", watched, watch)


def _act_on_idleness(attempt: Attempt, rule: dict[str, Any]) -> None:
    """Warn of the attempt, or stop it, if its GPUs have been idle for as long as the rule says."""
    idle_seconds = idle_gpu_seconds(attempt, below_percent=rule["below_percent"])
    if idle_seconds is not None and idle_seconds >= rule["seconds"]:
        message = f"Its GPUs were less than {rule['below_percent']:g} % busy for {rule['seconds']:g} s."
        _act(attempt.id, attempt.job_id, StopCause.IDLE_GPUS, rule["then"], message)


def _own_rule(job: Job) -> dict[str, Any] | None:
    """Return the job's own rule for idle GPUs; None: it has none."""
    watch = job.specification.watch
    if watch is None or watch.idle_seconds is None:
        return None
    return {
        "seconds": watch.idle_seconds,
        "below_percent": watch.idle_below_percent,
        "then": watch.then,
    }


def _later(at: datetime, since: datetime | None) -> datetime:
    return at if since is None else max(at, since)


@transaction.atomic
def _act(attempt_id: int, job_id: int, cause: StopCause, then: str, message: str) -> None:
    attempt = _running_locked(attempt_id, job_id)
    if attempt is None:
        return
    if then == "stop":
        attempt_stop(attempt, cause=cause, actor=_ACTOR, message=message)
        return
    # Once for each sign.
    warnings = Event.objects.filter(kind=_WARNING, subject="attempt", subject_id=attempt_id)
    if not warnings.filter(data__sign=cause).exists():
        data = {"sign": str(cause)}
        attempt_event(attempt, _WARNING, at=database_now(), actor=_ACTOR, why=message, data=data).save()


def end_trials() -> None:
    """Stop the trial runs that have shown that their jobs work: by a step, or by running long enough."""
    trials = Attempt.objects.filter(state=AttemptState.RUNNING, is_trial=True).exclude(running_at=None)
    now = database_now()
    for_each("the trial run", trials.select_related("job"), lambda attempt: _end_if_over(attempt, now))


def _end_if_over(attempt: Attempt, now: datetime) -> None:
    trial = attempt.job.specification.trial
    assert trial is not None, "only a job with a trial has an attempt that is one"
    if attempt.step:
        _end_trial(attempt.id, attempt.job_id, f"The trial run is over: it reached step {attempt.step}.")
    elif attempt.running_at is not None and now - attempt.running_at >= timedelta(seconds=trial.seconds):
        _end_trial(attempt.id, attempt.job_id, f"The trial run is over: it ran for {trial.seconds:g} s.")


@transaction.atomic
def _end_trial(attempt_id: int, job_id: int, message: str) -> None:
    attempt = _running_locked(attempt_id, job_id)
    if attempt is not None:
        attempt_stop(attempt, cause=StopCause.TRIAL_OVER, actor="trial", message=message)


def _running_locked(attempt_id: int, job_id: int) -> Attempt | None:
    """Lock the job; return the attempt if it still runs."""
    lock_jobs([job_id])
    attempt = Attempt.objects.select_related("job", "allocation").get(id=attempt_id)
    return attempt if attempt.state == AttemptState.RUNNING else None
