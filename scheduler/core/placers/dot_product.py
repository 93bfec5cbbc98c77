"""Dot product: place each task where the product of idle resources and its demand is smallest.

R. Panigrahy et al., "Heuristics for Vector Bin Packing", 2011, turned round: a baseline of Q. Weng et al.,
"Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC
2023, section 6.1, as in the authors' simulator (`DotProd`): idle CPUs and GPUs times those that the task
takes, each relative to the largest node; the smaller the product, the more points, 0 to 100, truncated; a
part goes to the first GPU with the least left that suffices. Deviations: ties go to the earliest node in the
topology, where theirs has a random order; the largest node is that of this cluster; CPUs whose number is not
stated are left out; the whole GPUs of one gang on one node are one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.core.building_blocks.node_scores import NodeState, Norms, ask_of, fullest
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.building_blocks.scoring import TIES, TOPOLOGY, place_by_score
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Need
from scheduler.core.model.plan import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class DotProduct:
    """Least product of what is idle and what is asked for.

    `ties`: which of equals gets it: the earliest by GPU model and `topology`, or as nodes are `listed`.
    """

    ties: str = field(default=TOPOLOGY, metadata={"choices": TIES})

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_by_score(grants, view, capacity, Product(Norms.of(capacity.cluster)), ties=self.ties)


@dataclass(frozen=True, slots=True)
class Product:
    """The scorer: a hundred for a node on which nothing that the task takes is idle."""

    norms: Norms
    sees_kinds: bool = False

    def score(self, node: NodeState, need: Need, able: Sequence[int]) -> tuple[float, int]:
        """Return the points of a node, and the GPU for a part."""
        ask, free, norms = ask_of(need), node.free, self.norms
        product = norms.cpu_part(free.cpus) * norms.cpu_part(ask.cpus)
        product += norms.gpu_part(sum(free.shares)) * norms.gpu_part(ask.gpus * ask.share)
        return int(100 * (1 - product / 2)), fullest(free, able)
