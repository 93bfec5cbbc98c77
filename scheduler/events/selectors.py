"""Which events a viewer may see."""

from django.db.models import Q, QuerySet

from scheduler.events.models import Event
from tenants.selectors import Viewer


def events_visible(viewer: Viewer) -> QuerySet[Event]:
    """Return events of the viewer's tenants, and those of nodes and virtual clusters, which have none."""
    events = Event.objects.select_related("tenant")
    if viewer.is_operator:
        return events
    return events.filter(Q(tenant_id__in=list(viewer.roles)) | Q(tenant=None))
