"""Questions that wait for their turn: forecasts and answers are worked out one at a time."""

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from scheduler.wiring.clock import database_now


def seconds_waited(question: QuerySet[Any], patience: timedelta) -> float | None:
    """Return how long a question has waited; None where it is gone, answered, or given up for its age."""
    now = database_now()
    waiting = question.filter(state="waiting", asked_at__gt=now - patience)
    asked_at = waiting.values_list("asked_at", flat=True).first()
    return None if asked_at is None else (now - asked_at).total_seconds()
