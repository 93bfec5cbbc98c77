"""What there is, as far as the viewer may see it.

Jobs and what hangs on them are seen by the members of their tenant and by operators; to everybody
else they do not exist. The cluster itself (nodes, virtual clusters, GPU models) is seen by all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, Func, IntegerField, OuterRef, Q, QuerySet, Sum

from scheduler import represent
from scheduler.core.building_blocks.time_shares.units import by_job, unit_named
from scheduler.core.model.lifecycle import HoldPhase, JobState
from scheduler.models import (
    AllocatedGpu,
    Attempt,
    Event,
    Gpu,
    GpuModel,
    Job,
    Loan,
    LogChunk,
    Node,
    Offer,
    PolicyMemory,
    ProgressPoint,
    Round,
    UsageSample,
)
from scheduler.models.inventory import NodeState
from tenants.errors import NotFound
from tenants.models import VirtualCluster
from tenants.selectors import Viewer

#: Key under which a member sees the GPUs of all tenants that are not his.
OTHERS = "others"


def jobs_visible(viewer: Viewer) -> QuerySet[Job]:
    if viewer.is_operator:
        return Job.objects.all()
    return Job.objects.filter(tenant_id__in=list(viewer.roles))


def job_visible(viewer: Viewer, job_id: int) -> bool:
    return jobs_visible(viewer).filter(id=job_id).exists()


def job_get(viewer: Viewer, job_id: int) -> Job:
    """Return a job the viewer may see; else raise NotFound, whether it exists or not."""
    job = jobs_visible(viewer).select_related("tenant", "virtual_cluster").filter(id=job_id).first()
    if job is None:
        raise NotFound(f"There is no job {job_id}, or it belongs to a tenant you are not a member of.")
    return job


def attempt_of(job: Job, number: int | None) -> Attempt | None:
    """Return the attempt of that number, the newest one when no number is given; None before the first."""
    attempts = Attempt.objects.filter(job=job)
    if number is None:
        return attempts.order_by("-number").first()
    attempt = attempts.filter(number=number).first()
    if attempt is None:
        raise NotFound(f"Job {job.id} has no attempt {number}.")
    return attempt


def log_is_full(attempt: Attempt, *, rank: int, limit_bytes: int) -> bool:
    """Whether as much of this rank's output is kept as ever will be."""
    size = Func("text", function="octet_length", output_field=IntegerField())
    stored = LogChunk.objects.filter(attempt=attempt, rank=rank).aggregate(bytes=Sum(size))["bytes"]
    return (stored or 0) >= limit_bytes


def progress_points(job: Job, *, number: int | None, most: int) -> list[ProgressPoint]:
    """Return progress points by attempt and step, evenly thinned to about `most`, newest always included."""
    points = ProgressPoint.objects.filter(attempt__job=job)
    if number is not None:
        points = points.filter(attempt=attempt_of(job, number))
    points = points.order_by("attempt__number", "sequence")
    ids = list(points.values_list("id", flat=True))
    stride = -(-len(ids) // most) if ids else 1
    # Counted from the end, so that the newest point is one of them.
    chosen = ids[::-1][::stride]
    return list(points.filter(id__in=chosen).select_related("attempt"))


def events_visible(viewer: Viewer) -> QuerySet[Event]:
    """Return events of the viewer's tenants, and those of nodes and virtual clusters, which have none."""
    events = Event.objects.select_related("tenant")
    if viewer.is_operator:
        return events
    return events.filter(Q(tenant_id__in=list(viewer.roles)) | Q(tenant=None))


def node_get(name: str) -> Node:
    node = Node.objects.filter(name=name).first()
    if node is None:
        raise NotFound(f"There is no node {name[:80]!r}.")
    return node


def virtual_cluster_get(name: str) -> VirtualCluster:
    virtual_cluster = VirtualCluster.objects.filter(name=name).first()
    if virtual_cluster is None:
        raise NotFound(f"There is no virtual cluster {name[:80]!r}.")
    return virtual_cluster


def offer_get(offer_id: int) -> Offer:
    found = Offer.objects.select_related("lender").filter(id=offer_id).first()
    if found is None:
        raise NotFound(f"There is no offer {offer_id}.")
    return found


def loan_get(loan_id: int) -> Loan:
    found = Loan.objects.filter(id=loan_id).first()
    if found is None:
        raise NotFound(f"There is no loan {loan_id}.")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTargets:
    """What the policy of a view means its jobs to have of each GPU model."""

    #: What the shares are the optimum of.
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
        shares=by_job({unit_named(name): parts for name, parts in named.items()}),
        received_seconds={int(job): had for job, had in memory.get("received", {}).items()},
        counted_seconds=0.0 if reset_at is None or at is None else max(0.0, at - reset_at),
    )


def round_get(number: int) -> Round:
    row = Round.objects.defer("snapshot").filter(number=number).first()
    if row is None:
        raise NotFound(f"There is no round {number}, or its record was pruned.")
    return row


def gpu_models() -> list[dict[str, Any]]:
    """Return the known models with how many GPUs there are, and how many nobody holds or is promised."""
    present = Q(nodes__gpus__present=True)
    here = AllocatedGpu.objects.filter(gpu=OuterRef("pk"))
    usable = Gpu.objects.filter(present=True, healthy=True, node__state=NodeState.READY, node__cordoned=False)
    free = dict(
        usable.filter(~Exists(here.filter(phase=HoldPhase.HELD)))
        .filter(~Exists(here.filter(phase=HoldPhase.PLANNED)))
        .values_list("node__gpu_model_id")
        .annotate(gpus=Count("id"))
    )
    rows = GpuModel.objects.annotate(
        gpu_count=Count("nodes__gpus", filter=present), node_count=Count("nodes", distinct=True)
    )
    return [
        {
            "name": row.name,
            "memory_bytes": row.memory_bytes,
            "gpus": row.gpu_count,
            "gpus_free": free.get(row.id, 0),
            "nodes": row.node_count,
            "price_per_hour": row.price_per_hour,
        }
        for row in rows.order_by("name")
    ]


def cluster_summary(viewer: Viewer) -> dict[str, Any]:
    """Return the cluster in a few numbers; jobs are counted as far as the viewer may see them."""
    by_model: dict[str, dict[str, int]] = {}
    states = represent.gpu_states(gpu__present=True)
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
    unfinished = jobs_visible(viewer).filter(state__in=[JobState.QUEUED, JobState.RUNNING])
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
        "round": {"number": newest["number"], "at": newest["started_at"].isoformat()} if newest else None,
    }


def usage_points(viewer: Viewer, *, now: datetime, minutes: int, most: int) -> list[dict[str, Any]]:
    """Return samples of GPUs in use, evenly thinned to about `most`; other tenants' GPUs as one sum."""
    samples = UsageSample.objects.filter(at__gte=now - timedelta(minutes=minutes)).order_by("at")
    ids = list(samples.values_list("id", flat=True))
    stride = -(-len(ids) // most) if ids else 1
    mine = None if viewer.is_operator else {held.tenant for held in viewer.held}
    return [
        {
            "at": sample.at.isoformat(),
            "total": sample.total,
            "held": sample.held,
            "by_tenant": _as_seen_by(mine, sample.by_tenant),
        }
        for sample in samples.filter(id__in=ids[::-1][::stride])
    ]


def _as_seen_by(mine: set[str] | None, by_tenant: Mapping[str, int]) -> dict[str, int]:
    if mine is None:
        return dict(by_tenant)
    seen = {name: gpus for name, gpus in by_tenant.items() if name in mine}
    others = sum(by_tenant.values()) - sum(seen.values())
    return {**seen, OTHERS: others} if others else seen
