"""Which events a viewer may see, and events as whole objects of the API."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Q, QuerySet

from scheduler.models.events import Event
from scheduler.models.jobs import Job
from scheduler.wiring.representation import Representation, iso
from tenants.selectors import Viewer


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
    jobs = {event.job_id for event in rows if event.job_id is not None}
    names: dict[int | None, str] = dict(Job.objects.filter(id__in=jobs).values_list("id", "name"))
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
            "job_name": names.get(event.job_id),
            "node": event.node_id,
            "tenant": event.tenant.name if event.tenant else None,
        }
        for event in rows
    ]


def _data_seen(event: Event, viewer: Viewer) -> Any:
    """What an event says in fields; of the members of a virtual cluster only the viewer's own tenants."""
    if viewer.is_operator or event.subject != "virtual_cluster" or not isinstance(event.data, dict):
        return event.data
    own = set(viewer.tenant_names)
    return {
        moment: {**facts, "members": {name: weight for name, weight in members.items() if name in own}}
        if isinstance(facts, dict) and isinstance(members := facts.get("members"), dict)
        else facts
        for moment, facts in event.data.items()
    }
