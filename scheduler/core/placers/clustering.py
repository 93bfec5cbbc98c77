"""GPU clustering: tasks that ask for the same go together, parts with parts, pairs with pairs.

W. Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018, has the idea; this
is the baseline of Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023, section 6.1, as in the authors' simulator (`GpuClustering`):
nodes with only such tasks come first, then nodes with such tasks among others, then idle nodes, then the
rest; within each class the fuller node comes first; a part goes to the first GPU with the least left that
suffices. Deviations: ties go to the earliest node in the topology, where theirs has a random order; the
fullness is measured by the largest node of this cluster; a gang counts on each node with what it has there;
GPUs in use by jobs of another view count as other tasks, since their requests are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.core.building_blocks.node_scores import PART, NodeState, Norms, fullest
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.building_blocks.scoring import TIES, TOPOLOGY, place_by_score
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Need
from scheduler.core.model.plan import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """Like with like.

    `ties`: which of equals gets it: the earliest by GPU model and `topology`, or as nodes are `listed`.
    """

    ties: str = field(default=TOPOLOGY, metadata={"choices": TIES})

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_by_score(grants, view, capacity, Likeness(Norms.of(capacity.cluster)), ties=self.ties)


@dataclass(frozen=True, slots=True)
class Likeness:
    """The scorer: 75 to 100 for a node with only such tasks, and 25 less for each further class."""

    norms: Norms
    sees_kinds: bool = True

    def score(self, node: NodeState, need: Need, able: Sequence[int]) -> tuple[float, int]:
        """Return the points of a node, and the GPU for a part."""
        most, free = self.norms.gpus, node.free
        if not need.gpus:
            return 0, 0
        fuller = 25 * (most - sum(free.shares)) // most
        kind = PART if need.part is not None else f"{need.gpus}"
        if kind in node.kinds:
            fuller += 75 if len(node.kinds) == 1 else 50
        elif not node.kinds:
            fuller += 25
        return fuller, fullest(free, able)
