"""What holders have of each node of a cluster, and what that leaves on offer, updated node by node."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping, Sequence

from scheduler.core.fitting.cards import Card, gpus_in
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.holding import Holding, Part, sum_of
from scheduler.core.fitting.offers import EVICTING, IDLE, RELEASING, BySize
from scheduler.core.fitting.packing import Layer
from scheduler.core.fitting.storage import left_after
from scheduler.core.model.snapshot import AllocationId

_Place = tuple[str, int]


class Claims:
    """The layers of `capacity`, made from every claim on every node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._layers: dict[str, list[Layer]] = {}
        #: By node: the possible victims, the one that loses least first.
        self.evictable: dict[_Place, list[tuple[Holding, Part]]] = {}
        #: The same by model and number of GPUs, on any nodes, the one that loses least first.
        self.evictable_by_size: BySize = {}
        self._evictable_holdings: dict[AllocationId, Holding] = {}
        #: By model: the number of possible victims, and the holders that are already leaving.
        self._evictable_count: Counter[str] = Counter()
        self._leaving: dict[AllocationId, str] = {}
        #: By node and allocation: its part, and whether it leaves.
        self._claims: dict[_Place, dict[AllocationId, tuple[Part, bool]]] = {}
        self._places: dict[AllocationId, list[_Place]] = {}
        self._touched: dict[_Place, None] = {}
        for model, fleet in cluster.fleets.items():
            idle = Layer.unclaimed(fleet, fleet.usable)
            self._layers[model] = [idle, idle.copy(), idle.copy()]

    def drop(self, allocation: AllocationId) -> None:
        """Remove an allocation's holding, if it has any."""
        holding = self._evictable_holdings.pop(allocation, None)
        if holding is not None:
            line = self.evictable_by_size[holding.model, holding.gpus]
            del line[bisect_left(line, holding.disturbance, key=_disturbance)]
            self._evictable_count[holding.model] -= 1
        self._leaving.pop(allocation, None)
        for place in self._places.pop(allocation, ()):
            self._touched[place] = None
            del self._claims[place][allocation]
            occupants = self.evictable.get(place)
            if occupants:
                self.evictable[place] = [pair for pair in occupants if _allocation_of(pair[0]) != allocation]

    def put(self, allocation: AllocationId, holding: Holding, *, leaves: bool) -> None:
        """Record an allocation's holding; `leaves`: the allocation is stopping."""
        places = [(holding.model, part.node) for part in holding.parts]
        self._places[allocation] = places
        if leaves:
            self._leaving[allocation] = holding.model
        elif holding.evictable:
            self._evictable_holdings[allocation] = holding
            self._evictable_count[holding.model] += 1
            line = self.evictable_by_size.setdefault((holding.model, holding.gpus), [])
            insort(line, holding, key=_disturbance)
        for place, part in zip(places, holding.parts, strict=True):
            self._touched[place] = None
            self._claims.setdefault(place, {})[allocation] = (part, leaves)
            if holding.evictable and not leaves:
                occupants = self.evictable.setdefault(place, [])
                occupants.append((holding, part))
                occupants.sort(key=lambda occupant: occupant[0].disturbance)

    def layers(self) -> Mapping[str, Sequence[Layer]]:
        """Return what the cluster offers now, by model; layers that offer the same are one object."""
        for model, node in self._touched:
            self._settle(model, node)
            for layer in self._layers[model]:
                # The changes of a layer are not read from round to round.
                layer.changes.clear()
        self._touched.clear()
        some_leave = set(self._leaving.values())
        offers = {}
        for model, (idle, releasing, evicting) in self._layers.items():
            releasing = releasing if model in some_leave else idle
            offers[model] = [idle, releasing, evicting if self._evictable_count[model] else releasing]
        return offers

    def _settle(self, model: str, number: int) -> None:
        """Recompute what one node offers in each layer."""
        fleet = self._cluster.fleets[model]
        usable, cpus, memory = fleet.usable[number], fleet.cpus[number], fleet.memory[number]
        claims = self._claims[model, number].values()
        staying = [part for part, leaves in claims if not leaves]
        all_claims = sum_of(number, [part for part, _ in claims])
        kept = all_claims if len(staying) == len(claims) else sum_of(number, staying)
        evictable = sum_of(number, [part for _, part in self.evictable.get((model, number), ())])
        layers = self._layers[model]
        if fleet.storage:
            layers[IDLE].leaving[number] = left_after(all_claims.readings, kept.readings)
        if all_claims.shares:
            self._settle_shared(model, number)
            return
        layers[IDLE].set(
            number,
            usable & ~all_claims.mask,
            cpus - all_claims.cpus,
            memory - all_claims.memory,
            readings=all_claims.readings,
        )
        layers[RELEASING].set(
            number,
            usable & ~kept.mask,
            cpus - kept.cpus,
            memory - kept.memory,
            readings=kept.readings,
        )
        layers[EVICTING].set(
            number,
            usable & (~kept.mask | evictable.mask),
            cpus - kept.cpus + evictable.cpus,
            memory - kept.memory + evictable.memory,
            readings=left_after(kept.readings, evictable.readings),
        )

    def _settle_shared(self, model: str, number: int) -> None:
        """Do the same for a node whose GPUs are shared in parts, of which some may leave and others not."""
        fleet = self._cluster.fleets[model]
        claims = list(self._claims[model, number].items())
        may_leave = {_allocation_of(holding) for holding, _ in self.evictable.get((model, number), ())}
        every = [part for _, (part, _) in claims]
        kept = [part for _, (part, leaves) in claims if not leaves]
        fixed = [part for allocation, (part, leaves) in claims if not leaves and allocation not in may_leave]
        usable = fleet.usable[number]
        for reach, parts in ((IDLE, every), (RELEASING, kept), (EVICTING, fixed)):
            claimed = sum_of(number, parts)
            self._layers[model][reach].set(
                number,
                usable & ~claimed.mask,
                fleet.cpus[number] - claimed.cpus,
                fleet.memory[number] - claimed.memory,
                _open(parts, usable),
                claimed.readings,
            )


def _open(parts: Sequence[Part], usable: int) -> dict[int, Card]:
    """Return the GPUs of a node that jobs have only in parts, with these parts."""
    cards: dict[int, Card] = {}
    whole = 0
    for part in parts:
        whole |= part.mask & ~gpus_in(part.shares)
        for share in part.shares:
            cards[share.gpu] = (*cards.get(share.gpu, ()), share)
    return {gpu: card for gpu, card in cards.items() if gpu & usable & ~whole}


def _disturbance(holding: Holding) -> tuple[int, float, float, int]:
    return holding.disturbance


def _allocation_of(holding: Holding) -> AllocationId:
    assert holding.running is not None
    return holding.running.allocation
