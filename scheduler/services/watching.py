"""Jobs that run and tell of no progress for longer than their owners expect."""

from datetime import timedelta

from django.db import transaction
from django.db.models import F, Max
from django.db.models.functions import Coalesce

from scheduler.clock import database_now
from scheduler.core.lifecycle import AttemptState
from scheduler.models import Attempt, Event
from scheduler.models.jobs import StopCause
from scheduler.services.attempts import attempt_stop
from scheduler.services.steps import attempt_event, lock_jobs

_ACTOR = "watch"


def watch_jobs() -> None:
    """Warn of each attempt that is stuck once, or stop it, as its job says."""
    watched = Attempt.objects.filter(state=AttemptState.RUNNING, job__spec__watch__isnull=False).exclude(
        job__spec__watch=None
    )
    heard = watched.annotate(heard_at=Coalesce(Max("progress__at"), F("running_at")))
    for attempt_id, job_id, watch, heard_at in heard.values_list(
        "id", "job_id", "job__spec__watch", "heard_at"
    ):
        # A node's clock may be ahead: then it is found a little later.
        if database_now() - heard_at >= timedelta(seconds=watch["silent"]):
            _stuck(attempt_id, job_id, watch)


@transaction.atomic
def _stuck(attempt_id: int, job_id: int, watch: dict) -> None:
    lock_jobs([job_id])
    attempt = Attempt.objects.select_related("job", "allocation").get(id=attempt_id)
    if attempt.state != AttemptState.RUNNING:
        return
    message = f"It told of no progress for {watch['silent']:g} s."
    if watch["then"] == "stop":
        attempt_stop(attempt, cause=StopCause.STUCK, actor=_ACTOR, message=message)
    elif not Event.objects.filter(kind="attempt.stuck", subject="attempt", subject_id=attempt_id).exists():
        attempt_event(attempt, "attempt.stuck", at=database_now(), actor=_ACTOR, why=message).save()
