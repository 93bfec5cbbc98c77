"""Keep base demands on the cluster's own nodes and flexible workers on nodes lent by serving pools.

J. Li et al., "Aryl: An Elastic Cluster Scheduler for Deep Learning", arXiv 2202.07896 (Lyra, EuroSys'23),
placement: a lent node goes back on demand. Then a flexible worker, one beyond the fewest of an elastic gang,
is given up and the gang goes on, while a gang whose base demand is hit stops. So base demands (all of a gang
of fixed size) go to own nodes first, flexible workers to lent ones, and on lent nodes the two are kept apart.
Within that it is best fit: few nodes, near to each other, the tightest fit. Deviations:

- Opportunistic gangs of fixed size prefer lent nodes: own ones may be reclaimed from them at any time.
- Gangs that must be inside one level of the topology are placed whole, as base demands.
- It only places new grants, round by round; no job is moved to keep the two apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core.building_blocks.placing import place_all
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.cluster import Cluster, Fleet
from scheduler.core.fitting.demand import Demand, least_gpus
from scheduler.core.fitting.holding import by_node, gpus_of, part_for
from scheduler.core.fitting.packing import Layer, locate
from scheduler.core.model.plan import Grant
from scheduler.core.model.snapshot import LENT, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class ArylPlacer:
    """Base demands on own nodes, flexible workers on lent ones."""

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_all(grants, view, capacity, chooser=_Chooser(view, capacity.cluster))


class _Chooser:
    """Chooses nodes where no job is disturbed."""

    def __init__(self, view: View, cluster: Cluster) -> None:
        self._prefers_lent = not view.guaranteed
        #: By model: the lent nodes. `_base`: those with base demands of the view's gangs; `_flexible`: those
        #: with flexible workers only.
        self._lent = {
            model: sum([1 << number for number, node in enumerate(fleet.nodes) if _is_lent(node)])
            for model, fleet in cluster.fleets.items()
        }
        self._base, self._flexible = _used(view, cluster, self._lent)

    def __call__(
        self, cluster: Cluster, offers: Mapping[str, Layer], demand: Demand
    ) -> tuple[str, Sequence[int]] | None:
        for model, layer in offers.items():
            nodes = self._on(cluster, cluster.fleets[model], layer, demand)
            if nodes is not None:
                return model, nodes
        return None

    def _on(self, cluster: Cluster, fleet: Fleet, layer: Layer, demand: Demand) -> Sequence[int] | None:
        lent, everything = self._lent[fleet.model], fleet.everything
        base, flexible = self._base[fleet.model], self._flexible[fleet.model]
        own = everything & ~lent
        for_base = own, own | base, everything & ~flexible, everything
        for_flexible = flexible, lent & ~base, everything & ~base, everything
        if not 0 < demand.base < len(demand.needs) or demand.ranks[-1] < len(cluster.levels):
            is_rigid = not demand.base and self._prefers_lent
            return _located(layer, fleet, demand, for_flexible if is_rigid else for_base, cluster)
        first = _located(layer, fleet, _part(demand, 0, demand.base), for_base, cluster)
        if first is None:
            return None
        left = layer.copy()
        for node, needs in by_node(first, demand.needs[: demand.base]).items():
            mask = fleet.layouts[node].nearest(layer.masks[node], gpus_of(needs))[1]
            left.remove(part_for(node, mask, needs))
        rest = _part(demand, demand.base, len(demand.needs))
        second = _located(left, fleet, rest, for_flexible, cluster)
        return None if second is None else [*first, *second]


def _is_lent(node: Node) -> bool:
    return node.loan is not None and node.loan.state == LENT


def _part(demand: Demand, first: int, end: int) -> Demand:
    needs = demand.needs[first:end]
    return replace(demand, needs=needs, gpus=gpus_of(needs), base=0)


def _located(
    layer: Layer, fleet: Fleet, demand: Demand, sets: Sequence[int], cluster: Cluster
) -> list[int] | None:
    """Return nodes from the first of the sets, from narrow to wide, that has room."""
    for nodes in dict.fromkeys(sets):
        if nodes:
            there = layer.on(nodes) if nodes != fleet.everything else layer
            for rank in demand.ranks:
                found = locate(there, fleet, demand, rank, cluster.node_rank)
                if found is not None:
                    return found
    return None


def _used(
    view: View, cluster: Cluster, lent: Mapping[str, int]
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return by model the lent nodes with base demands of running gangs, and those with flexible workers
    only.

    A gang's GPUs on nodes that are not lent count as its base first.
    """
    base, flexible = dict.fromkeys(lent, 0), dict.fromkeys(lent, 0)
    if not any(lent.values()):
        return base, flexible
    for running in view.running.values():
        gpus = Counter([cluster.where[gpu][:2] for gpu in running.gpus if gpu in cluster.where])
        on_lent = {node: count for (model, node), count in gpus.items() if lent[model] >> node & 1}
        least = sum([least_gpus(view.jobs[job]) for job in running.jobs[:1]])
        nodes = sum([1 << node for node in on_lent])
        if sum(gpus.values()) - sum(on_lent.values()) >= least:
            flexible[running.gpu_model] |= nodes
        else:
            base[running.gpu_model] |= nodes
    return base, {model: nodes & ~base[model] for model, nodes in flexible.items()}
