"""Small facts for tests of the core: say what matters, leave the rest to defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.core.model.gpu_parts import GpuPart, SharingLabels
from scheduler.core.model.snapshot import (
    AllocationId,
    Gpu,
    GpuId,
    Job,
    JobId,
    Member,
    Node,
    NodeId,
    Running,
    Snapshot,
    Task,
    Tenant,
    VirtualCluster,
)

#: An ordinary instant for tests: 14 November 2023, 22:13:20 UTC.
NOW = 1_700_000_000.0


def make_node(
    number: int,
    *,
    gpus: int = 8,
    gpu_model: str = "V100",
    rack: str = "rack-1",
    broken: Iterable[int] = (),
    **fields: Any,
) -> Node:
    """Node n has the GPUs 100 n, 100 n + 1, ...; four to a socket, two to a switch."""
    failed = set(broken)
    return Node(
        id=NodeId(number),
        name=f"node-{number:04d}",
        gpu_model=gpu_model,
        path=(rack,),
        gpus=tuple(
            Gpu(
                id=GpuId(100 * number + index),
                index=index,
                path=(f"socket-{index // 4}", f"switch-{index // 2}"),
                healthy=index not in failed,
            )
            for index in range(gpus)
        ),
        **fields,
    )


def make_cluster(
    nodes: int = 2, *, gpus: int = 8, gpu_model: str = "V100", first: int = 1
) -> tuple[Node, ...]:
    """Return equal nodes numbered from `first`, four to a rack."""
    return tuple(
        make_node(number, gpus=gpus, gpu_model=gpu_model, rack=f"rack-{(number - 1) // 4 + 1}")
        for number in range(first, first + nodes)
    )


def make_job(
    number: int,
    gpus: int = 1,
    *,
    replicas: int = 1,
    tasks: Sequence[Task] = (),
    tenant: str = "vision",
    virtual_cluster: str = "research",
    submitted_at: float | None = None,
    **fields: Any,
) -> Job:
    """`gpus` per replica; by default a higher number means submitted a second later."""
    return Job(
        id=JobId(number),
        tenant=tenant,
        virtual_cluster=virtual_cluster,
        submitted_at=NOW - 10_000 + number if submitted_at is None else submitted_at,
        tasks=tuple(tasks) or (Task(replicas=replicas, gpus=gpus),),
        **fields,
    )


def make_part(
    number: int,
    request: float,
    *,
    limit: float | None = None,
    memory_bytes: int = 0,
    replicas: int = 1,
    labels: Mapping[str, str] | None = None,
    cpus: float = 0.0,
    **fields: Any,
) -> Job:
    """A job that asks for parts of GPUs; request and limit in GPUs."""
    part = GpuPart(
        request=round(request * 1_000),
        limit=round((request if limit is None else limit) * 1_000),
        memory_bytes=memory_bytes,
    )
    tasks = (Task(replicas=replicas, gpus=1, cpus=cpus, part=part),)
    return make_job(number, tasks=tasks, sharing=labels and SharingLabels(**labels), **fields)


def make_running(
    job: Job | int,
    gpus: Iterable[int] | Sequence[Sequence[int]],
    *,
    allocation: int | None = None,
    gpu_model: str = "V100",
    since: float = NOW - 600,
    **fields: Any,
) -> Running:
    """The job holds these GPUs: ids for a single replica, or a list of ids for each."""
    number = job if isinstance(job, int) else job.id
    listed = list(gpus)
    replicas = [listed] if not listed or isinstance(listed[0], int) else listed
    if isinstance(job, Job):
        fields.setdefault("guaranteed", job.guaranteed)
    return Running(
        allocation=AllocationId(number if allocation is None else allocation),
        jobs=(JobId(number),),
        gpu_model=gpu_model,
        replicas=tuple(tuple(GpuId(gpu) for gpu in replica) for replica in replicas),  # type: ignore[union-attr]
        since=since,
        **fields,
    )


def make_virtual_cluster(
    name: str = "research",
    guaranteed: Mapping[str, int] | None = None,
    *,
    tenants: Sequence[str] = ("vision", "speech"),
    **fields: Any,
) -> VirtualCluster:
    return VirtualCluster(
        name=name,
        guaranteed={"V100": 8} if guaranteed is None else guaranteed,
        members=tuple(Member(tenant=tenant) for tenant in tenants),
        **fields,
    )


def make_snapshot(
    *,
    nodes: Sequence[Node] | None = None,
    jobs: Sequence[Job] = (),
    running: Sequence[Running] = (),
    virtual_clusters: Sequence[VirtualCluster] | None = None,
    tenants: Sequence[Tenant] = (Tenant(name="speech"), Tenant(name="vision")),
    **fields: Any,
) -> Snapshot:
    """By default one 8-GPU node, all of it guaranteed to the virtual cluster research."""
    fields.setdefault("now", NOW)
    fields.setdefault("round_number", 1)
    fields.setdefault("round_seconds", 5.0)
    return Snapshot(
        nodes=make_cluster(1) if nodes is None else tuple(nodes),
        jobs=tuple(jobs),
        running=tuple(running),
        virtual_clusters=(make_virtual_cluster(),) if virtual_clusters is None else tuple(virtual_clusters),
        tenants=tuple(tenants),
        **fields,
    )
