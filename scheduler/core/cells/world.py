"""All hardware and all virtual clusters of a layout, with nothing but the pinned cells bound."""

from __future__ import annotations

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.pairs import pair
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.pool import pools_of
from scheduler.core.cells.virtual import Space


class World:
    """Hardware by chain, and the spaces of each virtual cluster."""

    #: The classes of its parts; a world that keeps more about them derives from both.
    hardware_type = Hardware
    space_type = Space

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        pools = pools_of(layout)
        self.hardware = {
            name: self.hardware_type(chain, pools[name]) for name, chain in layout.chains.items()
        }
        #: Virtual cluster -> chain -> the cells that are bound on demand.
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
                self.spaces[virtual_cluster][name] = self.space_type(virtual_cluster, "", chain, levels)
        self.pinned[virtual_cluster] = {}
        for name, cell in layout.pinned.get(virtual_cluster, {}).items():
            hardware = self.hardware[cell.chain]
            space = self.space_type(virtual_cluster, name, hardware.chain, [(cell.level, 1)])
            pair(hardware, space, cell.level, 0, cell.number)
            self.pinned[virtual_cluster][name] = space
