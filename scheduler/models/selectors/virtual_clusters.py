"""Virtual clusters, which all signed-in users see, and the targets that their policies compute for jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from scheduler.core.building_blocks.time_shares.units import by_job, unit_named
from scheduler.models.rounds import PolicyMemory
from tenants.errors import NotFound
from tenants.models import VirtualCluster


def virtual_cluster_get(name: str) -> VirtualCluster:
    virtual_cluster = VirtualCluster.objects.filter(name=name).first()
    if virtual_cluster is None:
        raise NotFound(f"There is no virtual cluster {name[:80]!r}.")
    return virtual_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTargets:
    """The targets of a view's policy: what each job should get of each GPU model."""

    #: The objective that the shares optimise.
    objective: str | None = None
    #: When they were computed last.
    decided_at: datetime | None = None
    #: Parts of a job's time by GPU model, alone and in company.
    shares: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    #: Seconds by GPU model that a job had since then, and for how long that was counted.
    received_seconds: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    counted_seconds: float = 0.0


def view_targets(view: str) -> ViewTargets:
    """Return the targets of a view, as its policy remembers them (`core.targets.rounds`)."""
    memory = PolicyMemory.objects.filter(view=view).values_list("memory", flat=True).first() or {}
    if "targets" not in memory:
        return ViewTargets()
    reset_at, at = memory.get("reset_at"), memory.get("at")
    named = {**memory["targets"], **memory.get("shared", {})}
    return ViewTargets(
        objective=memory.get("objective"),
        decided_at=None if reset_at is None else datetime.fromtimestamp(reset_at, UTC),
        shares=dict(by_job({unit_named(name): parts for name, parts in named.items()}).items()),
        received_seconds={int(job): had for job, had in memory.get("received", {}).items()},
        counted_seconds=0.0 if reset_at is None or at is None else max(0.0, at - reset_at),
    )
