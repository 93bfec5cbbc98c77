"""The cluster as a whole: its settings, and what is in it."""

from typing import Any

from django.db.models import Count, Q

from scheduler.core.model.lifecycle import JobState
from scheduler.models.cluster import ClusterSettings
from scheduler.models.nodes import Gpu, Node, NodeState
from scheduler.models.rounds import Round
from scheduler.models.selectors.jobs import jobs_visible
from scheduler.models.selectors.nodes import gpu_states
from scheduler.wiring.plugins import ChosenPlugin
from tenants.selectors import Viewer
from tenants.times import iso


def cluster_summary(viewer: Viewer) -> dict[str, Any]:
    """Return the cluster in a few numbers; jobs are counted as far as the viewer may see them."""
    by_model: dict[str, dict[str, int]] = {}
    states = gpu_states(gpu__present=True)
    present = Gpu.objects.filter(present=True).values_list("id", "node__gpu_model__name", "healthy")
    for gpu, model, healthy in present:
        counts = by_model.setdefault(model, {"total": 0, "healthy": 0, "held": 0, "planned": 0, "free": 0})
        counts["total"] += 1
        counts["healthy"] += healthy
        if gpu in states:
            counts[states[gpu]] += 1
        else:
            counts["free"] += healthy
    keys = ("total", "healthy", "held", "planned", "free")
    newest = Round.objects.order_by("-number").values("number", "started_at").first()
    unfinished = jobs_visible(viewer).filter(state__in=[JobState.QUEUED, JobState.RUNNING], serves=None)
    jobs = unfinished.aggregate(
        queued=Count("id", filter=Q(state=JobState.QUEUED)),
        running=Count("id", filter=Q(state=JobState.RUNNING)),
    )
    nodes = Node.objects.aggregate(
        ready=Count("id", filter=Q(state=NodeState.READY)),
        lost=Count("id", filter=Q(state=NodeState.LOST)),
        cordoned=Count("id", filter=Q(cordoned=True)),
    )
    return {
        "gpus": {key: sum(numbers[key] for numbers in by_model.values()) for key in keys},
        "by_model": by_model,
        "jobs": jobs,
        "nodes": nodes,
        "round": {"number": newest["number"], "at": iso(newest["started_at"])} if newest else None,
    }


_SETTINGS = (
    "auxiliary",
    "currency",
    "preemptions_per_round",
    "backoff_seconds",
    "most_backoff_seconds",
    "idle_gpus_seconds",
    "idle_gpus_below_percent",
    "idle_gpus_then",
)


def cluster_settings() -> dict[str, Any]:
    """Return the settings, JSON-ready."""
    row = ClusterSettings.objects.filter(id=1).first() or ClusterSettings(id=1)
    return {
        "spare_policy_plugin": ChosenPlugin(row.spare_policy, row.spare_policy_parameters).to_json(),
        "spare_placer_plugin": ChosenPlugin(row.spare_placer, row.spare_placer_parameters).to_json(),
        **{name: getattr(row, name) for name in _SETTINGS},
    }
