"""Nodes as whole objects of the API: REST answers and the live stream send these."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.db.models import Count, Q, Sum

from nodeagent.isolation_levels import isolation_level
from nodeagent.messages import node_enforcement
from scheduler.core.model.lifecycle import AttemptState, PartState
from scheduler.models.attempts import AttemptPart
from scheduler.models.maintenance import MaintenanceWindow
from scheduler.models.nodes import Gpu, Node, NodeCheck
from scheduler.models.selectors.maintenance import windows_of
from scheduler.models.selectors.nodes import FREE_GPU, gpu_uses
from scheduler.wiring.representation import Representation
from scheduler.wiring.stream import object_of, send_to_everyone, to_pages
from tenants.times import iso


def nodes(ids: Iterable[int]) -> list[Representation]:
    """Return the nodes with their present GPUs, without the owners of the jobs on them."""
    ids = list(ids)
    by_id = Node.objects.select_related("gpu_model", "serving_pool").in_bulk(ids)
    gpus, checks = _gpus_of(by_id), _checks_of(by_id)
    held = _held_on(by_id)
    windows = windows_of([node.name for node in by_id.values()])
    return [
        _node(
            by_id[node_id],
            gpus[node_id],
            checks[node_id],
            windows.get(by_id[node_id].name),
            held.get(node_id, _NOTHING),
        )
        for node_id in ids
        if node_id in by_id
    ]


class _Held(NamedTuple):
    """What the attempts on a node hold of it besides GPUs, as rounds count it."""

    cpus: float
    memory_bytes: int
    #: How many may have a replica without a GPU there.
    without_gpus: int


_NOTHING = _Held(0.0, 0, 0)


def _held_on(node_ids: Collection[int]) -> dict[int, _Held]:
    """Return what is held by node; nodes without attempts are left out."""
    parts = AttemptPart.objects.filter(node_id__in=node_ids).exclude(state=PartState.EXITED)
    unended = parts.exclude(attempt__state=AttemptState.ENDED)
    # What is only planned waits until others leave.
    begun = ~Q(attempt__state=AttemptState.PLANNED)
    rows = unended.values("node_id").annotate(
        held_cpus=Sum("cpus", filter=begun, default=0.0),
        held_memory=Sum("memory_bytes", filter=begun, default=0),
        without_gpus=Count("id", filter=Q(attempt__allocation__nodes__isnull=False)),
    )
    found = rows.values_list("node_id", "held_cpus", "held_memory", "without_gpus")
    return {node: _Held(cpus, int(memory), others) for node, cpus, memory, others in found}


def _gpus_of(node_ids: Collection[int]) -> dict[int, list[Representation]]:
    uses = gpu_uses(gpu__node_id__in=node_ids)
    found: dict[int, list[Representation]] = defaultdict(list)
    rows = Gpu.objects.filter(node_id__in=node_ids, present=True).order_by("node_id", "index")
    for gpu in rows.values(
        "node_id", "id", "index", "socket", "switch", "memory_bytes", "healthy", "problem"
    ):
        node, shown = gpu["node_id"], {name: value for name, value in gpu.items() if name != "node_id"}
        found[node].append({**shown, **uses.get(gpu["id"], FREE_GPU)._asdict()})
    return found


def _checks_of(node_ids: Collection[int]) -> dict[int, list[Representation]]:
    found: dict[int, list[Representation]] = defaultdict(list)
    rows = NodeCheck.objects.filter(node_id__in=node_ids).order_by("node_id", "name")
    for check in rows.values("node_id", "name", "verdict", "message", "gpu", "since"):
        node, shown = check["node_id"], {name: value for name, value in check.items() if name != "node_id"}
        found[node].append({**shown, "since": iso(check["since"])})
    return found


def _node(
    node: Node,
    gpus: list[Representation],
    checks: list[Representation],
    window: MaintenanceWindow | None,
    held: _Held,
) -> Representation:
    is_free = not held.without_gpus and all(gpu["state"] == "free" for gpu in gpus)
    return {
        "id": node.id,
        "name": node.name,
        "rack": node.rack,
        "gpu_model": node.gpu_model.name if node.gpu_model else None,
        "address": node.address,
        "state": node.state,
        "cordoned": node.cordoned,
        "draining": node.draining,
        "drained": node.draining and node.cordoned and is_free,
        "drain_deadline": iso(node.drain_deadline),
        "withdrawn": _withdrawn(node) if node.cordoned or node.draining else None,
        "loan": _loan(node),
        "maintenance": maintenance(window),
        "health": checks,
        "isolation": node.isolation,
        "isolation_level": isolation_level(node.isolation),
        "enforcement": node_enforcement(node.isolation),
        "cpus": node.cpus,
        "cpus_held": held.cpus,
        "memory_bytes": node.memory_bytes,
        "memory_bytes_held": held.memory_bytes,
        "storage_bandwidth": node.storage_bandwidth,
        "cache_bytes": node.cache_bytes,
        "agent_version": node.agent_version,
        "lease_expires_at": iso(node.lease_expires_at),
        "gpus": gpus,
        "version": node.version,
    }


def _loan(node: Node) -> Representation | None:
    pool = node.serving_pool
    if pool is None:
        return None
    return {
        "pool": pool.name,
        "state": node.loan_state,
        "by": node.loan_by,
        "why": node.loan_why,
        "since": iso(node.loan_since),
        "until": iso(node.lent_until),
        "return_by": iso(node.return_by),
    }


def maintenance(window: MaintenanceWindow | None) -> Representation | None:
    """Return what is shown of a window with its node, or with a job there."""
    if window is None:
        return None
    return {
        "id": window.id,
        "reason": window.reason,
        "state": window.state,
        "starts_at": iso(window.starts_at),
        "ends_at": iso(window.ends_at),
    }


def _withdrawn(node: Node) -> Representation:
    return {
        "by": node.cordoned_by,
        "why": node.cordon_why,
        "since": iso(node.cordoned_at),
        "returns_itself": node.returns_itself,
    }


def publish_nodes(ids: Iterable[int]) -> None:
    to_pages(_send_nodes, sorted(set(ids)))


def _send_nodes(ids: list[int]) -> None:
    send_to_everyone([object_of("node", node) for node in nodes(ids)])
