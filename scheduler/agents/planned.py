"""What operators plan for nodes, maintenance windows and reservations: their times, and jobs in their way."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import QuerySet

from scheduler.core.model.lifecycle import AttemptState, PartState
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.maintenance import MaintenanceWindow
from scheduler.models.reservations import Reservation
from scheduler.models.selectors.maintenance import active_windows
from scheduler.models.selectors.reservations import lasting_reservations
from tenants.errors import FieldError, Invalid
from tenants.times import in_words

#: How far ahead it may start, and how long it may be.
FARTHEST = timedelta(days=366)


def check_start(starts_at: datetime, now: datetime) -> None:
    """Raise Invalid for a start that is not in the future, or too far ahead."""
    if not now < starts_at <= now + FARTHEST:
        expected = "an instant in the future, at most a year away"
        raise Invalid.of(
            FieldError("starts_at", f"{in_words(starts_at)} is not in the future, or too far ahead", expected)
        )


def check_end(ends_at: datetime, starts_at: datetime) -> None:
    """Raise Invalid for an end that is not after the start, or too long after it."""
    if not starts_at < ends_at <= starts_at + FARTHEST:
        expected = "an instant after starts_at, at most a year after it"
        problem = f"{in_words(ends_at)} is not after the start, or too far after it"
        raise Invalid.of(FieldError("ends_at", problem, expected))


def check_new_end(ends_at: datetime, starts_at: datetime, now: datetime) -> None:
    """Raise Invalid for a new end in the past, or one that `check_end` refuses."""
    if ends_at <= now:
        expected = "an instant in the future; cancel it to end it now"
        raise Invalid.of(FieldError("ends_at", "is not in the future", expected))
    check_end(ends_at, starts_at)


def attempts_on(nodes: Collection[str]) -> QuerySet[Attempt]:
    """Return the attempts that have not ended on nodes of these names."""
    parts = AttemptPart.objects.filter(node__name__in=nodes).exclude(state=PartState.EXITED)
    unended = Attempt.objects.filter(id__in=parts.values("attempt_id")).exclude(state=AttemptState.ENDED)
    return unended.select_related("job__virtual_cluster")


def outlasts(attempt: Attempt, instant: datetime, now: datetime) -> bool:
    """Whether the attempt's time limit ends after the instant."""
    job = attempt.job
    seconds = job.time_limit_seconds or job.virtual_cluster.default_time_limit_seconds
    return (attempt.running_at or now) + timedelta(seconds=seconds) > instant


def windows_between(starts_at: datetime, ends_at: datetime) -> QuerySet[MaintenanceWindow]:
    """Return the windows that close nodes at some instant of that time, the first one first."""
    return active_windows().filter(starts_at__lt=ends_at, ends_at__gt=starts_at).order_by("starts_at", "id")


def reservations_between(starts_at: datetime, ends_at: datetime) -> QuerySet[Reservation]:
    """Return the reservations that have nodes at some instant of that time, the first one first."""
    rows = lasting_reservations().filter(starts_at__lt=ends_at, ends_at__gt=starts_at)
    return rows.select_related("tenant").order_by("starts_at", "id")


def window_in_words(window: MaintenanceWindow) -> str:
    when = f"from {in_words(window.starts_at)} to {in_words(window.ends_at)}"
    return f"maintenance window {window.id} ({window.reason}) {when}"


def reservation_in_words(reservation: Reservation) -> str:
    when = f"from {in_words(reservation.starts_at)} to {in_words(reservation.ends_at)}"
    return f"reservation {reservation.name} of tenant {reservation.tenant.name} {when}"
