"""How often more was used than was predicted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import NamedTuple

from django.db.models import Sum

from scheduler.models.virtual_clusters import PeakSamples
from scheduler.wiring.clock import database_now

#: Days that a rate covers.
RATE_DAYS = 7


class ViolationRate(NamedTuple):
    samples: int
    exceeded: int

    @property
    def rate(self) -> float:
        return self.exceeded / self.samples if self.samples else 0.0


def violation_rates(virtual_clusters: Collection[int] | None = None) -> Mapping[int, ViolationRate]:
    """Return by virtual cluster how often more was used than was kept, in the last days; without samples it
    has none."""
    since = database_now().date() - timedelta(days=RATE_DAYS - 1)
    rows = PeakSamples.objects.filter(day__gte=since)
    if virtual_clusters is not None:
        rows = rows.filter(virtual_cluster__in=list(virtual_clusters))
    sums = rows.values_list("virtual_cluster_id").annotate(seen=Sum("samples"), over=Sum("exceeded"))
    return {row: ViolationRate(seen, over) for row, seen, over in sums.order_by()}
