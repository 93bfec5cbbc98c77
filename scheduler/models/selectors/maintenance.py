"""Maintenance windows by the nodes that they close."""

from collections.abc import Collection, Mapping

from django.db.models import QuerySet

from scheduler.models.maintenance import ACTIVE, MaintenanceWindow
from scheduler.wiring.clock import database_now

#: For SQL: the nodes that windows close or will close, and from when on, `name` and `starts_at`.
CLOSED_BY_WINDOWS = f"""
SELECT name, min(starts_at) AS starts_at FROM scheduler_maintenancewindow, unnest(nodes) AS name
WHERE state IN ({", ".join(f"'{state.value}'" for state in ACTIVE)}) GROUP BY name
"""


def active_windows() -> QuerySet[MaintenanceWindow]:
    return MaintenanceWindow.objects.filter(state__in=ACTIVE)


def windows_of(nodes: Collection[str]) -> Mapping[str, MaintenanceWindow]:
    """Return the window that closes each node now, or next."""
    rows = active_windows().filter(nodes__overlap=list(nodes)).order_by("-starts_at") if nodes else ()
    names = set(nodes)
    return {node: window for window in rows for node in names.intersection(window.nodes)}


def nodes_in_maintenance() -> set[str]:
    """Return the nodes that a window closes now."""
    begun = active_windows().filter(starts_at__lte=database_now())
    return {node for nodes in begun.values_list("nodes", flat=True) for node in nodes}
