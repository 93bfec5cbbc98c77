"""Why the storage of nodes delays a gang that reads a data set, or rules it out."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.cluster import Fleet
from scheduler.core.fitting.demand import Demand, Need
from scheduler.core.fitting.storage import Reading, is_fast_enough
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier


def exceeds_bandwidth(need: Need, fleet: Fleet) -> Reason | None:
    """Return why a replica can never run: no idle node of the fleet delivers what it reads; or None."""
    if not need.readings or not fleet.storage:
        return None
    if any([is_fast_enough(storage, (), need.readings) for storage in fleet.storage]):
        return None
    reading = _fastest(need)
    most = max([storage.bandwidth for storage in fleet.storage])
    kind = f"with {fleet.model}" if fleet.model else "without GPUs"
    return Reason(
        code="exceeds_storage_bandwidth",
        tier=Tier.NEVER,
        message=f"One replica reads {wording.rate(reading.bandwidth)} of its data set {_name(reading)}; the"
        f" storage of a node {kind} delivers at most {wording.rate(most)}.",
        hint=f"Ask for at most {wording.rate(most)}, or leave `data.bandwidth` out.",
    )


def waits_for_storage(demand: Demand, capacity: Capacity) -> Reason | None:
    """Return why a gang waits that would have room if it read nothing; None: it would have no room."""
    if not demand.data:
        return None
    needs = tuple([need._replace(readings=()) for need in demand.needs])
    if capacity.find(replace(demand, needs=needs)) is None:
        return None
    reading = max([_fastest(need) for need in demand.needs if need.readings], key=lambda each: each.bandwidth)
    reads = (
        f"one replica reads {wording.rate(reading.bandwidth)} of its data set {_name(reading)}"
        if reading.bandwidth
        else f"their caches would be too small with its data set {_name(reading)}, and others would read more"
    )
    return Reason(
        code="storage_bandwidth",
        tier=Tier.CAPACITY,
        message=f"Nodes with room for it have too little storage bandwidth left: {reads}.",
        needed=demand.gpus,
        hint="It starts when jobs that read other data there leave, or beside one that reads the same.",
    )


def _fastest(need: Need) -> Reading:
    return max(need.readings, key=lambda each: each.bandwidth)


def _name(reading: Reading) -> str:
    return reading.data.partition("/")[2]
