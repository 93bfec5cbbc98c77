"""The predicted peaks of nodes, read where some virtual cluster lends what its jobs do not use."""

import json
from collections.abc import Iterable
from typing import Any

from scheduler.core.model.node_peaks import OVERCOMMIT_PREDICTED, MeasuredUse, NodePeak
from scheduler.core.model.snapshot import VirtualCluster

#: Older measurements do not count: the node lends nothing, and no job there gives way.
_MEASURED_SECONDS = 60
_PEAKS = """
SELECT node_id, cpus, memory_bytes, allocations::text, margin, used::text FROM scheduler_nodepeak
WHERE measured_at > clock_timestamp() - make_interval(secs => %s) ORDER BY node_id
"""


def read_peaks(cursor: Any, virtual_clusters: Iterable[VirtualCluster]) -> tuple[NodePeak, ...]:
    if all(vc.overcommit != OVERCOMMIT_PREDICTED for vc in virtual_clusters):
        return ()
    cursor.execute(_PEAKS, [_MEASURED_SECONDS])
    return tuple(
        NodePeak(
            node=node,
            cpus=cpus,
            memory_bytes=memory_bytes,
            allocations=tuple(json.loads(allocations)),
            margin=margin,
            used=tuple(
                MeasuredUse(allocation=allocation, cpus=cpus, memory_bytes=memory)
                for allocation, cpus, memory in json.loads(used)
            ),
        )
        for node, cpus, memory_bytes, allocations, margin, used in cursor.fetchall()
    )
