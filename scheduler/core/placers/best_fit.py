"""Best fit: place each task where the least CPUs and GPUs are left over, on the GPU that it fits most
tightly.

A baseline of Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023, section 6.1, as in the authors' simulator (`BestFit`): the CPUs and GPUs
that a task would leave, each relative to the largest node and weighted by half, give points from 0 to 100,
truncated; a part goes to the first GPU with the least left that suffices. Deviations: ties go to the earliest
node in the topology, where theirs has a random order; the largest node is that of this cluster; CPUs whose
number is not stated are left out; the whole GPUs of one gang on one node are one task.
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
class BestFit:
    """Least left of CPUs and GPUs.

    `ties`: which of equals gets it: the earliest by GPU model and `topology`, or as nodes are `listed`.
    """

    ties: str = field(default=TOPOLOGY, metadata={"choices": TIES})

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_by_score(grants, view, capacity, Tightness(Norms.of(capacity.cluster)), ties=self.ties)


@dataclass(frozen=True, slots=True)
class Tightness:
    """The scorer: a hundred for a node of which nothing would be left."""

    norms: Norms
    sees_kinds: bool = False

    def score(self, node: NodeState, need: Need, able: Sequence[int]) -> tuple[float, int]:
        """Return the points of a node, and the GPU for a part."""
        ask, free = ask_of(need), node.free
        left = self.norms.cpu_part(free.cpus - ask.cpus) * 0.5
        left += self.norms.gpu_part(sum(free.shares) - ask.gpus * ask.share) * 0.5
        return int((1.0 - left) * 100), fullest(free, able)
