"""What gangs hold of the cluster, node by node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from scheduler.core.fitting.cards import Share, share_of
from scheduler.core.fitting.cluster import Fleet
from scheduler.core.fitting.demand import Demand, Need
from scheduler.core.fitting.storage import Reading, merged
from scheduler.core.model.bits import members
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.plan import Placement
from scheduler.core.model.snapshot import NodeId, Running


class Part(NamedTuple):
    """What a gang has of one node."""

    node: int
    mask: int
    cpus: float
    memory: float
    #: The GPUs of which it has only a part.
    shares: tuple[Share, ...] = ()
    #: What it reads of the node's storage.
    readings: tuple[Reading, ...] = ()


def together_on(one: Part, other: Part) -> Part:
    """Return what two gangs have of a node together."""
    shares = one.shares + other.shares if one.shares or other.shares else ()
    readings = one.readings + other.readings if one.readings or other.readings else ()
    cpus, memory = one.cpus + other.cpus, one.memory + other.memory
    return Part(one.node, one.mask | other.mask, cpus, memory, shares, readings)


def sum_of(node: int, parts: Sequence[Part]) -> Part:
    """Return what these parts are of a node together."""
    mask, cpus, memory = 0, 0.0, 0.0
    shares: tuple[Share, ...] = ()
    readings: tuple[Reading, ...] = ()
    for part in parts:
        mask, cpus, memory = mask | part.mask, cpus + part.cpus, memory + part.memory
        if part.shares:
            shares += part.shares
        if part.readings:
            readings += part.readings
    return Part(node, mask, cpus, memory, shares, readings)


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """What a gang holds, or would hold, of the cluster."""

    model: str
    #: GPUs that count against a guarantee: those outside all cells do not.
    gpus: int
    parts: tuple[Part, ...]
    #: Its allocation; None for a gang whose place was just found.
    running: Running | None = None
    #: Opportunistic: guaranteed views may reclaim it.
    evictable: bool = False
    #: Seconds of work lost when it is preempted.
    cost_seconds: float = 0.0

    #: The GPUs of which it has a part, as (model, node, set of just this GPU).
    shared: tuple[tuple[str, int, int], ...] = field(init=False)

    def __post_init__(self) -> None:
        shared: tuple[tuple[str, int, int], ...] = ()
        for part in self.parts:
            if part.shares:
                shared += tuple([(self.model, part.node, share.gpu) for share in part.shares])
        object.__setattr__(self, "shared", shared)

    @property
    def amount(self) -> float:
        """The same GPUs; a part of a GPU counts as a fraction."""
        shares = [share.request for part in self.parts for share in part.shares]
        return self.gpus - (len(shares) * WHOLE_GPU - sum(shares)) / WHOLE_GPU if shares else self.gpus

    @property
    def size(self) -> int:
        """All GPUs of the gang, also those outside all cells."""
        return self.gpus if self.running is None else sum(map(len, self.running.replicas))

    @property
    def disturbance(self) -> tuple[int, float, float, int]:
        """Sort key: the holding that is cheapest to evict first, then the youngest."""
        assert self.running is not None
        return self.gpus, self.cost_seconds * self.gpus, -self.running.since, self.running.allocation


def together(holdings: Collection[Holding], *, has_parts: bool) -> int:
    """Return the number of GPUs that gangs hold; a GPU of which several have parts counts once."""
    gpus = sum([holding.gpus for holding in holdings])
    if not has_parts:
        return gpus
    shared = [gpu for holding in holdings for gpu in holding.shared]
    return gpus - len(shared) + len(set(shared))


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A place for a gang: the exact GPUs, and the victims."""

    placement: Placement
    holding: Holding
    victims: tuple[Holding, ...] = ()


def by_node(nodes: Sequence[int], needs: Sequence[Need]) -> dict[int, list[Need]]:
    """Return the replicas on each node, given the node of each replica."""
    grouped: dict[int, list[Need]] = {}
    for node, need in zip(nodes, needs, strict=True):
        grouped.setdefault(node, []).append(need)
    return grouped


def gpus_of(needs: Iterable[Need]) -> int:
    return sum([need.gpus for need in needs])


def processors_of(needs: Iterable[Need]) -> tuple[float, float]:
    """Return the CPUs and the bytes of memory that replicas need together."""
    cpus, memory = 0.0, 0.0
    for need in needs:
        cpus += need.cpus
        memory += need.memory_bytes
    return cpus, memory


def readings_of_all(needs: Iterable[Need]) -> tuple[Reading, ...]:
    """Return what replicas of a gang on one node read of its storage together."""
    found = [reading for need in needs if need.readings for reading in need.readings]
    return merged(found) if found else ()


def part_for(node: int, mask: int, needs: Sequence[Need]) -> Part:
    """Return what replicas would have of a node, with these GPUs."""
    return Part(node, mask, *processors_of(needs), readings=readings_of_all(needs))


def holding_at(fleet: Fleet, demand: Demand, nodes: Sequence[int], masks: Mapping[int, int]) -> Holding:
    """Return what the gang would hold on these nodes, with these GPUs of each."""
    if len(nodes) == 1:  # The case of nearly all gangs.
        parts = [part_for(nodes[0], masks[nodes[0]], demand.needs)]
    else:
        grouped = by_node(nodes, demand.needs)
        parts = [part_for(node, masks[node], needs) for node, needs in grouped.items()]
    return Holding(fleet.model, demand.gpus, tuple(parts))


def holding_in(fleet: Fleet, demand: Demand, nodes: Sequence[int], gpus: Sequence[int]) -> Holding:
    """Return what a gang with parts would hold, given the node of each replica and the set of its GPUs."""
    parts: dict[int, Part] = {}
    for node, need, mask in zip(nodes, demand.needs, gpus, strict=True):
        before = parts.get(node, Part(node, 0, 0.0, 0.0))
        shares = before.shares
        if need.part is not None:
            shares = (*shares, share_of(need.part, need.labels, mask, fleet.memory_of(node, mask)))
        cpus, memory = before.cpus + need.cpus, before.memory + need.memory_bytes
        readings = merged((*before.readings, *need.readings)) if need.readings else ()
        parts[node] = Part(node, before.mask | mask, cpus, memory, shares, readings)
    return Holding(fleet.model, demand.gpus, tuple(parts.values()))


def nodes_of(fleet: Fleet, demand: Demand, nodes: Sequence[int]) -> tuple[NodeId, ...]:
    """Return the ids of these nodes for a placement."""
    return tuple([fleet.nodes[node].id for node in nodes]) if demand.lacks_gpus else ()


def freed(leaving: Iterable[Part], staying: Iterable[Part]) -> int:
    """Return the set of a node's GPUs that are idle once some parts leave."""
    gone, kept = 0, 0
    for part in leaving:
        gone |= part.mask
    for part in staying:
        kept |= part.mask
    return gone & ~kept


def fit_at(
    fleet: Fleet,
    demand: Demand,
    nodes: Sequence[int],
    masks: Mapping[int, int],
    victims: tuple[Holding, ...] = (),
) -> Fit:
    """Hand out each node's GPUs to the replicas on it, in topology order."""
    left = {node: members(mask) for node, mask in masks.items()}
    replicas = [
        tuple([fleet.gpus[node][gpu] for gpu in islice(left[node], need.gpus)])
        for node, need in zip(nodes, demand.needs, strict=True)
    ]
    placement = Placement(
        gpu_model=fleet.model, replicas=tuple(replicas), nodes=nodes_of(fleet, demand, nodes)
    )
    return Fit(placement, holding_at(fleet, demand, nodes, masks), victims)
