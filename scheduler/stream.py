"""Tell the dashboards what changed, and wake node agents, once the transaction is committed.

Objects go out whole with their row version and the page keeps the newest, so a lost, late or doubled
message is harmless (DESIGN 1.9). Nothing here may fail what was committed: sends are robust.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from channels.layers import get_channel_layer
from django.db import transaction

from scheduler import represent
from scheduler.lending import objects as market_objects
from scheduler.models import Job
from tenants.models import VirtualClusterMember

EVERYONE = "everyone"
OPERATORS = "operators"
#: Objects per message: keeps one frame well under a browser's and Redis's comfort.
_BATCH = 100

#: The groups that hear of it, and what they hear.
Message = tuple[tuple[str, ...], dict[str, Any]]


def tenant_group(name: str) -> str:
    return f"tenant.{name}"


def _readers_of(tenant: str) -> tuple[str, ...]:
    """Return who hears of a tenant's jobs."""
    return tenant_group(tenant), OPERATORS


def node_group(node_id: int) -> str:
    return f"node.{node_id}"


def log_group(job_id: int) -> str:
    return f"log.{job_id}"


def publish_jobs(ids: Iterable[int]) -> None:
    _on_commit(_send_jobs, sorted(set(ids)))


def publish_new_jobs(jobs: Sequence[Job]) -> None:
    """As `publish_jobs`, for jobs that were submitted a moment ago: nothing needs to be read again."""
    _on_commit(_send_new_jobs, list(jobs))


def publish_nodes(ids: Iterable[int]) -> None:
    _on_commit(_send_nodes, sorted(set(ids)))


def publish_virtual_clusters(ids: Iterable[int]) -> None:
    _on_commit(_send_virtual_clusters, sorted(set(ids)))


def publish_offers(ids: Iterable[int]) -> None:
    _on_commit(_send_offers, sorted(set(ids)))


def publish_loans(ids: Iterable[int]) -> None:
    _on_commit(_send_loans, sorted(set(ids)))


def publish_accounts(virtual_clusters: Iterable[int]) -> None:
    """An account is its members' and the operators' business alone."""
    _on_commit(_send_accounts, sorted(set(virtual_clusters)))


def publish_round(number: int) -> None:
    _on_commit(_send_round, [number])


def publish_explanations(by_tenant: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """`by_tenant` holds objects of kind "why", each {kind, id, version, data}."""
    messages = [
        (_readers_of(tenant), {"type": "live.objects", "objects": batch})
        for tenant, objects in by_tenant.items()
        for batch in _batches(objects)
    ]
    _on_commit(_send, messages)


def publish_positions(round_number: int, by_tenant: Mapping[str, Mapping[str, int]]) -> None:
    messages = [
        (_readers_of(tenant), {"type": "live.queues", "round": round_number, "positions": dict(positions)})
        for tenant, positions in by_tenant.items()
    ]
    _on_commit(_send, messages)


def publish_progress(attempt: Any, points: Sequence[Any]) -> None:
    body = {
        "type": "live.progress",
        "job": attempt.job_id,
        "points": [
            {
                "attempt": attempt.number,
                "at": point.at.isoformat(),
                "step": point.step,
                "samples": point.samples,
                "values": point.values,
            }
            for point in points
        ],
    }
    _on_commit(_send, [((log_group(attempt.job_id),), body)])


def publish_log(job_id: int, attempt_id: int, rank: int, chunks: Sequence[Any]) -> None:
    messages = [
        (
            (log_group(job_id),),
            {
                "type": "live.log",
                "job": job_id,
                "attempt": attempt_id,
                "rank": rank,
                "chunks": [{"sequence": c.sequence, "at": c.at, "text": c.text} for c in chunks],
            },
        )
    ]
    _on_commit(_send, messages if chunks else [])


def publish_samples(node_name: str, samples: Sequence[Any]) -> None:
    gpus = [
        {
            "index": sample.index,
            "utilisation_percent": sample.utilisation_percent,
            "memory_used_bytes": sample.memory_used_bytes,
        }
        for sample in samples
    ]
    _on_commit(_send, [((EVERYONE,), {"type": "live.samples", "node": node_name, "gpus": gpus})])


def publish_usage(point: Mapping[str, Any]) -> None:
    """A usage sample names tenants, so only operators get it; members refetch theirs."""
    _on_commit(_send, [((OPERATORS,), {"type": "live.usage", "point": dict(point)})])


def publish_ledger(
    lines: Sequence[tuple[dict[str, Any], Collection[str]]], owners: Mapping[int, str]
) -> None:
    """`lines` with the groups that hear of each; whoever forwards them hides what their reader may not see.

    `owners` are the tenants of the jobs that lines name.
    """
    by_group: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line, groups in lines:
        for group in groups:
            by_group[group].append(line)
    messages = []
    for group, told in by_group.items():
        for batch in _batches(told):
            jobs = {job for line in batch for job in line["jobs"]}
            known = {str(job): owners[job] for job in sorted(jobs) if owners.get(job)}
            messages.append(((group,), {"type": "live.ledger", "lines": batch, "owners": known}))
    _on_commit(_send, messages)


def wake_nodes(ids: Iterable[int]) -> None:
    """Let the agents fetch their desired state now rather than with their next report."""
    _on_commit(_send, [((node_group(node_id),), {"type": "agent.wake"}) for node_id in sorted(set(ids))])


def offer_session(node_id: int, offer: Mapping[str, Any]) -> None:
    """Let the node's agent know that somebody wants to get into one of its attempts."""
    _on_commit(_send, [((node_group(node_id),), {"type": "agent.session", "session": dict(offer)})])


def _on_commit(send: Any, items: list) -> None:
    if items:
        transaction.on_commit(partial(send, items), robust=True)


def _send_jobs(ids: list[int]) -> None:
    _send_to_owners(represent.jobs(ids))


def _send_new_jobs(jobs: list[Job]) -> None:
    _send_to_owners([represent.new_job(job) for job in jobs])


def _send_to_owners(jobs: Iterable[dict]) -> None:
    by_tenant: dict[str, list[dict]] = defaultdict(list)
    for job in jobs:
        by_tenant[job["tenant"]].append(_object("job", job))
    _send(
        [
            (_readers_of(tenant), {"type": "live.objects", "objects": batch})
            for tenant, objects in by_tenant.items()
            for batch in _batches(objects)
        ]
    )


def _send_nodes(ids: list[int]) -> None:
    _send_to_everyone([_object("node", node) for node in represent.nodes(ids)])


def _send_virtual_clusters(ids: list[int]) -> None:
    _send_to_everyone([_object("virtual_cluster", vc) for vc in represent.virtual_clusters(ids)])


def _send_offers(ids: list[int]) -> None:
    _send_to_everyone([_object("offer", offer) for offer in market_objects.offers(ids)])


def _send_loans(ids: list[int]) -> None:
    _send_to_everyone([_object("loan", loan) for loan in market_objects.loans(ids)])


def _send_accounts(virtual_clusters: list[int]) -> None:
    tenants: dict[int, list[str]] = defaultdict(list)
    members = VirtualClusterMember.objects.filter(virtual_cluster__in=virtual_clusters)
    for virtual_cluster, tenant in members.values_list("virtual_cluster_id", "tenant__name"):
        tenants[virtual_cluster].append(tenant)
    _send(
        [
            (
                (*map(tenant_group, tenants[account["id"]]), OPERATORS),
                {"type": "live.objects", "objects": [_object("account", account)]},
            )
            for account in market_objects.accounts(virtual_clusters)
        ]
    )


def _send_round(numbers: list[int]) -> None:
    objects = [
        {"kind": "round", "id": item["number"], "version": 1, "data": item}
        for item in represent.rounds(numbers)
    ]
    _send([((OPERATORS,), {"type": "live.objects", "objects": objects})])


def _send_to_everyone(objects: list[dict]) -> None:
    _send([((EVERYONE,), {"type": "live.objects", "objects": batch}) for batch in _batches(objects)])


def _object(kind: str, data: dict) -> dict:
    return {"kind": kind, "id": data["id"], "version": data["version"], "data": data}


def _batches(objects: Sequence[Any]) -> list[list[Any]]:
    return [list(objects[start : start + _BATCH]) for start in range(0, len(objects), _BATCH)]


def _send(messages: list[Message]) -> None:
    get_channel_layer().send_all(messages)
