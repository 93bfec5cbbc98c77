"""How much of a cluster's idle GPUs is unusable, and why: for displays, not for rounds.

The measure is that of Weng et al., ATC 2023, section 3 (`core/fitting/fragmentation.py`), summed over nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.core.fitting.cards import gpus_in
from scheduler.core.fitting.fragmentation import (
    WHOLE,
    Ask,
    Cause,
    Fragmentation,
    Free,
    asks_of,
    fragment,
    frequent,
)
from scheduler.core.model.bits import members
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.task_kind import TaskKind
from scheduler.core.round.facts import Facts


@dataclass(frozen=True, slots=True)
class NodeFragments:
    """The idle GPUs of one node, and how many of them are expected to be unusable."""

    name: str
    idle: float
    fragmented: float


@dataclass(frozen=True, slots=True)
class KindFragments:
    """How many of all idle GPUs tasks of one kind cannot use."""

    ask: Ask
    #: The part of all tasks that are of this kind, 0 to 1.
    frequency: float
    unusable: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFragments:
    """The fragmentation of a cluster, in GPUs; a part of a GPU counts as a fraction."""

    idle: float = 0.0
    #: The GPUs that a task of the workload cannot use, on average; 0 where no workload is known.
    fragmented: float = 0.0
    #: By cause; their sum is `fragmented`.
    causes: Mapping[Cause, float] = field(default_factory=dict)
    #: Kinds of tasks, the most frequent first; rare ones do not count in the average.
    kinds: tuple[KindFragments, ...] = ()
    #: Nodes with idle GPUs, the most fragmented first.
    nodes: tuple[NodeFragments, ...] = ()


def cluster_fragments(snapshot: Snapshot, workload: Iterable[TaskKind]) -> ClusterFragments:
    """Return how fragmented the idle GPUs are for tasks of a workload.

    A GPU is idle if it may be newly taken and no job holds it, not even a stopping one.
    """
    idle = dict(_idle_nodes(Facts(snapshot)))
    asks = asks_of(workload)
    measure = Fragmentation(frequent(asks))
    causes = Counter[Cause]()
    unusable = Counter[Ask]()
    nodes = [
        NodeFragments(name, sum(free.shares) / WHOLE, measure.of(free) / WHOLE) for name, free in idle.items()
    ]
    for free, count in Counter(idle.values()).items():
        causes.update({cause: count * lost / WHOLE for cause, lost in measure.causes(free).items()})
        unusable.update({ask: count * fragment(free, ask) / WHOLE for ask in asks})
    total = sum(asks.values())
    kinds = [KindFragments(ask, count / total, unusable[ask]) for ask, count in asks.items()]
    return ClusterFragments(
        idle=sum(node.idle for node in nodes),
        fragmented=sum(causes.values()),
        causes=causes,
        kinds=tuple(sorted(kinds, key=lambda kind: kind.frequency, reverse=True)),
        nodes=tuple(sorted(nodes, key=lambda node: (-node.fragmented, node.name))),
    )


def _idle_nodes(facts: Facts) -> Iterator[tuple[str, Free]]:
    """Yield the nodes on which GPUs are idle, by name."""
    whole = Counter[tuple[str, int]]()
    cpus = defaultdict[tuple[str, int], float](float)
    shared = Counter[tuple[str, int, int]]()
    for allocation, running in facts.running.items():
        # Nominated GPUs still belong to another job.
        for holding in () if running.is_nominated else facts.held_by(allocation):
            for part in holding.parts:
                place = holding.model, part.node
                whole[place] |= part.mask & ~gpus_in(part.shares)
                cpus[place] += part.cpus
                for share in part.shares:
                    shared[*place, share.gpu] += share.request
    for fleet in facts.cluster.fleets.values():
        for number, node in enumerate(fleet.nodes):
            place = fleet.model, number
            shares = tuple(
                [
                    0 if whole[place] >> gpu & 1 else max(WHOLE - shared[*place, 1 << gpu], 0)
                    for gpu in members(fleet.usable[number])
                ]
            )
            if any(shares):
                yield node.name, Free(fleet.model, max(fleet.cpus[number] - cpus[place], 0.0), shares)
