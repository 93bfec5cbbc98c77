"""How many GPUs each tenant held over time."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from scheduler.metrics.models import UsageSample
from scheduler.representation import OTHERS
from tenants.selectors import Viewer


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
