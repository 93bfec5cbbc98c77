"""The real GPUs of a specification's cells, and their broken nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from scheduler.core.cells.chains import Chain, Layout
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.model.snapshot import GpuId, Node, NodeId, Running

#: For one replica: its chain, and the numbers of its GPUs there.
Leaves = tuple[str, list[int]]


class Devices:
    """The GPUs of chains on a cluster. A missing declared GPU counts as broken."""

    def __init__(self, layout: Layout, cluster: Cluster, is_usable: Callable[[GpuId], bool]) -> None:
        """`is_usable` returns whether a GPU may be newly taken, by a job of any length."""
        there = {
            (node.name, gpu.index): gpu.id
            for model, fleet in cluster.fleets.items()
            if model in layout.gpu_models
            for node in fleet.nodes
            for gpu in node.gpus
        }
        #: By chain, in the order of its GPUs; None for a missing one.
        self.gpus: dict[str, list[GpuId | None]] = {}
        #: GPU -> its chain, and its number there.
        self._leaves: dict[GpuId, tuple[str, int]] = {}
        #: Nodes (chain, number) with a GPU that must not be newly taken.
        self.broken: list[tuple[Chain, int]] = []
        by_name = {node.name: node for fleet in cluster.fleets.values() for node in fleet.nodes}
        #: By chain, in the order of its nodes; None for a missing one.
        self.nodes: dict[str, list[Node | None]] = {}
        for chain in layout.chains.values():
            gpus = [there.get((leaf.node, leaf.gpu)) for leaf in chain.leaves]
            gpus = [
                gpu if gpu is not None and cluster.where[gpu][0] == chain.gpu_model else None for gpu in gpus
            ]
            self.gpus[chain.name] = gpus
            firsts = chain.leaves[:: chain.sizes[chain.node_level]]
            self.nodes[chain.name] = [by_name.get(leaf.node) for leaf in firsts]
            self._leaves.update((gpu, (chain.name, n)) for n, gpu in enumerate(gpus) if gpu is not None)
            self.broken += [(chain, node) for node in self._broken_in(chain, is_usable)]

    def _broken_in(self, chain: Chain, is_usable: Callable[[GpuId], bool]) -> Iterator[int]:
        size, gpus = chain.sizes[chain.node_level], self.gpus[chain.name]
        for node in range(chain.count(chain.node_level)):
            if not all(gpu is not None and is_usable(gpu) for gpu in gpus[node * size : (node + 1) * size]):
                yield node

    def without(self, chain: Chain, avoid: Collection[NodeId]) -> int | None:
        """Return the set of a chain's nodes that need not be avoided; None for all nodes."""
        nodes = self.nodes[chain.name]
        found = sum([1 << n for n, node in enumerate(nodes) if node is None or node.id not in avoid])
        return None if found.bit_count() == len(nodes) else found

    def leaves_of(self, running: Running) -> list[Leaves] | None:
        """Return the places of an allocation's replicas that are on declared hardware.

        None when no replica is, or a replica is in two chains.
        """
        found = []
        for replica in running.replicas:
            places = [self._leaves[gpu] for gpu in replica if gpu in self._leaves]
            if len({chain for chain, _ in places}) > 1:
                return None
            if places:
                found.append((places[0][0], [leaf for _, leaf in places]))
        return found or None

    def sets_of(self, allocations: Iterable[Running]) -> dict[str, int]:
        """Return the sets of GPUs that allocations have, by chain."""
        found: dict[str, int] = {}
        for running in allocations:
            for name, leaves in self.by_chain(running).items():
                found[name] = found.get(name, 0) | sum([1 << leaf for leaf in leaves])
        return found

    def by_chain(self, running: Running) -> dict[str, list[int]]:
        """Return the numbers of an allocation's GPUs by chain, without GPUs in no chain."""
        found: dict[str, list[int]] = {}
        for gpu in running.gpus:
            if gpu in self._leaves:
                chain, leaf = self._leaves[gpu]
                found.setdefault(chain, []).append(leaf)
        return found
