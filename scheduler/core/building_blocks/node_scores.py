"""A scorer's input, the state of a node, and its output: points, and a GPU for a part of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import NamedTuple, Protocol

from scheduler.core.fitting.cluster import Cluster, Fleet
from scheduler.core.fitting.demand import Need
from scheduler.core.fitting.fragmentation import WHOLE, Ask, Free
from scheduler.core.fitting.packing import Layer
from scheduler.core.model.bits import listed
from scheduler.core.model.snapshot import Job, JobId, Running

#: The kind of a replica with a part of a GPU, and that of GPUs whose jobs this view does not know.
PART, UNKNOWN = "part", "unknown"


class NodeState(NamedTuple):
    """A node as a scorer sees it."""

    #: Its GPUs with what is idle of each, in thousandths; broken ones are left out.
    free: Free
    #: The kinds of jobs there: `PART`, and the number of whole GPUs of each gang. Empty unless the scorer
    #: reads it.
    kinds: frozenset[str] = frozenset()


class Scorer(Protocol):
    """Rates nodes and GPUs. Equal inputs give equal scores."""

    @property
    def sees_kinds(self) -> bool:
        """Whether it reads `NodeState.kinds`."""
        ...

    def score(self, node: NodeState, need: Need, able: Sequence[int]) -> tuple[float, int]:
        """Return the points of a node that holds the replica, and the GPU for it if it has a part of one.

        `able`: the GPUs that suit a part, as positions in `free.shares`; at least one.
        """
        ...


class Norms(NamedTuple):
    """The CPUs, and the thousandths of GPUs, of the largest nodes of a cluster."""

    cpus: float
    gpus: int

    @classmethod
    def of(cls, cluster: Cluster) -> Norms:
        """Return the norms of a cluster; CPUs are 0 where they were not counted."""
        fleets = cluster.fleets.values()
        cpus = max([cpus for fleet in fleets for cpus in fleet.cpus], default=0.0)
        gpus = max([fleet.largest_node for fleet in fleets], default=1)
        return cls(0.0 if cpus == inf else cpus, max(gpus, 1) * WHOLE)

    def cpu_part(self, cpus: float) -> float:
        """Return CPUs as a part of the largest node's."""
        # In whole thousandths, as people ask for them, so that a scorer that truncates loses no point by
        # rounding.
        return round(cpus * 1_000) / (self.cpus * 1_000) if self.cpus else 0.0

    def gpu_part(self, thousandths: int) -> float:
        """Return thousandths of GPUs as a part of the largest node's."""
        return thousandths / self.gpus


def fullest(free: Free, able: Sequence[int]) -> int:
    """Return the GPU with the least left, the first among equals; 0 where no part is asked for."""
    return min(able, key=lambda gpu: free.shares[gpu], default=0)


@lru_cache(maxsize=4096)
def ask_of(need: Need) -> Ask:
    """Return a replica's request as the measure of fragmentation sees it."""
    return Ask(need.gpus, need.cpus, WHOLE if need.part is None else need.part.request)


class Kinds:
    """The kinds of jobs on each node: those known when the view begins, and those placed since."""

    def __init__(self, running: Iterable[Running], jobs: Mapping[JobId, Job], cluster: Cluster) -> None:
        #: By model and node: kinds, and the GPUs for which they are known.
        self._kinds: dict[tuple[str, int], frozenset[str]] = {}
        self._known: dict[tuple[str, int], int] = {}
        for each in running:
            masks: dict[tuple[str, int], int] = {}
            for gpu in each.gpus:
                if gpu in cluster.where:
                    model, node, mask = cluster.where[gpu]
                    masks[model, node] = masks.get((model, node), 0) | mask
            for place, mask in masks.items():
                if not jobs[each.jobs[0]].has_parts:
                    self.add(*place, f"{mask.bit_count()}")
                self._known[place] = self._known.get(place, 0) | mask
        self._before: dict[tuple[str, int], bool] = {}

    def add(self, model: str, node: int, kind: str) -> None:
        """Record a kind of job that comes to a node."""
        self._kinds[model, node] = self._kinds.get((model, node), frozenset()) | {kind}

    def add_all(self, model: str, places: tuple[list[int], list[int]], needs: Sequence[Need]) -> None:
        """Record the replicas of a gang that has whole GPUs beside parts."""
        for node, mask, need in zip(*places, needs, strict=True):
            if need.part is None:
                self.add(model, node, f"{mask.bit_count()}")

    def of(self, fleet: Fleet, layer: Layer, node: int) -> frozenset[str]:
        """Return the kinds of jobs on a node."""
        place = fleet.model, node
        kinds, cards = self._kinds.get(place, frozenset()), layer.cards.get(node, {})
        if place not in self._before:
            # Nothing is placed there yet: the jobs there are known, or belong to another view.
            busy = fleet.usable[node] & ~layer.masks[node] & ~self._known.get(place, 0) & ~sum(cards)
            self._before[place] = bool(busy)
        if cards:
            kinds |= {PART}
        return kinds | {UNKNOWN} if self._before[place] else kinds


def free_of(fleet: Fleet, cpus: float, layer: Layer, node: int) -> Free:
    """Return what is idle on a node, GPU by GPU."""
    mask, rooms = layer.masks[node], layer.rooms.get(node)
    if rooms is None:
        shares = [WHOLE if mask >> gpu & 1 else 0 for gpu in listed(fleet.usable[node])]
    else:
        shares = [
            rooms[1 << gpu] if 1 << gpu in rooms else WHOLE if mask >> gpu & 1 else 0
            for gpu in listed(fleet.usable[node])
        ]
    return Free(fleet.model, cpus, tuple(shares))
