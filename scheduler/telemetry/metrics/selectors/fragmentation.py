"""How fragmented the idle GPUs were, over time, and what fragments them now."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from scheduler.models.metrics import FragmentationSample
from tenants.times import iso


def fragmentation(now: datetime, *, minutes: int, most: int) -> dict[str, Any]:
    """Return the curve, evenly thinned to about `most` points, and what the newest sample says of causes."""
    samples = FragmentationSample.objects.filter(at__gte=now - timedelta(minutes=minutes)).order_by("at")
    ids = list(samples.values_list("id", flat=True))
    stride = -(-len(ids) // most) if ids else 1
    newest = FragmentationSample.objects.order_by("-at").first()
    return {
        "points": [
            {"at": iso(sample.at), "idle": sample.idle, "fragmented": sample.fragmented}
            for sample in samples.filter(id__in=ids[::-1][::stride]).defer("causes", "details")
        ],
        "newest": None
        if newest is None
        else {
            "at": iso(newest.at),
            "idle": newest.idle,
            "fragmented": newest.fragmented,
            "causes": newest.causes,
            **(newest.details or {"kinds": [], "nodes": []}),
        },
    }
