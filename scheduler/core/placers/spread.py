"""Put jobs on the emptiest nodes, and the replicas of a gang on different nodes and racks.

Load balancers do the same (Kubernetes' LeastAllocated and topology spread): neighbours disturb each other
least, and a failing node stops the fewest jobs. It fragments nodes that large gangs will want, so it is not
the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.building_blocks.placing import Option, Site, place_all
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Need
from scheduler.core.model.plan import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Emptiest nodes first, replicas apart."""

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_all(grants, view, capacity, _Balance())


class _Balance:
    """Fewest GPUs of the same gang on the node, then in its rack, then the smallest part of the node in use.

    A node's load is counted in GPUs, not in jobs: a job of eight GPUs is as much as eight jobs of one.
    """

    models_alike = False

    def pick(
        self, site: Site, nodes: Sequence[int], need: Need, taken: Mapping[int, Need]
    ) -> tuple[float, int]:
        masks, usable = site.layer.masks, site.fleet.usable
        if not taken:
            load, _, node = min(
                [
                    (1 - masks[node].bit_count() / max(usable[node].bit_count(), 1), turn, node)
                    for turn, node in enumerate(nodes)
                ]
            )
            return load, node
        members = site.fleet.nodes
        in_rack: dict[tuple[str, ...], int] = {}
        for node, has in taken.items():
            in_rack[members[node].path] = in_rack.get(members[node].path, 0) + has.gpus
        _, _, load, _, node = min(
            [
                (
                    taken[node].gpus if node in taken else 0,
                    in_rack.get(members[node].path, 0),
                    1 - masks[node].bit_count() / max(usable[node].bit_count(), 1),
                    turn,
                    node,
                )
                for turn, node in enumerate(nodes)
            ]
        )
        return load, node

    def best(self, options: Sequence[Option]) -> Option:
        return min(options, key=lambda option: option.cost)
