"""KubeShare's choice of a GPU: best fit for a part, or worst fit among GPUs with the job's affinity label.

T.-A. Yeh, H.-H. Chen, J. Chou, "KubeShare: A Framework to Manage GPUs as First-Class and Shared Resources in
Container Cloud", HPDC 2020 (the rule with affinity from notes on the paper, the rest as in version 1.0 of its
code): among GPUs whose labels and memory let the job in, best fit by what is left of compute, over all nodes,
where an idle GPU would be left with 1 less the request; a job with an affinity label goes to the GPU with
that label of which the most is left, so that jobs with the same label spread out. Deviations: a job with a
part and no memory in its specification gets memory in proportion (KubeShare requires it); ties go to the
earliest node in the topology; whole GPUs are placed as by `consolidate`. The rules of version 2.0 by priority
(opportunistic pods gathered, guaranteed ones spread) are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.building_blocks.node_scores import NodeState, ask_of, fullest
from scheduler.core.building_blocks.policy import PlacerDecision, View
from scheduler.core.building_blocks.scoring import place_by_score
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Need
from scheduler.core.fitting.fragmentation import WHOLE
from scheduler.core.model.plan import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeShare:
    """Best fit by what is left of a GPU; worst fit among those with the job's affinity."""

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; one that does not fit is left out."""
        return place_by_score(grants, view, capacity, DeviceChoice(), parts_only=True)


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """The scorer: thousandths of the GPU in use after placement, or, with affinity, those left."""

    sees_kinds: bool = False

    def score(self, node: NodeState, need: Need, able: Sequence[int]) -> tuple[float, int]:
        """Return the points of a node, and the GPU for a part."""
        shares, share = node.free.shares, ask_of(need).share
        if need.part is None:
            return 0.0, 0
        if need.labels is not None and need.labels.affinity:
            gpu = max(able, key=lambda gpu: shares[gpu])
            return shares[gpu] - share, gpu
        gpu = fullest(node.free, able)
        return WHOLE - (shares[gpu] - share), gpu
