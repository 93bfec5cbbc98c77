"""All hardware and all virtual clusters of a layout, before any group has come."""

from __future__ import annotations

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.errors import RequestError
from scheduler.core.cells.groups import Group, Pod
from scheduler.core.cells.pairs import pair
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.pool import pools_of
from scheduler.core.cells.virtual import Space


class World:
    """Hardware by chain, and the spaces of each virtual cluster."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        pools = pools_of(layout)
        self.hardware = {name: Hardware(chain, pools[name]) for name, chain in layout.chains.items()}
        #: Node -> its hardware, and its number there; a machine can be in several chains.
        self.nodes: dict[str, list[tuple[Hardware, int]]] = {}
        for hardware in self.hardware.values():
            size = hardware.chain.sizes[hardware.chain.node_level]
            for number in range(len(hardware.idle)):
                name = hardware.chain.leaves[number * size].node
                self.nodes.setdefault(name, []).append((hardware, number))
        #: Virtual cluster -> chain -> the cells that are bound as needed.
        self.spaces: dict[str, dict[str, Space]] = {}
        #: Virtual cluster -> name -> a pinned cell.
        self.pinned: dict[str, dict[str, Space]] = {}
        for virtual_cluster in layout.specification.virtual_clusters:
            self._add(virtual_cluster)

    def _add(self, virtual_cluster: str) -> None:
        layout = self.layout
        owned = layout.owned.get(virtual_cluster, {})
        self.spaces[virtual_cluster] = {}
        for name, chain in layout.chains.items():
            levels = [(level, count) for (of, level), count in owned.items() if of == name]
            if levels:
                levels.sort(reverse=True)
                self.spaces[virtual_cluster][name] = Space(virtual_cluster, "", chain, levels)
        self.pinned[virtual_cluster] = {}
        for name, cell in layout.pinned.get(virtual_cluster, {}).items():
            hardware = self.hardware[cell.chain]
            space = Space(virtual_cluster, name, hardware.chain, [(cell.level, 1)])
            pair(hardware, space, cell.level, 0, cell.number)
            self.pinned[virtual_cluster][name] = space

    def spaces_for(self, group: Group) -> list[Space]:
        """Return the spaces in which a guaranteed group may be placed, in the order to be tried.

        Raises RequestError when its virtual cluster has none, whatever is running.
        """
        spaces = self._of(group)
        if group.pinned_cell is not None:
            space = self.pinned[group.virtual_cluster].get(group.pinned_cell)
            if space is None:
                known = ", ".join(self.pinned[group.virtual_cluster]) or "it has none"
                problem = f"{group.virtual_cluster} has no pinned cell {group.pinned_cell}"
                raise RequestError("pinned_cell", problem, f"one of: {known}")
            model = space.chain.gpu_model
            if group.gpu_model not in (None, model):
                problem = f"pinned cell {group.pinned_cell} has {model} GPUs, not {group.gpu_model}"
                raise RequestError("gpu_model", problem, model)
            return [space]
        found = [space for space in spaces.values() if group.gpu_model in (None, space.chain.gpu_model)]
        if not found:
            models = ", ".join(dict.fromkeys(space.chain.gpu_model for space in spaces.values()))
            missing = "cells" if group.gpu_model is None else f"cells of {group.gpu_model}"
            raise RequestError(
                "gpu_model" if spaces else "virtual_cluster",
                f"{group.virtual_cluster} owns no {missing} that are not pinned",
                f"one of: {models}" if spaces else "an opportunistic group, or other cells",
            )
        return found

    def hardware_for(self, group: Group) -> list[Hardware]:
        """Return the hardware on which an opportunistic group may run. Raises RequestError for none."""
        self._of(group)
        return [
            hardware
            for hardware in self.hardware.values()
            if group.gpu_model in (None, hardware.chain.gpu_model)
        ]

    def _of(self, group: Group) -> dict[str, Space]:
        if group.virtual_cluster not in self.spaces:
            known = ", ".join(self.spaces) or "there is none"
            problem = f"there is no virtual cluster {group.virtual_cluster}"
            raise RequestError("virtual_cluster", problem, f"one of: {known}")
        models = dict.fromkeys(hardware.chain.gpu_model for hardware in self.hardware.values())
        if group.gpu_model is not None and group.gpu_model not in models:
            problem = f"there are no {group.gpu_model} GPUs"
            raise RequestError("gpu_model", problem, f"one of: {', '.join(models)}")
        return self.spaces[group.virtual_cluster]

    def suggested(self, hardware: Hardware, names: frozenset[str] | None) -> int | None:
        """Return the set of nodes that a group may use; None: all."""
        if names is None:
            return None
        found = 0
        for name in names:
            for where, node in self.nodes.get(name, ()):
                if where is hardware:
                    found |= 1 << node
        return found


def pods_of(hardware: Hardware, leaves: list[list[int]]) -> tuple[Pod, ...]:
    """Return the pods that have these GPUs."""
    places = [[hardware.chain.leaves[leaf] for leaf in sorted(pod)] for pod in leaves]
    return tuple(Pod(place[0].node, tuple(leaf.gpu for leaf in place)) for place in places)


def lowest_cell(hardware: Hardware, leaves: list[int]) -> str:
    """Return the address of the lowest cell that has all of these GPUs, or the chain's name."""
    chain, first, last = hardware.chain, min(leaves), max(leaves)
    for level, size in enumerate(chain.sizes):
        if first // size == last // size:
            return chain.address(level, first // size)
    return chain.name
