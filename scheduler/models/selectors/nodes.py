"""Nodes and GPU models, which all signed-in users see; GPUs in use; since when agents are served."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, get_args

from django.db.models import Count, Exists, OuterRef, Q

from nodeagent.messages import Enforcement, node_enforcement
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.lifecycle import HoldPhase
from scheduler.jobspec import did_you_mean
from scheduler.models.attempts import AllocatedGpu
from scheduler.models.nodes import AgentService, Gpu, GpuModel, LoanState, Node, NodeState
from scheduler.models.selectors.maintenance import nodes_in_maintenance
from scheduler.models.selectors.money import currency
from tenants.errors import FieldError, NotFound


def node_get(name: str) -> Node:
    node = Node.objects.filter(name=name).first()
    if node is None:
        raise NotFound(f"There is no node {name[:80]!r}.")
    return node


def problems_with_gpu_models(names: Iterable[str], where: str) -> list[FieldError]:
    """Return those that no node ever had, at the field that `where` makes of each (`guaranteed.{}`)."""
    known = list(GpuModel.objects.order_by("name").values_list("name", flat=True))
    return [
        FieldError(
            where.format(name[:80]),
            f"there is no GPU model {name[:80]!r}{did_you_mean(name, known)}",
            f"one of: {', '.join(known)}",
        )
        for name in names
        if name not in known
    ]


def problems_with_quota(models: Iterable[str]) -> list[FieldError]:
    """Return those of a quota's GPU models that no node ever had; none before the first node has registered,
    since an operator may set quotas first.
    """
    return problems_with_gpu_models(models, "limits.{}") if GpuModel.objects.exists() else []


def gpu_models() -> list[dict[str, Any]]:
    """Return the known models with the number of their GPUs, and of those that are neither held nor nominated
    for.
    """
    present = Q(nodes__gpus__present=True)
    here = AllocatedGpu.objects.filter(gpu=OuterRef("pk"))
    usable = Gpu.objects.filter(
        present=True,
        healthy=True,
        node__state=NodeState.READY,
        node__cordoned=False,
        node__loan_state__in=[LoanState.NONE, LoanState.LENT],
    ).exclude(node__name__in=nodes_in_maintenance())
    free = dict(
        usable.filter(~Exists(here.filter(phase=HoldPhase.HELD)))
        .filter(~Exists(here.filter(phase=HoldPhase.NOMINATED)))
        .values_list("node__gpu_model_id")
        .annotate(gpus=Count("id"))
    )
    rows = GpuModel.objects.annotate(
        gpu_count=Count("nodes__gpus", filter=present),
        serving_count=Count("nodes__gpus", filter=present & Q(nodes__serving_pool__isnull=False)),
        node_count=Count("nodes", distinct=True),
    )
    by_isolation = Gpu.objects.filter(present=True, node__gpu_model__isnull=False).values_list(
        "node__gpu_model_id", "node__isolation"
    )
    words = [word for word in get_args(Enforcement) if word]
    held: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(words, 0))
    for model_id, isolation, gpus in by_isolation.annotate(gpus=Count("id")).order_by():
        if word := node_enforcement(isolation):
            held[model_id][word] += gpus
    code = currency()
    return [
        {
            "name": row.name,
            "memory_bytes": row.memory_bytes,
            "gpus": row.gpu_count,
            "gpus_free": free.get(row.id, 0),
            "serving_gpus": row.serving_count,
            "nodes": row.node_count,
            "part_enforcement": held[row.id],
            "price_per_hour": row.price_per_hour,
            "currency": code,
        }
        for row in rows.order_by("name")
    ]


class GpuUse(NamedTuple):
    """A GPU is "held" (also when a successor is planned), "planned" or "free"; how much is held, 0 to 1."""

    state: str
    in_use: float


FREE_GPU = GpuUse("free", 0.0)


def gpu_uses(**which: Any) -> dict[int, GpuUse]:
    """Return what is in use by GPU; free ones are left out."""
    # A query for each phase, since each phase has an index of its own that knows nothing of history.
    planned = AllocatedGpu.objects.filter(phase=HoldPhase.NOMINATED, **which).values_list("gpu_id", flat=True)
    held = AllocatedGpu.objects.filter(phase=HoldPhase.HELD, **which).values_list("gpu_id", "request")
    requests: dict[int, int] = defaultdict(int)
    for gpu, request in held:
        requests[gpu] += request
    return dict.fromkeys(planned, GpuUse(HoldPhase.NOMINATED.value, 0.0)) | {
        gpu: GpuUse(HoldPhase.HELD.value, request / WHOLE_GPU) for gpu, request in requests.items()
    }


def gpu_states(**which: Any) -> dict[int, str]:
    """Return "held" or "planned" by GPU, as in `GpuUse`; free ones are left out."""
    return {gpu: use.state for gpu, use in gpu_uses(**which).items()}


def served_since() -> datetime | None:
    """Return since when agents are served without a break; None where no server keeps a pulse.

    Jobs may have been frozen before that, so their silence then does not count.
    """
    return AgentService.objects.values_list("since", flat=True).first()
