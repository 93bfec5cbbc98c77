"""A virtual cluster's cells as a cluster of its own, on which policies and placers work.

Its GPUs are virtual: they represent the hardware to which the cells are bound. Jobs of other virtual clusters
are invisible here, so a policy decides as if its virtual cluster were alone (HiveD, section 3).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from scheduler.core.cells.adopting import Seats
from scheduler.core.cells.mapping import Binder, Unbindable
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.virtual import NONE, Space
from scheduler.core.fitting.candidates import allowed_in
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.claims import Claims
from scheduler.core.fitting.cluster import Cluster, Fleet, Place
from scheduler.core.fitting.holding import Holding
from scheduler.core.model.snapshot import AllocationId, Candidates, GpuId, Node, Running

_Where = dict[GpuId, Place]


class PrivateCluster:
    """The spaces of one virtual cluster, and what its jobs have of them."""

    def __init__(
        self,
        spaces: Sequence[tuple[Hardware, Space]],
        own: Cluster,
        shared: Cluster,
        nodes: Mapping[str, Sequence[Node | None]],
    ) -> None:
        """`own` is the cluster of its `virtual_nodes`; `shared` has the fleets that are divided by counts.

        `nodes` has the nodes of the hardware, by chain.
        """
        self.spaces = spaces
        self._nodes = nodes
        #: The number of the first GPU of each space.
        self._first: dict[Space, int] = {}
        gpus = 0
        for _, space in spaces:
            self._first[space] = gpus
            gpus += space.gpus
        self._closed = self._now_closed()
        fleets = self._without_broken(own)
        self._claims = Claims(Cluster.of(own.levels, fleets, own.where, shared.shapes))
        #: Its own fleets, and those of the models that are divided by counts.
        self.cluster = Cluster.of(
            own.levels,
            dict(sorted({**shared.fleets, **fleets}.items())),
            ChainMap(cast(_Where, own.where), cast(_Where, shared.where)),
            shared.shapes,
        )
        self.cluster.home_of, self.cluster.can_bind = self.home_of, self.can_bind
        #: By allocation: its virtual form and holding, as policies see them.
        self.seated: dict[AllocationId, tuple[Running, Holding]] = {}

    def _now_closed(self) -> list[frozenset[int]]:
        return [frozenset(space.closed) for _, space in self.spaces]

    @property
    def is_current(self) -> bool:
        """Whether the same nodes are on broken hardware as when it was built."""
        return self._closed == self._now_closed()

    def _without_broken(self, own: Cluster) -> dict[str, Fleet]:
        """Return the fleets without available GPUs on nodes bound to broken hardware."""
        usable = {model: list(fleet.usable) for model, fleet in own.fleets.items()}
        for _, space in self.spaces:
            for unit in space.closed:
                cell = space.unit_cell(unit)
                model, node, _ = own.where[self.gpu(space, cell.number * space.chain.sizes[cell.level])]
                usable[model][node] = 0
        return {
            model: fleet
            if list(fleet.usable) == usable[model]
            else replace(
                fleet,
                usable=tuple(usable[model]),
                total_usable=sum([mask.bit_count() for mask in usable[model]]),
            )
            for model, fleet in own.fleets.items()
        }

    def gpu(self, space: Space, leaf: int) -> GpuId:
        """Return the virtual GPU for a number in a space."""
        return GpuId(-self._first[space] - leaf - 1)

    def home_of(self, node: Node) -> Node | None:
        """Return the node to which a virtual node is bound; None while it is not bound."""
        if node.id >= 0:
            return node
        ((hardware, space, (leaf,)),) = self.seats([node.gpus[0].id])
        unit = space.unit_cell(space.unit_of(leaf))
        physical, chain = space.twins[unit.level][unit.number], hardware.chain
        if physical == NONE:
            return None
        return self._nodes[chain.name][chain.above(unit.level, physical, chain.node_level)]

    def can_bind(self, gpus: Sequence[GpuId], candidates: Sequence[Candidates]) -> bool:
        """Return whether all unbound GPUs among these can be bound to candidate nodes."""
        tried: list[Binder] = []
        try:
            for hardware, space, leaves in self.seats(gpus):
                tried.append(Binder(hardware, space, allowed_in(space.chain, candidates)))
                tried[-1].bind(leaves)
        except Unbindable:
            return False
        finally:
            for binder in reversed(tried):
                binder.undo()
        return True

    def seats(self, gpus: Sequence[GpuId]) -> Seats:
        """Return the places of virtual GPUs by space."""
        found: dict[Space, tuple[Hardware, Space, list[int]]] = {}
        for gpu in gpus:
            number = -gpu - 1
            for hardware, space in self.spaces:
                leaf = number - self._first[space]
                if 0 <= leaf < space.gpus:
                    found.setdefault(space, (hardware, space, []))[2].append(leaf)
                    break
        return list(found.values())

    def seat(self, running: Running, holding: Holding, *, leaves: bool) -> None:
        """Record an allocation's virtual GPUs; `leaves` is whether it is stopping."""
        self.seated[running.allocation] = running, holding
        self._claims.put(running.allocation, holding, leaves=leaves)

    def unseat(self, allocation: AllocationId) -> None:
        """Forget an allocation."""
        del self.seated[allocation]
        self._claims.drop(allocation)

    def offered(self, cluster: Capacity) -> Capacity:
        """Return what the virtual cluster can have: its own cells, and what is left of other models."""
        return cluster.beside(self.cluster, self._claims.layers())


def shared_cluster(cluster: Cluster, divided: frozenset[str]) -> Cluster:
    """Return the part of a cluster that is divided by counts."""
    fleets = {model: fleet for model, fleet in cluster.fleets.items() if model not in divided}
    where: Mapping[GpuId, Place] = (
        {gpu: place for gpu, place in cluster.where.items() if place[0] in fleets} if fleets else {}
    )
    return Cluster.of(cluster.levels, fleets, where, cluster.shapes)
