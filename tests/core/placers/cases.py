"""One round by one placer, on a virtual cluster that is guaranteed everything."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Job, Node, Running, Snapshot
from scheduler.core.round.decide import decide
from tests.builders import make_snapshot, make_virtual_cluster


def case(
    placer: str, nodes: Sequence[Node], jobs: Sequence[Job], running: Sequence[Running] = (), **fields: object
) -> Snapshot:
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.gpu_model] = counts.get(node.gpu_model, 0) + len(node.gpus)
    return make_snapshot(
        nodes=nodes,
        jobs=jobs,
        running=running,
        virtual_clusters=[make_virtual_cluster(guaranteed=counts, placer=placer)],
        **fields,  # type: ignore[arg-type]
    )


def placed(snapshot: Snapshot) -> dict[int, list[int]]:
    """Decide; return the node of each replica by job that starts or moves. Node n has the GPUs 100 n, ..."""
    return nodes_in(decide(snapshot))


def nodes_in(plan: Plan) -> dict[int, list[int]]:
    assert not plan.degraded
    return {
        job: [replica[0] // 100 for replica in action.placement.replicas]
        for action in plan.actions
        if action.placement is not None
        for job in action.jobs
    }
