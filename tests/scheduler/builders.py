"""Rows for tests, with only what the test cares about spelled out.

Names are made up when none is given. Everything is written directly, without services, so that a
test of a service stands on facts and not on another service.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from django.db.models import Max
from django.utils import timezone

from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document
from scheduler.core.model.codec import dumps_snapshot
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.lifecycle import (
    JOB_FINAL,
    AttemptState,
    HoldPhase,
    JobState,
    Outcome,
    PartState,
)
from scheduler.jobs.archives.storing import archive_path
from scheduler.models import (
    AllocatedGpu,
    Allocation,
    Archive,
    Attempt,
    AttemptPart,
    CellSpecification,
    ClassProfile,
    CreditAccount,
    CreditTransfer,
    Delivery,
    Gpu,
    GpuModel,
    Job,
    Loan,
    MarketRule,
    Node,
    Offer,
    Round,
    SpeedCorrection,
    SpeedMeasurement,
    Webhook,
)
from scheduler.models.market import BANK
from scheduler.models.rounds import RoundState
from scheduler.rounds.snapshot import read_snapshot
from tenants.models import (
    Guarantee,
    Membership,
    Quota,
    Role,
    Tenant,
    User,
    VirtualCluster,
    VirtualClusterMember,
)
from tests.archives import digest_of, tar_of

GIB = 1024**3
_numbers = count(1)


def _name(kind: str) -> str:
    return f"{kind}-{next(_numbers)}"


def make_user(username: str = "", *, operator: bool = False, password: str | None = None) -> User:
    """Return a user; without a password nobody can sign in as this user (and hashing costs nothing)."""
    user = User(username=username or _name("user"), is_operator=operator)
    if password is None:
        user.set_unusable_password()
    else:
        user.set_password(password)
    user.save()
    return user


def make_tenant(
    name: str = "", *, members: Mapping[User, str] | None = None, quota: Mapping[str, int] | None = None
) -> Tenant:
    """Return a tenant; `members` gives each user a role, `quota` caps GPUs by model or by "*"."""
    tenant = Tenant.objects.create(name=name or _name("tenant"))
    for user, role in (members or {}).items():
        Membership.objects.create(tenant=tenant, user=user, role=role)
    for model, gpus in (quota or {}).items():
        Quota.objects.create(tenant=tenant, gpu_model=model, gpus=gpus)
    return tenant


def make_member(tenant: Tenant, username: str = "", *, role: str = Role.MEMBER) -> User:
    """Return a new user with a role in the tenant."""
    user = make_user(username)
    Membership.objects.create(tenant=tenant, user=user, role=role)
    return user


def make_vc(
    name: str = "",
    *,
    members: Sequence[Tenant] | Mapping[Tenant, float] = (),
    guaranteed: Mapping[str, int] | None = None,
    **columns: Any,
) -> VirtualCluster:
    """Return a virtual cluster; `members` are tenants of weight 1, or a weight for each."""
    virtual_cluster = VirtualCluster.objects.create(name=name or _name("vc"), **columns)
    weights = members if isinstance(members, Mapping) else dict.fromkeys(members, 1.0)
    for tenant, weight in weights.items():
        VirtualClusterMember.objects.create(virtual_cluster=virtual_cluster, tenant=tenant, weight=weight)
    for model, gpus in (guaranteed or {}).items():
        Guarantee.objects.create(virtual_cluster=virtual_cluster, gpu_model=model, gpus=gpus)
    return virtual_cluster


def balance_of(virtual_cluster: VirtualCluster) -> int:
    """Return the millicredits in a virtual cluster's account."""
    return CreditAccount.objects.get(virtual_cluster=virtual_cluster).balance


def make_gpu_model(name: str = "V100", *, memory_bytes: int = 16 * GIB) -> GpuModel:
    return GpuModel.objects.get_or_create(name=name, defaults={"memory_bytes": memory_bytes})[0]


def make_node(
    name: str = "",
    *,
    gpus: int = 8,
    gpu_model: str = "V100",
    rack: str = "rack-1",
    state: str = "ready",
    **columns: Any,
) -> Node:
    """Return a reporting node whose GPUs sit in pairs behind switches, half of them on each socket.

    With 0 GPUs it is of no model, as a node that never had any.
    """
    model = make_gpu_model(gpu_model) if gpus else None
    if model is None:
        columns.setdefault("boot", "boot-1")
    columns.setdefault("lease_expires_at", timezone.now() + timedelta(hours=1))
    node = Node.objects.create(
        name=name or _name("node"), rack=rack, state=state, gpu_model=model, address="127.0.0.1", **columns
    )
    Gpu.objects.bulk_create(
        Gpu(
            node=node,
            index=index,
            uuid=f"{node.name}-{index}",
            memory_bytes=model.memory_bytes if model else 0,
            socket=index * 2 // gpus,
            switch=index // 2,
        )
        for index in range(gpus)
    )
    return node


def job_spec(
    *,
    name: str = "job",
    virtual_cluster: str = "vc",
    gpus: int = 1,
    replicas: int = 1,
    gpu_models: Sequence[str] = (),
    guaranteed: bool = True,
    priority: int = 0,
    time_limit_seconds: float | None = None,
    topology: Mapping[str, Any] | None = None,
    command: Sequence[str] = ("true",),
    cpus: float = 0.0,
    memory_bytes: int = 0,
    max_attempts: int = 3,
    retry: Mapping[str, Any] | None = None,
    grace_seconds: int = 30,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a normalised specification of one task with `gpus` GPUs in each of its replicas."""
    return {
        "name": name,
        "virtual_cluster": virtual_cluster,
        "priority": priority,
        "guarantee": "guaranteed" if guaranteed else "opportunistic",
        "tasks": [
            {
                "name": "main",
                "replicas": replicas,
                "resources": {
                    "gpu": gpus,
                    "gpu_model": list(gpu_models) or "any",
                    "cpu": cpus,
                    "memory": memory_bytes,
                },
                "command": list(command),
                "env": {},
            }
        ],
        "topology": dict(topology) if topology else None,
        "time_limit": time_limit_seconds,
        "retry": {"max_attempts": max_attempts, **(retry or {})},
        "checkpoint": {"grace_seconds": grace_seconds},
        "throughput": {},
        "labels": dict(labels or {}),
    }


def make_job(
    *,
    tenant: Tenant | None = None,
    virtual_cluster: VirtualCluster | None = None,
    submitted_by: User | None = None,
    state: str = JobState.QUEUED,
    submitted_at: datetime | None = None,
    columns: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Job:
    """Return a job row; `spec` takes the arguments of `job_spec`, `columns` further columns of the row."""
    tenant = tenant or make_tenant()
    virtual_cluster = virtual_cluster or make_vc(members=[tenant])
    spec.setdefault("name", _name("job"))
    normalised = job_spec(virtual_cluster=virtual_cluster.name, **spec)
    now = timezone.now()
    (task,), topology = normalised["tasks"], normalised["topology"]
    return Job.objects.create(
        tenant=tenant,
        virtual_cluster=virtual_cluster,
        submitted_by=submitted_by or make_member(tenant),
        name=normalised["name"],
        spec=normalised,
        shape={
            "tasks": [[task["replicas"], *(task["resources"][key] for key in ("gpu", "cpu", "memory"))]],
            "topology": [topology["level"], topology["required"]] if topology else None,
            "throughput": {},
        },
        labels=normalised["labels"],
        guaranteed=normalised["guarantee"] == "guaranteed",
        priority=normalised["priority"],
        gpus=task["replicas"] * task["resources"]["gpu"],
        gpu_models=list(spec.get("gpu_models", ())),
        time_limit_seconds=normalised["time_limit"],
        state=state,
        submitted_at=submitted_at or now,
        **{"ended_at": now if state in JOB_FINAL else None, **(columns or {})},
    )


def held_since(attempt: Attempt, at: datetime, until: datetime | None = None) -> None:
    """Let an attempt have had its GPUs since then, or until then."""
    Allocation.objects.filter(id=attempt.allocation_id).update(held_at=at, released_at=until)
    Attempt.objects.filter(id=attempt.id).update(starting_at=at)


def make_archive(tenant: Tenant, files: Mapping[str, str], *, by: User) -> Archive:
    """Return an archive of the tenant that is stored with its bytes."""
    content, now = tar_of(files), timezone.now()
    archive = Archive.objects.create(
        tenant=tenant,
        digest=digest_of(content).removeprefix("sha256:"),
        bytes=len(content),
        files=len(files),
        unpacked_bytes=sum(map(len, files.values())),
        uploaded_by=by,
        uploaded_at=now,
        used_at=now,
    )
    path = archive_path(tenant.id, archive.digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return archive


def make_attempt(
    job: Job,
    gpus: Sequence[Gpu],
    *,
    state: str = AttemptState.RUNNING,
    phase: str = HoldPhase.HELD,
    part: GpuPart | None = None,
    **columns: Any,
) -> Attempt:
    """Give `job` an attempt on these GPUs, or a part of each, dealt to its replicas in order; the job's
    state is set along."""
    (task,) = job.spec["tasks"]
    size = task["resources"]["gpu"]
    replicas = [[gpu.id for gpu in gpus[rank * size : (rank + 1) * size]] for rank in range(task["replicas"])]
    now = timezone.now()
    allocation = Allocation.objects.create(
        round_number=1,
        view=job.virtual_cluster.name if job.guaranteed else "spare",
        virtual_cluster=job.virtual_cluster,
        guaranteed=job.guaranteed,
        gpu_model=gpus[0].node.gpu_model.name,
        replicas=replicas,
        phase=phase,
        created_at=now,
        held_at=now if phase == HoldPhase.HELD else None,
    )
    AllocatedGpu.objects.bulk_create(
        AllocatedGpu(allocation=allocation, gpu=gpu, phase=phase, **(asdict(part) if part else {}))
        for gpu in gpus
    )
    number = (job.attempts.aggregate(last=Max("number"))["last"] or 0) + 1
    times = {
        AttemptState.STARTING: ["starting_at"],
        AttemptState.RUNNING: ["starting_at", "running_at"],
        AttemptState.STOPPING: ["starting_at", "running_at", "stopping_at"],
    }.get(AttemptState(state), [])
    attempt = Attempt.objects.create(
        job=job,
        number=number,
        allocation=allocation,
        state=state,
        planned_at=now,
        **{**dict.fromkeys(times, now), "go": bool(times), **columns},
    )
    gpu_by_id = {gpu.id: gpu for gpu in gpus}
    parts: dict[int, list[dict[str, Any]]] = {}
    for rank, ids in enumerate(replicas):
        parts.setdefault(gpu_by_id[ids[0]].node_id, []).append(
            {"rank": rank, "task": "main", "gpus": ids, "gpu_indexes": [gpu_by_id[id].index for id in ids]}
        )
    part_state = {AttemptState.RUNNING: "running", AttemptState.STOPPING: "stopping"}.get(
        AttemptState(state), "waiting"
    )
    for node_id, entries in parts.items():
        AttemptPart.objects.create(attempt=attempt, node_id=node_id, state=part_state, replicas=entries)
    job.attempts_started = number
    if state in (AttemptState.RUNNING, AttemptState.STOPPING):
        job.state, job.started_at = JobState.RUNNING, job.started_at or now
    job.save()
    return attempt


def make_failed_attempt(
    job: Job, gpus: Sequence[Gpu], *, ended_at: datetime | None = None, **columns: Any
) -> Attempt:
    """Return an attempt that failed on these GPUs, which it holds no more; the job's state stays."""
    state = job.state
    at = ended_at or timezone.now()
    columns = {"exit_code": 1, "category": "error", "failure": "semantic_error", **columns}
    attempt = make_attempt(job, gpus, state=AttemptState.PLANNED, phase=HoldPhase.NOMINATED)
    Allocation.objects.filter(id=attempt.allocation_id).update(phase=HoldPhase.RELEASED, released_at=at)
    AllocatedGpu.objects.filter(allocation=attempt.allocation_id).update(
        phase=HoldPhase.RELEASED, released_at=at
    )
    columns |= {"state": AttemptState.ENDED, "outcome": Outcome.FAILED, "ended_at": at}
    Attempt.objects.filter(id=attempt.id).update(**columns)
    AttemptPart.objects.filter(attempt=attempt).update(state=PartState.EXITED, exit_code=1)
    Job.objects.filter(id=job.id).update(state=state)
    return Attempt.objects.get(id=attempt.id)


def make_cells(document: Mapping[str, Any]) -> CellSpecification:
    """Put a specification of cells in force, whether it fits or not, and the guarantees that follow."""
    newest = CellSpecification.objects.aggregate(newest=Max("version"))["newest"] or 0
    row = CellSpecification.objects.create(
        version=newest + 1, document=json.dumps(document), changed_at=timezone.now(), changed_by="test"
    )
    layout = compiled(from_document(document))
    for vc in VirtualCluster.objects.all():
        vc.guarantees.filter(gpu_model__in=layout.gpu_models).delete()
        for model, gpus in layout.guaranteed(vc.name).items():
            Guarantee.objects.create(virtual_cluster=vc, gpu_model=model, gpus=gpus)
    return row


def gpus_of(*nodes: Node) -> list[Gpu]:
    """Return the GPUs of these nodes, node by node, by index."""
    return [gpu for node in nodes for gpu in node.gpus.select_related("node__gpu_model").order_by("index")]


def make_measurement(
    tenant: Tenant,
    application: str,
    average: float,
    *,
    gpu_model: str = "V100",
    gpus: int = 1,
    **columns: Any,
) -> SpeedMeasurement:
    """Return what was measured of a kind; three windows, unless told otherwise."""
    columns = {"samples": 3, "updated_at": timezone.now(), **columns}
    return SpeedMeasurement.objects.create(
        tenant=tenant, application=application, average=average, gpu_model=gpu_model, gpus=gpus, **columns
    )


def make_class_profile(
    tenant: Tenant, application: str, profile: dict[str, Any], *, user: User | None = None
) -> ClassProfile:
    """Return what a user's jobs of a class made of GPUs of their own."""
    return ClassProfile.objects.create(
        tenant=tenant,
        application=application,
        user=user or make_user(),
        profile=profile,
        updated_at=timezone.now(),
    )


def make_correction(
    tenant: Tenant, application: str, value: float, *, gpu_model: str = "V100", gpus: int = 1, **columns: Any
) -> SpeedCorrection:
    """Return what somebody said a speed is."""
    columns = {"at": timezone.now(), **columns}
    columns.setdefault("by", make_user())
    return SpeedCorrection.objects.create(
        tenant=tenant, application=application, value=value, gpu_model=gpu_model, gpus=gpus, **columns
    )


def make_account(virtual_cluster: VirtualCluster, credits: float = 0, *, reason: str = "") -> CreditAccount:
    """Return the account of a virtual cluster, which was granted so many credits."""
    bank, _ = CreditAccount.objects.get_or_create(id=BANK)
    account, _ = CreditAccount.objects.get_or_create(virtual_cluster=virtual_cluster)
    if credits:
        CreditTransfer.objects.create(
            at=timezone.now(),
            kind="grant",
            debit=bank,
            credit=account,
            amount=round(credits * 1_000),
            by="user olga",
            reason=reason,
        )
        account.refresh_from_db()
    return account


def make_offer(
    lender: VirtualCluster,
    gpus: Mapping[str, int] | None = None,
    *,
    cells: Mapping[str, int] | None = None,
    hours: float = 2.0,
    starts_in_hours: float | None = None,
    **columns: Any,
) -> Offer:
    """Return an open offer that ends `hours` from now; of cells, say what they come to by `gpus` too."""
    now = timezone.now()
    columns = {"made_by": "user lena", "made_at": now, **columns}
    if columns.get("state", "open") != "open":
        columns.setdefault("closed_at", now)
    columns.setdefault("lot", {"gpus": {}, "cells": dict(cells)} if cells else {"gpus": gpus, "cells": {}})
    return Offer.objects.create(
        lender=lender,
        gpus=dict(gpus or {}),
        starts_at=None if starts_in_hours is None else now + timedelta(hours=starts_in_hours),
        ends_at=now + timedelta(hours=hours),
        **columns,
    )


def make_loan(
    lender: VirtualCluster,
    borrower: VirtualCluster,
    gpus: Mapping[str, int] | None = None,
    *,
    cells: Mapping[str, int] | None = None,
    since_hours: float = 1.0,
    hours: float = 2.0,
    in_return: Mapping[str, Any] | None = None,
    **columns: Any,
) -> Loan:
    """Return a loan from `since_hours` ago (less than 0: it is still to come) until `hours` from now."""
    now = timezone.now()
    offer = make_offer(lender, gpus, cells=cells, hours=hours, in_return=in_return, state="taken")
    columns = {"taken_by": "user bob", "taken_at": now - timedelta(hours=max(since_hours, 0)), **columns}
    return Loan.objects.create(
        offer=offer,
        borrower=borrower,
        starts_at=now - timedelta(hours=since_hours),
        ends_at=offer.ends_at,
        **columns,
    )


def make_lend_rule(
    virtual_cluster: VirtualCluster,
    gpus: Mapping[str, int] | None = None,
    *,
    cells: Mapping[str, int] | None = None,
    **columns: Any,
) -> MarketRule:
    """Return a rule that offers what was idle for ten minutes for an hour, for nothing."""
    columns = {"idle_seconds": 600.0, "lend_seconds": 3_600.0, "made_by": "user lena", **columns}
    lot = {"gpus": dict(gpus or {}), "cells": dict(cells or {})}
    return MarketRule.objects.create(
        virtual_cluster=virtual_cluster, kind="lend", lot=lot, made_at=timezone.now(), **columns
    )


def make_borrow_rule(virtual_cluster: VirtualCluster, *, most_gpus: int = 4, **columns: Any) -> MarketRule:
    """Return a rule that borrows for jobs that have waited for a minute, for nothing."""
    columns = {"waiting_seconds": 60.0, "made_by": "user bob", **columns}
    return MarketRule.objects.create(
        virtual_cluster=virtual_cluster, kind="borrow", most_gpus=most_gpus, made_at=timezone.now(), **columns
    )


def make_webhook(tenant: Tenant | None = None, **columns: Any) -> Webhook:
    """Return a webhook of a tenant, or of the cluster, that hears of failed jobs."""
    columns = {"url": "https://chat.example.org/hook", "topics": ["job.failed"], "seed": b"s" * 32, **columns}
    return Webhook.objects.create(
        tenant=tenant, created_at=timezone.now(), created_by="user of-a-test", **columns
    )


def make_delivery(webhook: Webhook, *, body: str = "{}", **columns: Any) -> Delivery:
    """Return a delivery that is due."""
    now = timezone.now()
    columns = {"next_at": now, "until": now + timedelta(days=1), "topic": "job.failed", **columns}
    return Delivery.objects.create(webhook=webhook, body=body, created_at=now, **columns)


def make_round(**columns: Any) -> Round:
    """Return a round that was kept with the facts of now, after those that were kept before."""
    number = (Round.objects.aggregate(Max("number"))["number__max"] or 0) + 1
    columns = {"started_at": timezone.now(), "state": RoundState.APPLIED, **columns}
    return Round.objects.create(number=number, snapshot=dumps_snapshot(read_snapshot(number)), **columns)
