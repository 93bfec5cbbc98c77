"""Where the cells of a specification are on the cluster: which GPUs of which nodes, and which are broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.core.cells.chains import Cell, Chain, Layout, Leaf
from scheduler.core.cluster import Cluster
from scheduler.core.snapshot import GpuId

#: GPUs by model, then by number of the node in its fleet: the set of its GPUs that are meant.
Masks = Mapping[str, Mapping[int, int]]

_Place = tuple[int, int]


class Hardware:
    """The cells as GPUs of fleets. A GPU that was declared and is not there counts as broken."""

    def __init__(self, layout: Layout, cluster: Cluster) -> None:
        self.layout, self._cluster = layout, cluster
        #: GPU -> its chain, and its number there.
        self.leaf_of: dict[GpuId, tuple[str, int]] = {}
        #: By chain, for each GPU: (node, the set of just this GPU); None when it is not there.
        self._places: dict[str, list[_Place | None]] = {}
        there = {
            Leaf(node.name, gpu.index): gpu.id
            for fleet in cluster.fleets.values()
            for node in fleet.nodes
            for gpu in node.gpus
        }
        for chain in layout.chains.values():
            self._places[chain.name] = [self._place(chain, n, there) for n in range(len(chain.leaves))]
        self._nodes = {chain.name: self._whole_nodes(chain) for chain in layout.chains.values()}

    def _place(self, chain: Chain, number: int, there: Mapping[Leaf, GpuId]) -> _Place | None:
        gpu = there.get(chain.leaves[number])
        if gpu is None:
            return None
        model, node, bit = self._cluster.where[gpu]
        if model != chain.gpu_model:
            return None
        self.leaf_of[gpu] = chain.name, number
        return node, bit

    def _whole_nodes(self, chain: Chain) -> list[_Place | None]:
        """Return, for each cell that is a node, (node, all its GPUs that are there); None when none is."""
        places, size = self._places[chain.name], chain.sizes[chain.node_level]
        nodes: list[_Place | None] = []
        for first in range(0, len(places), size):
            found = [place for place in places[first : first + size] if place is not None]
            nodes.append((found[0][0], sum([bit for _, bit in found])) if found else None)
        return nodes

    def masks(self, cells: Iterable[Cell]) -> dict[str, dict[int, int]]:
        """Return the GPUs of cells; every model that is divided by cells is named."""
        masks: dict[str, dict[int, int]] = {model: {} for model in sorted(self.layout.gpu_models)}
        for name, level, number in cells:
            chain = self.layout.chains[name]
            if level >= chain.node_level:
                found = self._nodes[name]
                numbers = chain.within(level, number, chain.node_level)
            else:
                found, numbers = self._places[name], chain.within(level, number, 0)
            by_node = masks[chain.gpu_model]
            for place in found[numbers.start : numbers.stop]:
                if place is not None:
                    by_node[place[0]] = by_node.get(place[0], 0) | place[1]
        return masks

    def broken(self, chain: Chain) -> list[int]:
        """Return the numbers of a chain's GPUs that must not be newly taken."""
        usable = (
            self._cluster.fleets[chain.gpu_model].usable if chain.gpu_model in self._cluster.fleets else ()
        )
        return [
            number
            for number, place in enumerate(self._places[chain.name])
            if place is None or not usable[place[0]] & place[1]
        ]
