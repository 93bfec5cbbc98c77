"""How long events are kept."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q

from scheduler.models.events import TOLD_KINDS, Event
from scheduler.models.jobs import Job
from scheduler.wiring.clock import database_now
from tenants.housekeeping import in_turn

_AT_ONCE = 1_000


def prune_events() -> None:
    """Delete old events, the oldest first; keep those that are still read.

    A job's history stays whole until it ended as long ago: a warning is given once for each attempt, and
    comparisons ask whether a job was ever held. Events whose notices are still to be written stay, too.
    """
    until = database_now() - timedelta(days=settings.CONFIG.event_days_kept)
    for old in in_turn(_old_events(until)):
        recent = _recent({event.job_id for event in old if event.job_id is not None}, until)
        Event.objects.filter(id__in=_over(old, recent)).delete()


def _old_events(until: datetime) -> Iterator[list[Event]]:
    """Yield the events before an instant, some at once."""
    last = 0
    while True:
        # Ids follow times but for seconds, and need no further index in a table that every change writes to.
        batch = Event.objects.filter(id__gt=last).order_by("id")[:_AT_ONCE]
        events = list(batch.only("id", "at", "job_id", "kind", "told"))
        old = [event for event in events if event.at < until]
        if not old:
            return
        yield old
        last = events[-1].id


def _over(events: Sequence[Event], recent: Collection[int]) -> list[int]:
    """Return the ids of the events that are no longer read."""
    return [
        event.id
        for event in events
        if event.job_id not in recent and (event.told or event.kind not in TOLD_KINDS)
    ]


def _recent(jobs: Collection[int], until: datetime) -> set[int]:
    """Return those of the jobs that had not ended by then."""
    there = Job.objects.filter(Q(ended_at__gte=until) | Q(ended_at=None), id__in=jobs)
    return set(there.values_list("id", flat=True))
