"""All hardware and all virtual clusters of a layout, with groups in them."""

from __future__ import annotations

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.world import World
from tests.core.cells.oracle.groups import Group, Pod, RequestError
from tests.core.cells.oracle.hardware import UsedHardware
from tests.core.cells.oracle.space import UsedSpace


class UsedWorld(World):
    """Hardware by chain, and the spaces of each virtual cluster, with groups in them."""

    hardware_type = UsedHardware
    space_type = UsedSpace
    hardware: dict[str, UsedHardware]  # type: ignore[assignment]
    spaces: dict[str, dict[str, UsedSpace]]  # type: ignore[assignment]
    pinned: dict[str, dict[str, UsedSpace]]  # type: ignore[assignment]

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        #: Node -> its hardware, and its number there; a machine can be in several chains.
        self.nodes: dict[str, list[tuple[UsedHardware, int]]] = {}
        for hardware in self.hardware.values():
            size = hardware.chain.sizes[hardware.chain.node_level]
            for number in range(len(hardware.idle)):
                name = hardware.chain.leaves[number * size].node
                self.nodes.setdefault(name, []).append((hardware, number))

    def spaces_for(self, group: Group) -> list[UsedSpace]:
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

    def hardware_for(self, group: Group) -> list[UsedHardware]:
        """Return the hardware on which an opportunistic group may run. Raises RequestError for none."""
        self._of(group)
        return [
            hardware
            for hardware in self.hardware.values()
            if group.gpu_model in (None, hardware.chain.gpu_model)
        ]

    def _of(self, group: Group) -> dict[str, UsedSpace]:
        if group.virtual_cluster not in self.spaces:
            known = ", ".join(self.spaces) or "there is none"
            problem = f"there is no virtual cluster {group.virtual_cluster}"
            raise RequestError("virtual_cluster", problem, f"one of: {known}")
        models = dict.fromkeys(hardware.chain.gpu_model for hardware in self.hardware.values())
        if group.gpu_model is not None and group.gpu_model not in models:
            problem = f"there are no {group.gpu_model} GPUs"
            raise RequestError("gpu_model", problem, f"one of: {', '.join(models)}")
        return self.spaces[group.virtual_cluster]

    def suggested(self, hardware: UsedHardware, names: frozenset[str] | None) -> int | None:
        """Return the set of nodes that a group may use; None: all."""
        if names is None:
            return None
        found = 0
        for name in names:
            for where, node in self.nodes.get(name, ()):
                if where is hardware:
                    found |= 1 << node
        return found


def pods_of(hardware: UsedHardware, leaves: list[list[int]]) -> tuple[Pod, ...]:
    """Return the pods that have these GPUs."""
    places = [[hardware.chain.leaves[leaf] for leaf in sorted(pod)] for pod in leaves]
    return tuple(Pod(place[0].node, tuple(leaf.gpu for leaf in place)) for place in places)


def lowest_cell(hardware: UsedHardware, leaves: list[int]) -> str:
    """Return the address of the lowest cell that has all of these GPUs, or the chain's name."""
    chain, first, last = hardware.chain, min(leaves), max(leaves)
    for level, size in enumerate(chain.sizes):
        if first // size == last // size:
            return chain.address(level, first // size)
    return chain.name
