"""GPU packing: GPUs in use first, then idle ones beside them, then idle nodes.

Q. Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU
Clusters", NSDI 2022, has it; this is the baseline of Q. Weng et al., "Beware of Fragmentation: Scheduling
GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023, section 6.1, as in the authors'
simulator (`GpuPacking`): a task on GPUs in use gets 50 to 100 points, more the fuller they are. A task that
opens idle GPUs of a node in use gets 33 to 50, more the fewer it opens. A task on an idle node gets up to 33,
more the fewer GPUs the node has. A part goes to the first GPU with the least left that suffices. Deviations:
ties go to the earliest node in the topology, where theirs has a random order; the whole GPUs of one gang on
one node are one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.core.building_blocks.node_scores import NodeState, ask_of, fullest
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.building_blocks.scoring import TIES, TOPOLOGY, place_by_score
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Need
from scheduler.core.fitting.fragmentation import WHOLE
from scheduler.core.model.plan import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """GPUs in use first.

    `ties`: which of equals gets it: the earliest by GPU model and `topology`, or as nodes are `listed`.
    """

    ties: str = field(default=TOPOLOGY, metadata={"choices": TIES})

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_by_score(grants, view, capacity, Tiers(), ties=self.ties)


@dataclass(frozen=True, slots=True)
class Tiers:
    """The scorer."""

    sees_kinds: bool = False

    def score(self, node: NodeState, need: Need, able: Sequence[int]) -> tuple[float, int]:
        """Return the points of a node, and the GPU for a part."""
        ask, free = ask_of(need), node.free
        if not need.gpus:
            return 0, 0
        gpu, idle = fullest(free, able), free.shares.count(WHOLE)
        if idle == len(free.shares):
            return max(33 - idle, idle), gpu
        if able:
            taken = [free.shares[gpu]]
        else:
            taken = sorted([share for share in free.shares if share >= ask.share])[: ask.gpus]
        opened = taken.count(WHOLE)
        if opened:
            return max(50 - opened, 33), gpu
        return max(100 - sum([share * 100 // WHOLE for share in taken]) // 10, 50), gpu
