"""Which events a viewer may see, and events as whole objects of the API."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Q, QuerySet

from scheduler.models.events import Event
from scheduler.models.jobs import Job
from scheduler.models.nodes import Node
from scheduler.wiring.representation import Representation
from tenants.selectors import Viewer
from tenants.times import iso


def events_visible(viewer: Viewer) -> QuerySet[Event]:
    """Return events of the viewer's tenants, and those of nodes and virtual clusters, which have none."""
    events = Event.objects.select_related("tenant")
    if viewer.is_operator:
        return events
    return events.filter(Q(tenant_id__in=list(viewer.roles)) | Q(tenant=None))


def events(rows: Iterable[Event], viewer: Viewer) -> list[Representation]:
    """Return events as the viewer may see them, the newest first; what is gone has an id and no name.

    Ids follow transactions, and one that began earlier may have a higher one: times decide.
    """
    rows = sorted(rows, key=lambda event: (event.at, event.id), reverse=True)
    jobs = _names(Job, [event.job_id for event in rows])
    nodes = _names(Node, [event.node_id for event in rows])
    return [
        {
            "id": event.id,
            "at": iso(event.at),
            "kind": event.kind,
            "subject": event.subject,
            "subject_id": event.subject_id,
            "from": event.from_state,
            "to": event.to_state,
            "actor": event.actor,
            "message": event.message,
            "data": _data_seen(event, viewer),
            "job": event.job_id,
            "job_name": jobs.get(event.job_id),
            "node": event.node_id,
            "node_name": nodes.get(event.node_id),
            "tenant": event.tenant.name if event.tenant else None,
        }
        for event in rows
    ]


def _names(kind: type[Job] | type[Node], ids: Iterable[int | None]) -> dict[int | None, str]:
    known = {one for one in ids if one is not None}
    return dict(kind.objects.filter(id__in=known).values_list("id", "name"))


class Settling(NamedTuple):
    """How far the events are settled: none up to the id `settled` can still be written. None: not known yet.

    Ids are given out before the transactions that write them end, so a lower id can appear after a higher
    one. A reader that goes on from the highest id would lose it.
    """

    settled: int | None = None
    #: An id that had been given out when the `writers` were looked up.
    given_out: int = 0
    #: The transactions that may have been given an id up to that one, and had not ended.
    writers: frozenset[str] = frozenset()


#: An insert locks the table before it is given an id, and holds the lock until what it wrote can be seen.
_WRITERS = """
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = 'scheduler_event'::regclass AND mode = 'RowExclusiveLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def last_given_out() -> int:
    """Return the highest id that an event was given, also one that is not committed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('scheduler_event', 'id')), 0)"
        )
        last: int = cursor.fetchone()[0]
        return last


def settle(before: Settling) -> Settling:
    """Look how far the events are settled by now."""
    # In this order: a transaction with an id up to this one holds the lock below, or has ended.
    given_out = last_given_out()
    with connection.cursor() as cursor:
        cursor.execute(_WRITERS)
        writing = frozenset(name for (name,) in cursor.fetchall())
    if not writing:
        return Settling(given_out, given_out)
    if before.writers & writing:
        return before._replace(writers=before.writers & writing)
    settled = before.given_out if before.writers else before.settled
    return Settling(settled, given_out, writing)


def events_between(rows: QuerySet[Event], viewer: Viewer, *, after: int, until: int) -> list[Representation]:
    """Return the events of these rows with ids in (after, until], by id."""
    found = events(rows.filter(id__gt=after, id__lte=until), viewer)
    return sorted(found, key=lambda event: event["id"])


def _data_seen(event: Event, viewer: Viewer) -> Any:
    """Return the fields of an event; for the members of a virtual cluster only the viewer's own tenants."""
    if viewer.is_operator or event.subject != "virtual_cluster" or not isinstance(event.data, dict):
        return event.data
    own = set(viewer.tenant_names)
    return {
        moment: {**facts, "members": {name: weight for name, weight in members.items() if name in own}}
        if isinstance(facts, dict) and isinstance(members := facts.get("members"), dict)
        else facts
        for moment, facts in event.data.items()
    }
