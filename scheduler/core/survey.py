"""What the whole cluster has to offer before anyone was served, kept up to date node by node."""

from __future__ import annotations

from collections.abc import Collection

from scheduler.core.admit import Admission
from scheduler.core.capacity import EVICTING, IDLE, RELEASING, Capacity
from scheduler.core.facts import Facts
from scheduler.core.holding import Holding, Part
from scheduler.core.packing import Layer
from scheduler.core.snapshot import AllocationId, Running

_Place = tuple[str, int]


class Survey:
    """The layers of `capacity`, made from every claim on every node."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        self._facts, self._admission = facts, admission
        self._layers: dict[str, list[Layer]] = {}
        self._evictable: dict[_Place, list[tuple[Holding, Part]]] = {}
        #: What stays and what leaves of each node, by allocation.
        self._claims: dict[_Place, dict[AllocationId, tuple[Part, bool]]] = {}
        self._places: dict[AllocationId, list[_Place]] = {}
        for model, fleet in facts.cluster.fleets.items():
            idle = Layer.unclaimed(fleet, fleet.usable)
            self._layers[model] = [idle, idle.copy(), idle.copy()]

    def refresh(self, allocations: Collection[AllocationId]) -> Capacity:
        """Take in the allocations that changed; return what the cluster offers now."""
        touched: dict[_Place, None] = {}
        for allocation in sorted(allocations):
            for place in self._places.pop(allocation, ()):
                touched[place] = None
                del self._claims[place][allocation]
                self._evictable[place] = [
                    pair for pair in self._evictable.get(place, ()) if _allocation_of(pair[0]) != allocation
                ]
            running = self._facts.running.get(allocation)
            if running is not None:
                touched.update(dict.fromkeys(self._claim(running)))
        for model, node in touched:
            self._settle(model, node)
        return Capacity(self._facts.cluster, self._layers, self._evictable)

    def _claim(self, running: Running) -> list[_Place]:
        """Note what an allocation takes of its nodes; return those."""
        if running.allocation in self._facts.stale:
            return []
        ends = running.stopping or running.allocation in self._admission.endings
        # A promise that is dropped leaves nothing behind: its GPUs still have the holder they had.
        if ends and running.phase == "planned":
            return []
        holding = self._facts.holdings[running.allocation]
        places = [(holding.model, part.node) for part in holding.parts]
        self._places[running.allocation] = places
        for place, part in zip(places, holding.parts, strict=True):
            self._claims.setdefault(place, {})[running.allocation] = (part, ends)
            if holding.evictable and not ends:
                occupants = self._evictable.setdefault(place, [])
                occupants.append((holding, part))
                occupants.sort(key=lambda occupant: occupant[0].disturbance)
        return places

    def _settle(self, model: str, number: int) -> None:
        """Work out anew what one node offers in each layer."""
        fleet = self._facts.cluster.fleets[model]
        usable, cpus, memory = fleet.usable[number], fleet.cpus[number], fleet.memory[number]
        kept, all_claims = Part(number, 0, 0.0, 0.0), Part(number, 0, 0.0, 0.0)
        for part, leaves in self._claims[model, number].values():
            all_claims = _together(all_claims, part)
            kept = kept if leaves else _together(kept, part)
        evictable = Part(number, 0, 0.0, 0.0)
        for _, part in self._evictable.get((model, number), ()):
            evictable = _together(evictable, part)
        layers = self._layers[model]
        layers[IDLE].set(
            number, usable & ~all_claims.mask, cpus - all_claims.cpus, memory - all_claims.memory
        )
        layers[RELEASING].set(number, usable & ~kept.mask, cpus - kept.cpus, memory - kept.memory)
        layers[EVICTING].set(
            number,
            usable & (~kept.mask | evictable.mask),
            cpus - kept.cpus + evictable.cpus,
            memory - kept.memory + evictable.memory,
        )


def _together(one: Part, other: Part) -> Part:
    return Part(one.node, one.mask | other.mask, one.cpus + other.cpus, one.memory + other.memory)


def _allocation_of(holding: Holding) -> AllocationId:
    assert holding.running is not None
    return holding.running.allocation
