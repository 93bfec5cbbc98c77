"""The cells of a virtual cluster as nodes of its own cluster, with only what the cells guarantee.

A cell is all or part of one node, or several nodes. Two cells never count as near to each other, and a
topology group is only as large as the cells guarantee: without switches among the cell types, two GPUs of a
node share a switch only if the whole node does. CPUs and memory are in proportion to the GPUs, by the node of
the chain that has the fewest.

Policies work on these nodes when GPUs are divided by cells, and a private cluster is simulated on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.cells.chains import Chain, Layout
from scheduler.core.model.snapshot import Gpu, GpuId, Node, NodeId

NODE_LEVEL = "node"


@dataclass(frozen=True, slots=True)
class Profile:
    """The facts that hold for every node of a chain."""

    #: 0: not stated.
    cpus_per_gpu: float
    memory_bytes_per_gpu: float
    storage_bandwidth_per_gpu: float
    cache_bytes_per_gpu: float
    #: By topology level, without the node's: the level of the cells that lie within one group.
    levels: tuple[int, ...]


def profile_of(chain: Chain, nodes: Mapping[str, Node], levels: Sequence[str]) -> Profile:
    """Return the profile of a chain; `nodes`: by name, without those that are gone."""
    size = chain.sizes[chain.node_level]
    there = [
        (number, node)
        for number in range(chain.count(chain.node_level))
        if (node := nodes.get(chain.leaves[number * size].node)) is not None and node.gpus
    ]
    cpus = _least_stated([node.cpus / len(node.gpus) for _, node in there])
    memory = _least_stated([node.memory_bytes / len(node.gpus) for _, node in there])
    bandwidth = _least_stated([node.storage_bandwidth / len(node.gpus) for _, node in there])
    cache = min([node.cache_bytes / len(node.gpus) for _, node in there], default=0.0)
    above = levels.index(NODE_LEVEL)
    found = [_level_above(chain, there, steps) for steps in range(1, above + 1)]
    insides = {_inside(chain, number * size, node) for number, node in there}
    found += [_level_inside(chain, insides, steps) for steps in range(1, len(levels) - above)]
    return Profile(cpus, memory, bandwidth, cache, tuple(found))


def _least_stated(amounts: Sequence[float]) -> float:
    """Return what each node has at least, as far as it is stated: a cell may be bound to any of them."""
    return min([amount for amount in amounts if amount], default=0.0)


def _level_above(chain: Chain, there: Sequence[tuple[int, Node]], steps: int) -> int:
    """Return the highest level whose cells have nodes that share the first `steps` of their path."""
    for level in range(chain.top + 1, chain.node_level, -1):
        paths: dict[int, tuple[str, ...]] = {}
        for number, node in there:
            cell = 0 if level > chain.top else chain.above(chain.node_level, number, level)
            if paths.setdefault(cell, node.path[:steps]) != node.path[:steps]:
                break
        else:
            return level
    return chain.node_level


def _inside(chain: Chain, first: int, node: Node) -> tuple[tuple[str, ...], ...]:
    paths = {gpu.index: gpu.path for gpu in node.gpus}
    leaves = chain.leaves[first : first + chain.sizes[chain.node_level]]
    return tuple([paths.get(leaf.gpu, ()) for leaf in leaves])


def _level_inside(chain: Chain, insides: set[tuple[tuple[str, ...], ...]], steps: int) -> int:
    """Return the highest level whose cells have GPUs that share the first `steps` of their path inside every
    node.
    """
    for level in range(chain.node_level, 0, -1):
        size = chain.sizes[level]
        if all(
            len({path[:steps] for path in paths[first : first + size]}) == 1
            for paths in insides
            for first in range(0, len(paths), size)
        ):
            return level
    return 0


def virtual_nodes(
    layout: Layout, virtual_cluster: str, profiles: Mapping[str, Profile], levels: Sequence[str]
) -> tuple[Node, ...]:
    """Return the nodes of a virtual cluster's cells, the largest cells of each chain first, pinned ones last.

    Their GPUs are numbered -1, -2, ... in this order.
    """
    nodes: list[Node] = []
    gpus = 0
    for name, level, count, pinned in _owned(layout, virtual_cluster):
        chain, profile = layout.chains[name], profiles[name]
        unit = min(level, chain.node_level)
        above, size = levels.index(NODE_LEVEL), chain.sizes[unit]
        for number in range(count * (chain.sizes[level] // size)):
            place = len(nodes)
            nodes.append(
                Node(
                    id=NodeId(-place - 1),
                    name=f"{virtual_cluster}/{place:06d}",
                    gpu_model=chain.gpu_model,
                    pinned_cell=pinned,
                    path=tuple(_steps(chain, profile.levels[:above], place, number * size, level)),
                    cpus=profile.cpus_per_gpu * size,
                    memory_bytes=int(profile.memory_bytes_per_gpu * size),
                    storage_bandwidth=profile.storage_bandwidth_per_gpu * size,
                    cache_bytes=int(profile.cache_bytes_per_gpu * size),
                    gpus=tuple(
                        Gpu(
                            id=GpuId(-gpus - index - 1),
                            index=index,
                            path=tuple(
                                f"{index // chain.sizes[min(of, unit)]:04d}" for of in profile.levels[above:]
                            ),
                        )
                        for index in range(size)
                    ),
                )
            )
            gpus += size
    return tuple(nodes)


def _owned(layout: Layout, virtual_cluster: str) -> Iterator[tuple[str, int, int, str]]:
    """Yield (chain, level, cells, name of a pinned one), in the order of `cells.world`."""
    owned = layout.owned.get(virtual_cluster, {})
    for name in layout.chains:
        levels = sorted([(level, count) for (of, level), count in owned.items() if of == name], reverse=True)
        yield from ((name, level, count, "") for level, count in levels)
    for pinned, cell in layout.pinned.get(virtual_cluster, {}).items():
        yield cell.chain, cell.level, 1, pinned


def _steps(chain: Chain, levels: Sequence[int], place: int, leaf: int, owned: int) -> Iterator[str]:
    """Yield the path of a node; groups that reach beyond its own cell contain only that cell."""
    first = place - leaf % chain.sizes[owned] // chain.sizes[min(owned, chain.node_level)]
    for level in levels:
        within = min(level, owned)
        if within <= chain.node_level:
            yield f"{place:06d}"
        else:
            part = leaf % chain.sizes[owned] // chain.sizes[within]
            yield f"{first:06d}.{part:06d}"
