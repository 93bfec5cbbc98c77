"""Maintenance windows as whole objects of the API."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from scheduler.core.model.lifecycle import AttemptState, PartState
from scheduler.models.attempts import AttemptPart
from scheduler.models.maintenance import ACTIVE, MaintenanceWindow
from scheduler.models.selectors.jobs import jobs_visible
from scheduler.wiring.representation import Representation
from tenants.selectors import Viewer
from tenants.times import iso

#: The most jobs that the answer names of each window.
MOST_JOBS = 100


def windows(rows: Sequence[MaintenanceWindow], by: Viewer) -> list[Representation]:
    """Return the windows, with those jobs on their nodes that the viewer may see."""
    active = [window for window in rows if window.state in ACTIVE]
    jobs = _jobs_on({node for window in active for node in window.nodes}, by)
    return [_window(window, jobs if window.state in ACTIVE else {}) for window in rows]


def _jobs_on(nodes: set[str], by: Viewer) -> Mapping[str, Mapping[int, Representation]]:
    """Return the jobs that run on each node, by id."""
    found: dict[str, dict[int, Representation]] = defaultdict(dict)
    if not nodes:
        return found
    parts = AttemptPart.objects.filter(node__name__in=nodes, attempt__job__in=jobs_visible(by))
    parts = parts.exclude(state=PartState.EXITED).exclude(attempt__state=AttemptState.ENDED)
    columns = ("node__name", "attempt__job_id", "attempt__job__name", "attempt__job__tenant__name")
    for node, job, name, tenant in parts.values_list(*columns):
        found[node][job] = {"id": job, "name": name, "tenant": tenant}
    return found


def _window(window: MaintenanceWindow, jobs: Mapping[str, Mapping[int, Representation]]) -> Representation:
    there = {job: shown for node in window.nodes for job, shown in jobs.get(node, {}).items()}
    return {
        "id": window.id,
        "reason": window.reason,
        "state": window.state,
        "starts_at": iso(window.starts_at),
        "ends_at": iso(window.ends_at),
        "nodes": window.nodes,
        "jobs": [there[job] for job in sorted(there)[:MOST_JOBS]],
        "job_count": len(there),
        "made_by": window.made_by,
        "made_at": iso(window.made_at),
    }
