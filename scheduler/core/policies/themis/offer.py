"""What an auction has on offer, as goods: GPUs of a model, and places for gangs that are near together.

The placer decides where exactly a gang goes, so tables need no row for every machine. A good is a place for s
GPUs on one machine (or in one rack, for gangs that must be in one); a machine with k free GPUs has k // s
such places. A gang of S GPUs there takes S // s of the places for s, for each size s that any gang asks for,
up to S. For sizes that are powers of two that is exact: bundles that keep to all supplies can be placed, the
largest first. For other sizes it may sell slightly too much; a winner without a placement then gets left-over
GPUs. Where an app bids for parts of GPUs, pieces are thousandths: parts that sum to one take one GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.cluster import Fleet
from scheduler.core.fitting.demand import Demand
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.plan import Locality
from scheduler.core.policies.themis.auction.table import Good


@dataclass(frozen=True, slots=True)
class Way:
    """A way to place a gang on a model: over few machines or over any."""

    locality: Locality
    #: Whether the gang is on as few machines as possible.
    near: bool
    #: GPUs together on one machine each.
    chunks: tuple[int, ...]
    #: Rank of the topology level in one group of which the whole gang must be; None: anywhere.
    group: int | None = None


def ways(demand: Demand, fleet: Fleet, node_rank: int, *, spreads_well: bool) -> tuple[Way, ...]:
    """Return the ways in which the gang may be placed, the better one first.

    A gang that `spreads_well` is as fast over any machines, so it has no separate near way.
    """
    sizes = tuple(sorted([need.gpus for need in demand.needs if need.gpus], reverse=True))
    rank = demand.ranks[-1]
    group = rank if node_rank < rank < node_rank + len(fleet.domains) else None
    near = _packed(sizes, fleet.largest_node)
    if rank <= node_rank:
        return (Way(Locality.NODE, True, near),) if len(near) == 1 else ()
    anyhow = Way(Locality.ANY, len(near) == len(sizes), sizes, group)
    if anyhow.near or spreads_well:
        return (anyhow,)
    return (Way(Locality.NODE if len(near) == 1 else Locality.ANY, True, near, group), anyhow)


def _packed(sizes: Iterable[int], largest: int) -> tuple[int, ...]:
    """Return the GPUs of the gang on each of as few empty machines as possible: first fit, the largest
    first.
    """
    machines: list[int] = []
    for size in sizes:
        for place, used in enumerate(machines):
            if used + size <= largest:
                machines[place] = used + size
                break
        else:
            machines.append(size)
    return tuple(machines)


class Offer:
    """The goods, and what a gang takes of them. `capacity` is without the jobs whose GPUs are on offer."""

    def __init__(
        self, capacity: Capacity, ways: Mapping[str, Iterable[Way]], *, has_parts: bool = False
    ) -> None:
        self._sizes: dict[tuple[str, int | None], list[int]] = {}
        #: GPUs of each model.
        self.gpus = {model: max(0, capacity.offered(model)) for model in capacity.models}
        supply: dict[Good, int] = {}
        for model, different in ways.items():
            supply[model] = self.gpus[model]
            sizes: dict[int | None, set[int]] = {None: set()}
            for way in different:
                sizes[None].update(way.chunks)
                if way.group is not None:
                    sizes.setdefault(way.group, set()).add(sum(way.chunks))
            for group, counts in sizes.items():
                self._sizes[model, group] = sorted(counts - {1} if group is None else counts)
                free = capacity.offered_by_group(model, group)
                for size in self._sizes[model, group]:
                    places = sum([gpus // size * groups for gpus, groups in free.items()])
                    supply[model, group, size] = min(places, self.gpus[model] // size)
        self._unit = WHOLE_GPU if has_parts else 1
        self.supply: Mapping[Good, int] = {good: pieces * self._unit for good, pieces in supply.items()}

    def takes(self, model: str, way: Way, gpus: float) -> dict[Good, int]:
        """Return the goods that a gang of `gpus` GPUs takes when placed in this way."""
        taken: dict[Good, int] = {model: round(gpus * self._unit)}
        for size in self._sizes[model, None]:
            places = sum([chunk // size for chunk in way.chunks])
            if places:
                taken[model, None, size] = places * self._unit
        if way.group is not None:
            whole = sum(way.chunks)
            for size in self._sizes[model, way.group]:
                if size <= whole:
                    taken[model, way.group, size] = whole // size * self._unit
        return taken
