"""The cluster as sets. Nodes with GPUs of one model are a fleet; sets of things are plain integers.

Bit n of a *node set* is the fleet's n-th node, bit g of a *GPU set* is the node's g-th GPU, both in
topology order. Intersections and counts are then single operations even for thousands of nodes, and
copying a set costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from scheduler.core.fitting.storage import Storage
from scheduler.core.model.bits import members
from scheduler.core.model.plan import Placement
from scheduler.core.model.snapshot import Candidates, GpuId, Job, JobId, Node, NodeId

if TYPE_CHECKING:
    from scheduler.core.fitting.demand import Demand

NODE_LEVEL = "node"

#: The place of a GPU: (model, node, the set of just this GPU).
Place = tuple[str, int, int]

#: CPUs and memory whose amount is not stated.
UNKNOWN = float("inf")


class Shapes:
    """The shapes of jobs, which decide whether they fit, cached over rounds.

    A shape is a number here, since Python recomputes the hash of a nested tuple at each use.
    """

    __slots__ = ("_numbers", "by_priority", "known")

    def __init__(self) -> None:
        #: By job: the job object from which it was made, its shape, and its shape together with its speeds.
        self.known: dict[JobId, tuple[Job, int, int]] = {}
        #: Whether shapes include priorities: while some holder makes room for higher ones only.
        self.by_priority = False
        self._numbers: dict[Hashable, int] = {}

    def number_of(self, shape: Hashable) -> int:
        """Return the number of a shape; equal shapes have equal numbers."""
        return self._numbers.setdefault(shape, len(self._numbers))


class Layout:
    """Where a node's GPUs sit: groups of GPUs by level, the narrowest level first, the whole node last."""

    __slots__ = ("_chosen", "levels")

    def __init__(self, levels: tuple[tuple[int, ...], ...]) -> None:
        self.levels = levels
        self._chosen: dict[tuple[int, int], tuple[int, int]] = {}

    def nearest(self, available: int, count: int) -> tuple[int, int]:
        """Choose `count` of the available GPUs, as near to each other as possible.

        Returns (rank, GPU set): the rank is that of the narrowest level at which one group holds all
        of them. Among groups of that level the fullest is broken into first, so big holes stay whole.
        """
        key = (available, count)
        if key not in self._chosen:
            self._chosen[key] = self._choose(available, count)
        return self._chosen[key]

    def prefer(self, available: int, count: int, liked: Sequence[int]) -> int:
        """Choose `count` of the available GPUs, as many as possible from each set in `liked`, in turn."""
        chosen = 0
        for some in liked:
            part, lacking = some & available & ~chosen, count - chosen.bit_count()
            if part.bit_count() >= lacking:
                return chosen | self.nearest(part, lacking)[1]
            chosen |= part
        return chosen

    def _choose(self, available: int, count: int) -> tuple[int, int]:
        if count == 0:
            return 0, 0
        rank, rooms = next(
            (rank, rooms)
            for rank, groups in enumerate(self.levels)
            if (rooms := [part for group in groups if (part := available & group).bit_count() >= count])
        )
        room = min(rooms, key=int.bit_count)
        if room.bit_count() == count:
            return rank, room
        if rank == 0:
            return rank, sum(1 << gpu for gpu in list(members(room))[:count])
        # No narrower group holds them all: take the largest one whole and the rest next to it.
        part = max((room & group for group in self.levels[rank - 1]), key=int.bit_count)
        return rank, part | self._choose(room & ~part, count - part.bit_count())[1]


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """The nodes with GPUs of one model, in topology order."""

    model: str
    nodes: tuple[Node, ...]
    #: Per node: its GPUs in topology order.
    gpus: tuple[tuple[GpuId, ...], ...]
    #: Per node: the GPUs that may be newly taken: the healthy ones of a node that takes work.
    usable: tuple[int, ...]
    layouts: tuple[Layout, ...]
    #: Per node: the memory of its GPUs in bytes, in the same order; 0: unknown.
    gpu_memory: tuple[tuple[int, ...], ...]
    #: Per node: its CPUs, and its memory in bytes; infinity where they are not stated.
    cpus: tuple[float, ...]
    memory: tuple[float, ...]
    #: Per node: what its storage delivers; empty where no node states it.
    storage: tuple[Storage, ...]
    #: The most CPUs, and bytes of memory, that a node has for each of its GPUs.
    cpus_per_gpu: float
    memory_per_gpu: float
    #: Node sets by level above the node, the narrowest first, all nodes last.
    domains: tuple[tuple[int, ...], ...]
    #: The set of nodes that take replicas without GPUs: not those lent by serving pools, which go back.
    open_nodes: int
    #: The most GPUs on one node.
    largest_node: int
    #: Whether some node is part of a pinned cell.
    has_pinned: bool
    #: GPUs in all, and those that may be newly taken.
    total: int
    total_usable: int

    def memory_of(self, node: int, gpu: int) -> int:
        """Return the memory of a GPU in bytes, given the set of just this one; 0: unknown."""
        return self.gpu_memory[node][gpu.bit_length() - 1]

    @property
    def everything(self) -> int:
        """The set of all nodes."""
        return self.domains[-1][0]


class Cluster:
    """Every fleet by GPU model, and where each GPU is.

    The *rank* of a topology level counts from the narrowest: with the levels (rack, node, socket, switch)
    a switch has rank 0, a node rank 2, a rack rank 3 and the whole cluster rank 4.
    """

    def __init__(self, nodes: Sequence[Node], levels: Sequence[str]) -> None:
        fleets: dict[str, Fleet] = {}
        where: dict[GpuId, Place] = {}
        self._set(levels, fleets, where, Shapes())
        layouts: dict[tuple[tuple[str, ...], ...], Layout] = {}
        in_order = sorted(nodes, key=lambda node: (node.gpu_model, node.path, node.name, node.id))
        for model, group in groupby(in_order, key=lambda node: node.gpu_model):
            fleets[model] = self._fleet(model, tuple(group), layouts, where)
        self.models = _with_gpus(fleets)

    @classmethod
    def of(
        cls,
        levels: Sequence[str],
        fleets: Mapping[str, Fleet],
        where: Mapping[GpuId, Place],
        shapes: Shapes,
    ) -> Cluster:
        """Return a cluster made of existing fleets."""
        cluster = cls.__new__(cls)
        cluster._set(levels, fleets, where, shapes)
        return cluster

    def _set(
        self,
        levels: Sequence[str],
        fleets: Mapping[str, Fleet],
        where: Mapping[GpuId, Place],
        shapes: Shapes,
    ) -> None:
        self.levels = tuple(levels)
        self.ranks = {level: rank for rank, level in enumerate(reversed(self.levels))}
        self.node_rank = self.ranks[NODE_LEVEL]
        self.fleets, self.where = fleets, where
        #: Models with GPUs; nodes without GPUs form a fleet without a model.
        self.models = _with_gpus(fleets)
        self._places: dict[NodeId, tuple[str, int]] | None = None
        #: Demands by shape, filled by `demand_of`: thousands of jobs have few shapes.
        self.demands: dict[object, Demand] = {}
        #: Sets of nodes on which gangs may be, filled by `candidates.allowed_nodes`.
        self.allowed_nodes: dict[object, int] = {}
        self._numbers: dict[str, dict[str, int]] = {}
        self._numbers_by_id: dict[str, dict[NodeId, int]] = {}
        self.shapes = shapes
        #: Returns the node whose hardware a node is on: itself, unless it is virtual (`private_cluster`).
        #: None: a virtual node that is not bound.
        self.home_of: Callable[[Node], Node | None] = _itself
        #: Whether unbound virtual GPUs can be bound to GPUs of the candidate nodes.
        self.can_bind: Callable[[Sequence[GpuId], Sequence[Candidates]], bool] = _nothing_to_bind

    def group_around(self, gpus: Iterable[GpuId], rank: int) -> Mapping[int, int]:
        """Return by node number the GPUs in the same group of a level as all these GPUs of one model; empty
        where these are in several groups.
        """
        places = [self.where[gpu] for gpu in gpus if gpu in self.where]
        nodes = {node for _, node, _ in places}
        if not places or (rank <= self.node_rank and len(nodes) > 1):
            return {}
        fleet = self.fleets[places[0][0]]
        if rank <= self.node_rank:
            (node,), own = nodes, sum([bit for _, _, bit in places])
            return {node: next((group for group in fleet.layouts[node].levels[rank] if not own & ~group), 0)}
        own = sum([1 << node for node in nodes])
        domains = fleet.domains[rank - self.node_rank - 1]
        near = next((domain for domain in domains if not own & ~domain), 0)
        return {node: (1 << len(fleet.gpus[node])) - 1 for node in members(near)}

    def place_of(self, node: NodeId) -> tuple[str, int] | None:
        """Return the fleet and the number of a node; None: the cluster does not contain it."""
        if self._places is None:
            self._places = {
                each.id: (model, number)
                for model, fleet in self.fleets.items()
                for number, each in enumerate(fleet.nodes)
            }
        return self._places.get(node)

    def homes(self, placement: Placement) -> list[tuple[str, int]]:
        """Return the fleet and the number of the node of each replica."""
        if placement.nodes:
            return [place for place in map(self.place_of, placement.nodes) if place is not None]
        return [self.where[replica[0]][:2] for replica in placement.replicas]

    def numbers_by_name(self, model: str) -> Mapping[str, int]:
        """Return the number of each node of a fleet by name."""
        if model not in self._numbers:
            nodes = self.fleets[model].nodes
            self._numbers[model] = {node.name: number for number, node in enumerate(nodes)}
        return self._numbers[model]

    def numbers_by_id(self, model: str) -> Mapping[NodeId, int]:
        """Return the number of each node of a fleet by id."""
        if model not in self._numbers_by_id:
            nodes = self.fleets[model].nodes
            self._numbers_by_id[model] = {node.id: number for number, node in enumerate(nodes)}
        return self._numbers_by_id[model]

    def _fleet(
        self,
        model: str,
        nodes: tuple[Node, ...],
        layouts: dict[tuple[tuple[str, ...], ...], Layout],
        where: dict[GpuId, Place],
    ) -> Fleet:
        gpus: list[tuple[GpuId, ...]] = []
        gpu_memory: list[tuple[int, ...]] = []
        usable: list[int] = []
        shapes: list[Layout] = []
        for number, node in enumerate(nodes):
            devices = sorted(node.gpus, key=attrgetter("path", "index", "id"))
            healthy = 0
            for place, gpu in enumerate(devices):
                where[gpu.id] = (model, number, 1 << place)
                healthy |= gpu.healthy << place
            gpus.append(tuple([gpu.id for gpu in devices]))
            gpu_memory.append(tuple([gpu.memory_bytes for gpu in devices]))
            usable.append(healthy if node.takes_work else 0)
            paths = tuple([gpu.path for gpu in devices])
            if paths not in layouts:
                layouts[paths] = Layout((*_groups(paths, self.node_rank), ((1 << len(paths)) - 1,)))
            shapes.append(layouts[paths])
        above = len(self.levels) - 1 - self.node_rank
        sizes = [max(len(devices), 1) for devices in gpus]
        everything = (1 << len(nodes)) - 1
        return Fleet(
            model=model,
            nodes=nodes,
            gpus=tuple(gpus),
            usable=tuple(usable),
            layouts=tuple(shapes),
            gpu_memory=tuple(gpu_memory),
            cpus=tuple([node.cpus or UNKNOWN for node in nodes]),
            memory=tuple([node.memory_bytes or UNKNOWN for node in nodes]),
            storage=tuple([Storage(node.storage_bandwidth, node.cache_bytes) for node in nodes])
            if any([node.storage_bandwidth for node in nodes])
            else (),
            cpus_per_gpu=max(
                [(node.cpus or UNKNOWN) / size for node, size in zip(nodes, sizes, strict=True)]
            ),
            memory_per_gpu=max(
                [(node.memory_bytes or UNKNOWN) / size for node, size in zip(nodes, sizes, strict=True)]
            ),
            domains=(*_groups(tuple(node.path for node in nodes), above), (everything,)),
            open_nodes=sum(
                [(node.takes_work and node.loan is None) << number for number, node in enumerate(nodes)]
            ),
            largest_node=max(map(len, gpus)),
            has_pinned=any([node.pinned_cell for node in nodes]),
            total=sum(map(len, gpus)),
            total_usable=sum([mask.bit_count() for mask in usable]),
        )


def _with_gpus(fleets: Mapping[str, Fleet]) -> tuple[str, ...]:
    return tuple([model for model, fleet in fleets.items() if fleet.total])


def _itself(node: Node) -> Node:
    return node


def _nothing_to_bind(gpus: Sequence[GpuId], candidates: Sequence[Candidates]) -> bool:
    return True


def _groups(paths: tuple[tuple[str, ...], ...], depth: int) -> tuple[tuple[int, ...], ...]:
    """Return the sets of items that share the first n steps of their path, for n = depth ... 1."""
    levels = []
    for steps in range(depth, 0, -1):
        sets: dict[tuple[str, ...], int] = {}
        for number, path in enumerate(paths):
            sets[path[:steps]] = sets.get(path[:steps], 0) | 1 << number
        levels.append(tuple(sets.values()))
    return tuple(levels)
