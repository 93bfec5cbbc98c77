"""When enough GPUs for a gang come free, by counting: before that a search for a place is pointless."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Demand
from scheduler.core.fitting.holding import Holding


class ComingFree:
    """What a gang lacks on the nodes of each model, as holdings of a capacity end one after the other.

    While it `lacks` GPUs, `Capacity.find` finds nothing with those holdings dropped. The reverse may fail:
    CPUs, memory, labels and the topology are not counted.
    """

    def __init__(self, capacity: Capacity, demand: Demand) -> None:
        self._demand = demand
        #: By model: how many replicas of each size find no node, and how many GPUs exceed the view's limit.
        self._lacking: dict[str, list[int]] = {}
        self._masks: dict[str, dict[int, int]] = {}
        self._capacity = capacity
        for model in demand.models:
            layer = capacity.widest(model)
            if layer is not None:
                slots = [replicas - layer.slots(gpus) for gpus, replicas in demand.sizes]
                self._lacking[model] = [*slots, demand.gpus - capacity.room(model)]
                self._masks[model] = {}

    @property
    def lacks(self) -> bool:
        return all([max(lacking) > 0 for lacking in self._lacking.values()])

    def end(self, holding: Holding) -> None:
        """Count a holding's GPUs as free."""
        lacking = self._lacking.get(holding.model)
        if lacking is None:
            return
        masks, layer = self._masks[holding.model], self._capacity.widest(holding.model)
        assert layer is not None
        lacking[-1] -= holding.gpus
        for part in holding.parts:
            node = part.node
            before = masks[node] if node in masks else layer.masks[node]
            after = masks[node] = before | part.mask
            had, has = before.bit_count(), after.bit_count()
            for place, (gpus, _) in enumerate(self._demand.sizes):
                lacking[place] += had // gpus - has // gpus


def needed(
    capacity: Capacity, demand: Demand, ends: Iterable[tuple[float, Holding]]
) -> Iterator[tuple[float, Holding]]:
    """Yield the holdings, in this order, that have to end before a gang has enough GPUs by counting."""
    free = ComingFree(capacity, demand)
    if not free.lacks:
        return
    for end, holding in ends:
        free.end(holding)
        yield end, holding
        if not free.lacks:
            return
