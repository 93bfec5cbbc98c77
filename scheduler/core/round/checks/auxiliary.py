"""Step 7, check: the division of CPUs and memory that jobs leave to the platform."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from scheduler.core.building_blocks.auxiliary_division import speed_with
from scheduler.core.fitting.demand import needs_held
from scheduler.core.model.auxiliary import AuxiliaryShare
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Gpu, GpuId, JobId, Node, NodeId, Running, Snapshot

_ROUNDING = 1e-3


def check_auxiliary(
    snapshot: Snapshot,
    plan: Plan,
    placed: Mapping[JobId, tuple[tuple[GpuId, ...], ...]],
    kept: Mapping[JobId, Running],
    where: Mapping[GpuId, tuple[Node, Gpu]],
) -> None:
    """Raise PlanError where a node gives more than it has, or a job is slowed without a message.

    Slowed means slower than with its proportional share.
    """
    if not plan.shares:
        return
    turns = {job: running.slice_seconds is not None for job, running in kept.items()}
    turns |= {job: action.slice_seconds is not None for action in plan.actions for job in action.jobs}
    staying = Counter(running.allocation for running in kept.values())
    sharers = {job: staying[running.allocation] for job, running in kept.items()}
    sharers |= {job: len(action.jobs) for action in plan.actions for job in action.jobs}
    stated: dict[NodeId, list[float]] = {}
    given: dict[NodeId, list[float]] = {}
    for job in snapshot.jobs:
        replicas = placed.get(job.id) or (kept[job.id].replicas if job.id in kept else ())
        if not replicas:
            continue
        share = plan.shares.get(job.id)
        if share is None:
            amounts = [(need.cpus, need.memory_bytes) for need in needs_held(job, sum(map(len, replicas)))]
        elif len(share.replicas) != len(replicas):
            raise PlanError(f"job {job.id} has CPUs for {len(share.replicas)} replicas of {len(replicas)}")
        else:
            among = sharers[job.id] if turns[job.id] else 1
            amounts = [(cpus / among, memory) for cpus, memory in share.replicas]
            # A larger share makes no replica slower.
            if _has_less(share) and not share.message and speed_with(job, share) < 1 - _ROUNDING:
                raise PlanError(f"job {job.id} is slower than with its part of the CPUs and memory")
        for replica, amount in zip(replicas, amounts, strict=False):
            node = next((where[gpu][0] for gpu in replica if gpu in where), None)
            if node is not None:
                sums = (stated if share is None else given).setdefault(node.id, [0.0, 0.0])
                sums[0] += amount[0]
                sums[1] += amount[1]
    for node in snapshot.nodes:
        for axis, (has, what) in enumerate(((node.cpus, "CPUs"), (node.memory_bytes, "bytes of memory"))):
            shared = given.get(node.id, (0.0, 0.0))[axis]
            left = max(has - stated.get(node.id, (0.0, 0.0))[axis], 0.0)
            if has and shared > left * (1 + _ROUNDING) + _ROUNDING:
                raise PlanError(f"{shared:g} {what} of node {node.name} are shared out, of {left:g}")


def _has_less(share: AuxiliaryShare) -> bool:
    """Whether some replica has less CPUs or memory than in proportion to its GPUs."""
    return any(
        [
            0 < cpus < fair_cpus or 0 < memory < fair_memory
            for (cpus, memory), (fair_cpus, fair_memory) in zip(
                share.replicas, share.proportional, strict=False
            )
        ]
    )
