"""Samples of how many GPUs each tenant holds."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from scheduler.attempts.models import AllocatedGpu
from scheduler.clock import database_now
from scheduler.core.model.lifecycle import HoldPhase
from scheduler.metrics.models import UsageSample
from scheduler.nodes.models import Gpu
from scheduler.stream import OPERATORS, on_commit, send


def sample_usage() -> None:
    """Write down how many GPUs each tenant holds now."""
    held = AllocatedGpu.objects.filter(phase=HoldPhase.HELD)
    # An allocation shared by several tenants' jobs counts for the first of them.
    tenants = held.order_by("gpu_id", "allocation__attempts__id").distinct("gpu_id")
    by_tenant = Counter(tenants.values_list("allocation__attempts__job__tenant__name", flat=True))
    sample = UsageSample.objects.create(
        at=database_now(),
        total=Gpu.objects.filter(present=True).count(),
        held=sum(by_tenant.values()),
        by_tenant=dict(by_tenant),
    )
    publish_usage(
        {
            "at": sample.at.isoformat(),
            "total": sample.total,
            "held": sample.held,
            "by_tenant": sample.by_tenant,
        }
    )


def publish_usage(point: Mapping[str, Any]) -> None:
    """A usage sample names tenants, so only operators get it; members refetch theirs."""
    on_commit(send, [((OPERATORS,), {"type": "live.usage", "point": dict(point)})])
