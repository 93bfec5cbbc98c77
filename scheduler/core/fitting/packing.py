"""Choosing nodes for a gang: fewest nodes, then nearest in the topology, then the tightest fit.

Reservations, policies and placers all pack with this one module, so what a policy finds to fit can be placed.
Packing nodes greedily from the fullest offer down is exact for gangs of equal replicas; for gangs of unequal
ones it is first-fit decreasing, which may miss a packing that an exhaustive search finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scheduler.core.fitting.cards import Card, Share, gpus_in, has_room, may_join, rooms_of, without
from scheduler.core.fitting.cluster import Fleet
from scheduler.core.fitting.demand import Demand, Need
from scheduler.core.fitting.holding import Part
from scheduler.core.fitting.storage import Reading, Storage, is_fast_enough, left_after, merged
from scheduler.core.model.bits import members
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.processors import canonical


class Layer:
    """GPUs, CPUs and memory of a fleet that are available, indexed by how many GPUs each node offers."""

    __slots__ = (
        "by_count",
        "cards",
        "changes",
        "cpus",
        "gpus",
        "leaving",
        "left",
        "masks",
        "memory",
        "readings",
        "rooms",
        "storage",
        "version",
    )

    def __init__(self, masks: list[int], cpus: list[float], memory: list[float], largest_node: int) -> None:
        #: Per node: the set of its GPUs on offer.
        self.masks = masks
        self.cpus = cpus
        self.memory = memory
        #: By number of GPUs on offer: the set of the nodes that offer this number.
        self.by_count = [0] * (largest_node + 1)
        for node, mask in enumerate(masks):
            self.by_count[mask.bit_count()] |= 1 << node
        #: GPUs on offer in all.
        self.gpus = sum(mask.bit_count() for mask in masks)
        #: Per node: its open GPUs, of which parts are on offer, with the jobs' shares. They are in no mask.
        #: Copies share the inner mappings, which are replaced rather than changed.
        self.cards: dict[int, dict[int, Card]] = {}
        #: By node with open GPUs: the most that is left of one of them, in thousandths.
        self.left: dict[int, int] = {}
        #: By the same nodes: what is left of each open GPU.
        self.rooms: dict[int, dict[int, int]] = {}
        #: By node with readers: what they read from its storage; and what nodes' storage delivers, empty
        #: where no node states it. Neither is changed in place.
        self.readings: dict[int, tuple[Reading, ...]] = {}
        self.storage: Sequence[Storage] = ()
        #: The readings of jobs that are leaving: a reading shared with one of them must be fast enough
        #: without it, too.
        self.leaving: dict[int, tuple[Reading, ...]] = {}
        #: Nodes in the order of their changes, so that a later reader can skip the others.
        self.changes: list[int] = []
        #: The number of changes.
        self.version = 0

    @classmethod
    def unclaimed(cls, fleet: Fleet, masks: Sequence[int]) -> Layer:
        """Return what an empty fleet offers with these GPUs of each node."""
        layer = cls(list(masks), list(fleet.cpus), list(fleet.memory), fleet.largest_node)
        layer.storage = fleet.storage
        return layer

    def copy(self) -> Layer:
        twin = Layer.__new__(Layer)
        twin.masks, twin.cpus, twin.memory = self.masks.copy(), self.cpus.copy(), self.memory.copy()
        twin.by_count, twin.gpus, twin.cards = self.by_count.copy(), self.gpus, self.cards.copy()
        twin.left, twin.rooms, twin.changes = self.left.copy(), self.rooms.copy(), []
        twin.readings, twin.storage = self.readings.copy() if self.readings else {}, self.storage
        twin.leaving = self.leaving.copy() if self.leaving else {}
        twin.version = 0
        return twin

    def on(self, nodes: int) -> Layer:
        """Return a copy in which nodes outside the set offer nothing."""
        count = len(self.masks)
        others = ((1 << count) - 1) & ~nodes
        if others.bit_count() * 2 < count:
            twin = self.copy()
            for node in members(others):
                twin.set(node, 0, 0.0, 0.0)
            twin.changes, twin.version = [], 0
            return twin
        twin = Layer.__new__(Layer)
        twin.masks, twin.cpus, twin.memory = [0] * count, [0.0] * count, [0.0] * count
        for node in members(nodes):
            twin.masks[node], twin.cpus[node] = self.masks[node], self.cpus[node]
            twin.memory[node] = self.memory[node]
        twin.by_count = [same & nodes for same in self.by_count]
        twin.by_count[0] |= others
        twin.gpus = self.gpus_in(nodes)
        twin.cards = {node: cards for node, cards in self.cards.items() if nodes >> node & 1}
        twin.left = {node: left for node, left in self.left.items() if nodes >> node & 1}
        twin.rooms = {node: rooms for node, rooms in self.rooms.items() if nodes >> node & 1}
        twin.readings = {node: each for node, each in self.readings.items() if nodes >> node & 1}
        twin.storage, twin.leaving = self.storage, self.leaving
        twin.changes, twin.version = [], 0
        return twin

    def set(
        self,
        node: int,
        mask: int,
        cpus: float,
        memory: float,
        cards: dict[int, Card] | None = None,
        readings: tuple[Reading, ...] = (),
    ) -> None:
        self._replace(node, mask)
        self.cpus[node], self.memory[node] = canonical(cpus), memory
        if cards or node in self.cards:
            self._set_cards(node, cards)
        if readings or node in self.readings:
            self._set_readings(node, readings)

    def at(self, node: int) -> tuple[int, float, float, dict[int, Card] | None, tuple[Reading, ...]]:
        """Return what a node offers, as `set` takes it."""
        cards, readings = self.cards.get(node), self.readings.get(node, ())
        return self.masks[node], self.cpus[node], self.memory[node], cards, readings

    def add(self, part: Part, usable: int = -1) -> None:
        """Offer what a holder had, restricted to usable GPUs; GPUs of which others have parts come back when
        these leave.
        """
        node, mask, cpus, memory, shares, readings = part
        mask &= usable
        if shares:
            cards = dict(self.cards.get(node, {}))
            for share in shares:
                left = without(cards.pop(share.gpu, ()), share)
                if left:
                    cards[share.gpu] = left
            mask &= ~sum([gpu for gpu in {share.gpu for share in shares} if gpu in cards])
            self._set_cards(node, cards)
        self._replace(node, self.masks[node] | mask)
        if cpus:
            self.cpus[node] = canonical(self.cpus[node] + cpus)
        self.memory[node] += memory
        if readings:
            self._set_readings(node, left_after(self.readings.get(node, ()), readings))

    def remove(self, part: Part) -> None:
        """Stop offering what a holder has; the rest of a GPU of which it has a part stays on offer."""
        node, mask, cpus, memory, shares, readings = part
        if shares or node in self.cards:
            cards, rooms = dict(self.cards.get(node, {})), dict(self.rooms.get(node, {}))
            for gpu in members(mask & ~gpus_in(shares)):
                cards.pop(1 << gpu, None)
                rooms.pop(1 << gpu, None)
            for share in shares:
                # A GPU offered neither whole nor in parts has another holder, which is leaving.
                if share.gpu & self.masks[node] or share.gpu in cards:
                    cards[share.gpu] = (*cards.get(share.gpu, ()), share)
                    rooms[share.gpu] = rooms.get(share.gpu, WHOLE_GPU) - share.request
            self._set_cards(node, cards, rooms)
        self._replace(node, self.masks[node] & ~mask)
        if cpus:
            self.cpus[node] = canonical(self.cpus[node] - cpus)
        self.memory[node] -= memory
        if readings:
            self._set_readings(node, (*self.readings.get(node, ()), *readings))

    def takes(self, node: int, share: Share, device_bytes: int) -> bool:
        """Whether this share is available on a GPU now, labels included."""
        if share.gpu & self.masks[node]:
            return has_room(share, (), device_bytes)
        card = self.cards.get(node, {}).get(share.gpu)
        return card is not None and has_room(share, card, device_bytes) and may_join(share.labels, card)

    def _set_cards(
        self, node: int, cards: dict[int, Card] | None, rooms: dict[int, int] | None = None
    ) -> None:
        """Set the open GPUs of a node; `rooms`: what is left of each, by default `rooms_of` them."""
        if cards:
            rooms = self.rooms[node] = rooms_of(cards) if rooms is None else rooms
            self.cards[node], self.left[node] = cards, max(rooms.values())
        elif node in self.cards:
            del self.cards[node], self.left[node], self.rooms[node]

    def _set_readings(self, node: int, readings: tuple[Reading, ...]) -> None:
        if readings:
            self.readings[node] = readings
        else:
            self.readings.pop(node, None)

    def can_read(self, node: int, more: Sequence[Reading], leaving: Sequence[Reading] = ()) -> bool:
        """Whether the node's storage is fast enough for a gang's readings as well, once the `leaving` ones
        have ended.
        """
        if not more or not self.storage:
            return True
        storage, there, together = self.storage[node], self.readings.get(node, ()), merged(more)
        if leaving:
            there = left_after(there, leaving)
        soon = self.leaving.get(node, ())
        return is_fast_enough(storage, there, together) and (
            not soon or is_fast_enough(storage, left_after(there, soon), together)
        )

    def readers_of(self, data: frozenset[str]) -> int:
        """Return the set of the nodes on which one of these data sets is read."""
        there = [
            node for node, readings in self.readings.items() if data.intersection(r.data for r in readings)
        ]
        return sum([1 << node for node in there])

    def _replace(self, node: int, mask: int) -> None:
        # Every change of a node passes through here.
        self.changes.append(node)
        self.version += 1
        before, after = self.masks[node].bit_count(), mask.bit_count()
        self.masks[node] = mask
        if before != after:
            self.by_count[before] ^= 1 << node
            self.by_count[after] ^= 1 << node
            self.gpus += after - before

    def holds(self, node: int, needs: Sequence[Need]) -> bool:
        """Whether the node has GPUs, CPUs, memory and storage for all of these replicas.

        A resource that they do not ask for never counts as short, even if the node is overcommitted.
        """
        return (
            self.masks[node].bit_count() >= sum([need.gpus for need in needs])
            and max(self.cpus[node], 0.0) >= sum([need.cpus for need in needs])
            and max(self.memory[node], 0.0) >= sum([need.memory_bytes for need in needs])
            and (not self.storage or self.can_read(node, [r for need in needs for r in need.readings]))
        )

    def has_gpus_for(self, demand: Demand) -> bool:
        """Whether each replica of a gang has a node with enough GPUs; otherwise the gang fits nowhere."""
        for gpus, replicas in demand.sizes:
            if not any(self.by_count[gpus:]) or (replicas > 1 and self.slots(gpus) < replicas):
                return False
        return True

    def slots(self, gpus: int) -> int:
        """Return how many replicas of a size have GPUs, each on one node."""
        return sum(
            [
                count // gpus * nodes.bit_count()
                for count, nodes in enumerate(self.by_count[gpus:], gpus)
                if nodes
            ]
        )

    def gpus_in(self, nodes: int) -> int:
        """Return the GPUs on offer in a set of nodes."""
        return sum([count * (same & nodes).bit_count() for count, same in enumerate(self.by_count)])


def locate(
    layer: Layer, fleet: Fleet, demand: Demand, rank: int, node_rank: int, easier: Layer | None = None
) -> list[int] | None:
    """Return a node for each replica of the gang inside one group of at most that rank, or None.

    Among nodes that offer equally much, those that offer more in the `easier` layer come first, then those
    where its data set is read already.
    """
    if layer.gpus < demand.gpus:
        return None
    for _, node in single_nodes(layer, fleet, demand, rank, easier):
        return [node] * len(demand.needs)
    if rank <= node_rank or len(demand.needs) == 1:
        return None
    liked = layer.readers_of(demand.data) if demand.data else 0
    order = sorted(range(len(demand.needs)), key=lambda replica: -demand.needs[replica].gpus)
    # Domains are the levels above the node, the narrowest first; the first has rank node_rank + 1.
    allowed = fleet.domains[: rank - node_rank]
    best: tuple[tuple[int, int, int], list[int]] | None = None
    for distance in range(len(allowed) - 1, -1, -1):
        for domain in allowed[distance]:
            room = layer.gpus_in(domain)
            if room < demand.gpus:
                continue
            nodes = _spread(layer, demand, order, domain, easier, liked)
            if nodes is None:
                continue
            score = (len(set(nodes)), distance, room - demand.gpus)
            if best is None or score < best[0]:
                best = score, nodes
        if best is None:
            return None  # What does not fit into the wider groups does not fit into narrower ones.
    return best[1] if best else None


def locate_gpus(
    layer: Layer,
    fleet: Fleet,
    demand: Demand,
    rank: int,
    node_rank: int,
    chosen: Sequence[int] | None = None,
) -> tuple[Sequence[int], Mapping[int, int]] | None:
    """Return what `locate` does, or the nodes chosen elsewhere, with the nearest GPUs of each node."""
    nodes = locate(layer, fleet, demand, rank, node_rank) if chosen is None else chosen
    if nodes is None:
        return None
    masks, layouts = layer.masks, fleet.layouts
    if len(nodes) == 1:  # As nearly all gangs.
        return nodes, {nodes[0]: layouts[nodes[0]].nearest(masks[nodes[0]], demand.gpus)[1]}
    gpus: dict[int, int] = {}
    for node, need in zip(nodes, demand.needs, strict=True):
        gpus[node] = gpus.get(node, 0) + need.gpus
    return nodes, {node: layouts[node].nearest(masks[node], count)[1] for node, count in gpus.items()}


def single_nodes(
    layer: Layer, fleet: Fleet, demand: Demand, rank: int, easier: Layer | None = None
) -> Iterator[tuple[int, int]]:
    """Yield (rank, node) for nodes that hold the whole gang, the best first.

    A node with the GPUs as near to each other as possible ends the search; other nodes come nearest first,
    then tightest fit.
    """
    scattered: list[tuple[int, int, int, int]] = []
    liked = layer.readers_of(demand.data) if demand.data else 0
    for count in range(demand.gpus, len(layer.by_count)):
        for node in _by_ease(layer.by_count[count], easier, liked):
            if not layer.holds(node, demand.needs):
                continue
            layout = fleet.layouts[node]
            found, _ = layout.nearest(layer.masks[node], demand.gpus)
            ideal, _ = layout.nearest(layout.levels[-1][0], demand.gpus)
            if found > rank:
                continue
            if found == ideal:
                yield found, node
            else:
                scattered.append((found, count, len(scattered), node))
    for found, _, _, node in sorted(scattered):
        yield found, node


def _by_ease(nodes: int, easier: Layer | None, liked: int) -> Iterator[int]:
    """Yield the nodes of a set, those that offer most in the easier layer first, then those in `liked`."""
    for same in (nodes,) if easier is None else reversed(easier.by_count):
        if liked:
            yield from members(nodes & same & liked)
        yield from members(nodes & same & ~liked)


def _spread(
    layer: Layer, demand: Demand, order: Sequence[int], domain: int, easier: Layer | None, liked: int
) -> list[int] | None:
    """Return a node for each replica over as few nodes of the domain as possible, or None."""
    needs, nodes = demand.needs, [0] * len(demand.needs)
    rest, rest_gpus = list(order), demand.gpus
    smallest = needs[rest[-1]].gpus
    while rest:
        node = _tightest(layer, [needs[replica] for replica in rest], rest_gpus, domain, easier, liked)
        if node is not None:
            for replica in rest:
                nodes[replica] = node
            return nodes
        node = _fullest(layer, domain, smallest, easier, liked)
        if node is None:
            return None
        domain ^= 1 << node
        gpus = layer.masks[node].bit_count()
        cpus, memory = max(layer.cpus[node], 0.0), max(layer.memory[node], 0.0)
        reading: tuple[Reading, ...] = ()
        left = []
        for replica in rest:
            need = needs[replica]
            if (
                need.gpus <= gpus
                and need.cpus <= cpus
                and need.memory_bytes <= memory
                and layer.can_read(node, (*reading, *need.readings))
            ):
                nodes[replica] = node
                reading += need.readings
                gpus, cpus, memory = gpus - need.gpus, cpus - need.cpus, memory - need.memory_bytes
                rest_gpus -= need.gpus
            else:
                left.append(replica)
        rest = left
    return nodes


def _tightest(
    layer: Layer, needs: Sequence[Need], gpus: int, domain: int, easier: Layer | None, liked: int
) -> int | None:
    """Return the node of the domain that holds all these replicas with the least left over, or None."""
    for count in range(gpus, len(layer.by_count)):
        for node in _by_ease(layer.by_count[count] & domain, easier, liked):
            if layer.holds(node, needs):
                return node
    return None


def _fullest(layer: Layer, domain: int, least: int, easier: Layer | None, liked: int) -> int | None:
    """Return the node of the domain that offers the most GPUs, at least `least`, or None."""
    for count in range(len(layer.by_count) - 1, least - 1, -1):
        for node in _by_ease(layer.by_count[count] & domain, easier, liked):
            return node
    return None
