"""A node agent's exchange: believe what the node reports, answer what it should be running."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, F
from django.utils.crypto import salted_hmac

from nodeagent.messages import (
    INPUT_PORT,
    OLDEST_PROTOCOL,
    PROTOCOL,
    Code,
    DesiredPart,
    DesiredState,
    GpuPart,
    Inventory,
    Launcher,
    MessageError,
    PartReport,
    Replica,
    Report,
    Turn,
    decode,
)
from scheduler.core.model import gpu_parts
from scheduler.core.model.lifecycle import ATTEMPT_LIVE, AttemptState, PartState
from scheduler.core.model.snapshot import FIXED_WORLD
from scheduler.jobs.attempts.services import lifecycle as attempts
from scheduler.jobs.attempts.services.cpu_trials import cpus_note
from scheduler.jobs.attempts.services.input_pools import Trainers, demand_note, trainers_note, trainers_of
from scheduler.jobs.attempts.services.preemption_cost import settle_lost_work
from scheduler.jobs.attempts.services.profiling import profile_note
from scheduler.jobs.attempts.services.progress import pace_note, scaling_note, training_note
from scheduler.jobs.attempts.services.steps import hold_jobs
from scheduler.jobs.representations import publish_jobs
from scheduler.jobspec import TaskSpec
from scheduler.jobspec.code import SHA256
from scheduler.jobspec.launchers import processes_each
from scheduler.models.attempts import AllocatedGpu, Attempt, AttemptPart, ProgressPoint
from scheduler.models.jobs import Job
from scheduler.models.nodes import Gpu, GpuModel, Node, NodeState
from scheduler.models.selectors.attempts import time_slices_of
from scheduler.nodes.representations import publish_nodes
from scheduler.nodes.services.changes import node_event
from scheduler.nodes.services.health import findings_apply
from scheduler.nodes.services.isolation import refuse_unisolated
from scheduler.telemetry.metrics.services import readings_store
from scheduler.telemetry.throughputs.services.measuring import measure
from scheduler.wiring.stream import SAMPLES, log_group, on_commit, send
from scheduler.wiring.wakeups import request_round_on_commit

#: So that several reports may be lost before the lease is.
_REPORTS_PER_LEASE = 6
#: As if SIGTERM had ended it.
_NEVER_STARTED = 143
#: What the replica of a trial run finds in its environment; its value is 1.
_TRIAL_VARIABLE = "ALLOT_TRIAL"
#: What replicas of a job of a fixed world size find: the number of ranks that all of them play together.
_LOGICAL_WORLD_SIZE = "ALLOT_LOGICAL_WORLD_SIZE"
#: The launcher whose replicas send each other orders, and where they find the key that signs them.
_MPI, _LAUNCH_KEY = "mpi", "ALLOT_LAUNCH_KEY"
#: What replicas of a task of an array find: its index, the array's number, and the number of tasks.
_ARRAY_VARIABLES = ("ALLOT_ARRAY_INDEX", "ALLOT_ARRAY", "ALLOT_ARRAY_SIZE")
#: The states of a part in which a report of another one is news. Nothing is done about the other reports.
_NEWS_AFTER = {
    "ready": {PartState.WAITING},
    "running": {PartState.WAITING, PartState.READY},
    "exited": set(PartState),
}
#: No job reports more, and the database holds at most 2^63.
_STEPS_MOST = 2**53


def report_read(value: Any) -> Report:
    """Return the report an agent sent; raise MessageError, first of all if it is too old or too new."""
    protocol = value.get("protocol") if isinstance(value, dict) else None
    if isinstance(protocol, int) and not OLDEST_PROTOCOL <= protocol <= PROTOCOL:
        outdated = "agent" if protocol < OLDEST_PROTOCOL else "server"
        raise MessageError(
            f"protocol: this server understands {OLDEST_PROTOCOL} to {PROTOCOL}, not {protocol};"
            f" update the {outdated}"
        )
    return decode(Report, value)


def report_apply(node: Node, report: Report) -> DesiredState:
    """Renew the node's lease, apply the report, and return the node's desired state.

    Raises NodeRefusal, and renews nothing, when the node runs jobs in a way that this server does not allow.
    """
    refuse_unisolated(node, report.inventory)
    # Drawn before the desired state is read, so that a higher number means a later state (see Node).
    now, generation = _renew_lease(node, report.generation)
    if report.inventory is not None:
        _inventory_set(node, report.boot, report.inventory, at=now)
    elif node.state != NodeState.READY and node.boot == report.boot:
        _node_back(node, at=now)
    if report.findings is not None:
        findings_apply(node, report.findings, at=now)
    for job_id, part_report in _news(node, report.parts):
        _part_apply(node, job_id, part_report, at=now)
    if report.samples:
        publish_samples(node.name, report.samples)
    if report.readings:
        readings_store(node, report, at=now)
    return DesiredState(
        generation=generation,
        lease_seconds=settings.CONFIG.node_lease_seconds,
        report_seconds=settings.CONFIG.node_lease_seconds / _REPORTS_PER_LEASE,
        parts=desired_parts(node),
        want_inventory=node.boot != report.boot,
    )


def _renew_lease(node: Node, obeyed: int) -> tuple[datetime, int]:
    """Renew the node's lease by the database's clock; return its time, and the number of this answer.

    An agent ignores answers older than the newest one that it `obeyed`. After a restore from a dump that one
    is ahead of the database. One statement, written here: the ORM would build it again for every report.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_node SET generation = greatest(generation, least(%s, 1::bigint << 60)) + 1,"
            " lease_expires_at = clock_timestamp() + make_interval(secs => %s)"
            " WHERE id = %s RETURNING clock_timestamp(), generation, state, boot",
            [obeyed, settings.CONFIG.node_lease_seconds, node.id],
        )
        now, node.generation, node.state, node.boot = cursor.fetchone()
    return now, node.generation


@transaction.atomic
def _node_back(node: Node, *, at: datetime) -> None:
    changed = Node.objects.filter(id=node.id).exclude(state=NodeState.READY)
    if changed.update(state=NodeState.READY, version=F("version") + 1):
        node_event(node, "node.ready", at=at, actor=f"node {node.name}").save()
        publish_nodes([node.id])
        request_round_on_commit()


@transaction.atomic
def _inventory_set(node: Node, boot: str, inventory: Inventory, *, at: datetime) -> None:
    """Record what the node is. GPUs that vanished stay, marked absent: history points to them."""
    if len({gpu.index for gpu in inventory.gpus}) != len(inventory.gpus):
        raise MessageError("inventory.gpus: must name each index once")
    # A node that had GPUs and reports none has lost them: it stays one of its model.
    model = node.gpu_model
    if inventory.gpus:
        model, _ = GpuModel.objects.get_or_create(
            name=inventory.gpu_model,
            defaults={"memory_bytes": max(gpu.memory_bytes for gpu in inventory.gpus)},
        )
    was = node.state
    Node.objects.filter(id=node.id).update(
        boot=boot,
        state=NodeState.READY,
        gpu_model=model,
        address=inventory.address,
        cpus=inventory.cpus,
        memory_bytes=inventory.memory_bytes,
        storage_bandwidth=inventory.storage_bandwidth,
        cache_bytes=inventory.cache_bytes,
        isolation=inventory.isolation,
        agent_version=inventory.agent_version,
        version=F("version") + 1,
    )
    node.boot, node.state = boot, NodeState.READY
    Gpu.objects.filter(node=node).update(present=False)
    Gpu.objects.bulk_create(
        [
            Gpu(
                node=node,
                index=gpu.index,
                uuid=gpu.uuid,
                memory_bytes=gpu.memory_bytes,
                socket=gpu.socket,
                switch=gpu.switch,
                healthy=gpu.healthy,
                problem=gpu.problem[:200],
                present=True,
            )
            for gpu in inventory.gpus
        ],
        update_conflicts=True,
        unique_fields=["node", "index"],
        update_fields=["uuid", "memory_bytes", "socket", "switch", "healthy", "problem", "present"],
    )
    if was != NodeState.READY:
        message = f"{len(inventory.gpus)} {inventory.gpu_model}" if inventory.gpus else "no GPUs"
        node_event(node, "node.ready", at=at, actor=f"node {node.name}", why=message).save()
    publish_nodes([node.id])
    request_round_on_commit()


def _news(node: Node, reports: Sequence[PartReport]) -> list[tuple[int, PartReport]]:
    """Return the reports that say more than is stored, each with its job.

    An agent repeats all its parts in each report. What is read here without a lock only ever moves forward:
    a report that says nothing new now never will.
    """
    if not reports:
        return []
    names = ("attempt_id", "attempt__job_id", "attempt__state", "state", "enforcement")
    rows = AttemptPart.objects.filter(node=node, attempt_id__in=[report.attempt for report in reports])
    stored = {row.attempt_id: row for row in rows.values_list(*names, named=True)}
    return [
        (row.attempt__job_id, report)
        for report in reports
        if (row := stored.get(report.attempt)) is not None
        and row.attempt__state in ATTEMPT_LIVE
        and row.state != PartState.EXITED
        and (
            report.progress
            or report.input_ports
            or (report.enforcement and report.enforcement != row.enforcement)
            or row.state in _NEWS_AFTER.get(report.state, ())
        )
    ]


@transaction.atomic
def _part_apply(node: Node, job_id: int, report: PartReport, *, at: datetime) -> None:
    """Apply one part's report; one of an attempt that has ended changes nothing."""
    hold_jobs([job_id])
    part = (
        AttemptPart.objects.filter(attempt_id=report.attempt, node=node)
        .select_related("attempt__job__tenant", "attempt__allocation", "node")
        .get()
    )
    if part.attempt.state not in ATTEMPT_LIVE or part.state == PartState.EXITED:
        return
    if report.progress:
        _progress_append(part.attempt, report)
    elif report.state == "exited" and part.attempt.step is not None:
        _measure_rest(part.attempt)
    if report.enforcement and report.enforcement != part.enforcement:
        AttemptPart.objects.filter(id=part.id).update(enforcement=report.enforcement)
        Job.objects.filter(id=job_id).update(version=F("version") + 1)
        publish_jobs([job_id])
    if report.input_ports:
        trainers_note(part, report.input_ports)
    if report.state == "ready":
        attempts.part_ready(part, master_port=report.master_port)
    elif report.state == "running":
        attempts.part_running(part, at=at)
    elif report.state == "exited":
        _exited(node, part, report, at=at)


def _exited(node: Node, part: AttemptPart, report: PartReport, *, at: datetime) -> None:
    attempts.part_exited(
        part,
        # It may have run and ended between two reports: its start must not be missed.
        has_run=report.started_at is not None,
        # A part that was stopped before it started has none.
        exit_code=_NEVER_STARTED if report.exit_code is None else report.exit_code,
        category=report.category,
        message=report.message,
        last_lines=report.last_lines,
        signal=report.signal,
        at=at,
        actor=f"node {node.name}",
    )


def _progress_append(attempt: Attempt, report: PartReport) -> None:
    points = [
        ProgressPoint(
            attempt=attempt,
            sequence=line.sequence,
            at=datetime.fromtimestamp(line.at, UTC),
            step=line.step,
            samples=line.samples,
            values=line.values,
        )
        for line in report.progress
    ]
    ProgressPoint.objects.bulk_create(points, ignore_conflicts=True)
    newest = points[-1]
    if attempt.step is None:
        settle_lost_work(attempt, points[0])
    attempt.step = newest.step
    if 0 <= (total_steps := newest.values.get("total_steps", -1.0)) <= _STEPS_MOST:
        attempt.total_steps = int(total_steps)
    attempt.throughput = _throughput(attempt, newest)
    measure(attempt, newest, is_last=report.state == "exited")
    attempt.save(update_fields=["step", "total_steps", "throughput", "measured_at"])
    if not attempt.is_trial:
        training_note(attempt, points)
        scaling_note(attempt, points)
        cpus_note(attempt, points)
    profile_note(attempt, points)
    demand_note(attempt, points)
    pace_note(attempt, points, is_last=report.state == "exited")
    publish_progress(attempt, points)


def _measure_rest(attempt: Attempt) -> None:
    """Measure the last work of an attempt that reported a step; its end is reported after its last line."""
    newest = ProgressPoint.objects.filter(attempt=attempt).latest("sequence")
    measure(attempt, newest, is_last=True)
    pace_note(attempt, [newest], is_last=True)
    attempt.save(update_fields=["measured_at"])


def _throughput(attempt: Attempt, newest: ProgressPoint) -> float | None:
    """Samples per second over the last minute that this attempt reported on."""
    if newest.samples is None:
        return attempt.throughput
    window = ProgressPoint.objects.filter(
        attempt=attempt, at__gte=newest.at - timedelta(seconds=60), samples__isnull=False
    )
    oldest = window.order_by("sequence").first()
    if oldest is None or oldest.at >= newest.at or oldest.samples is None:
        return attempt.throughput
    return (newest.samples - oldest.samples) / (newest.at - oldest.at).total_seconds()


def desired_parts(node: Node) -> tuple[DesiredPart, ...]:
    """Return every part that this node should run or stop, and whose end it has not reported."""
    if not _has_parts(node):
        return ()
    parts = (
        AttemptPart.objects.filter(node=node, attempt__state__in=ATTEMPT_LIVE)
        .exclude(state=PartState.EXITED)
        .select_related("attempt__job__tenant", "attempt__allocation")
        .annotate(sharers=Count("attempt__allocation__attempts"))
        .order_by("attempt_id")
    )
    turns = time_slices_of([part.attempt for part in parts])
    gpu_parts_here = _gpu_parts(node, [part.attempt.allocation_id for part in parts])
    served = [part.attempt.job.serves_id for part in parts if part.attempt.job.serves_id is not None]
    trainers = trainers_of(served) if served else {}
    return tuple(
        _desired_part(
            part,
            turns.get(part.attempt_id),
            gpu_parts_here.get(part.attempt.allocation_id, {}),
            trainers.get(part.attempt.job.serves_id or 0, Trainers()),
        )
        for part in parts
    )


def _gpu_parts(node: Node, allocations: Sequence[int]) -> dict[int, dict[int, GpuPart]]:
    """Return by allocation its parts of the GPUs of the node, by GPU."""
    rows = AllocatedGpu.objects.filter(
        allocation_id__in=allocations, gpu__node=node, request__lt=gpu_parts.WHOLE_GPU
    )
    found: dict[int, dict[int, GpuPart]] = {}
    for row in rows.select_related("gpu"):
        part = gpu_parts.GpuPart(request=row.request, limit=row.limit, memory_bytes=row.memory_bytes)
        found.setdefault(row.allocation_id, {})[row.gpu_id] = GpuPart(
            request=part.request, limit=part.limit, memory_bytes=part.memory_on(row.gpu.memory_bytes)
        )
    return found


def _has_parts(node: Node) -> bool:
    """Look before all parts are read with their relations: most nodes ask again and again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM scheduler_attemptpart WHERE node_id = %s AND state <> 'exited')",
            [node.id],
        )
        return bool(cursor.fetchone()[0])


def _desired_part(
    part: AttemptPart, turn: Turn | None, parts: Mapping[int, GpuPart], trainers: Trainers
) -> DesiredPart:
    """Return what the node is to run; `trainers`: those that it serves as an input worker."""
    attempt, job = part.attempt, part.attempt.job
    stated = job.specification
    code = stated.code
    tasks = {task.name: task for task in stated.tasks}
    variables: dict[str, str] = {_TRIAL_VARIABLE: "1"} if attempt.is_trial else {}
    if job.array is not None:
        values = (job.array["index"], job.array_id, job.array["size"])
        variables |= dict(zip(_ARRAY_VARIABLES, map(str, values), strict=True))
    ports = {name: number or 0 for name, number in stated.ports.items()}
    if (workers := stated.input_workers) is not None:
        ports[INPUT_PORT] = 0
        variables |= {"ALLOT_INPUT_MIN": str(workers.least), "ALLOT_INPUT_MAX": str(workers.most)}
        variables |= {"ALLOT_INPUT_SHARED": "1"} if workers.shared else {}
    if trainers.addresses and not trainers.is_stream:
        variables["ALLOT_INPUT_TRAINERS"] = trainers.addresses
    # An elastic job has as many as it was granted.
    world_size, ranks = len(attempt.allocation.replicas), 1
    if not attempt.is_trial and stated.elastic_mode == FIXED_WORLD:
        replicas = sum(task.replicas for task in stated.tasks)
        variables[_LOGICAL_WORLD_SIZE] = str(replicas * processes_each(stated))
        ranks = replicas // world_size
    if stated.launcher == _MPI:
        variables[_LAUNCH_KEY] = salted_hmac(_LAUNCH_KEY, str(attempt.id), algorithm="sha256").hexdigest()
    return DesiredPart(
        attempt=attempt.id,
        job=job.id,
        number=attempt.number,
        name=job.name,
        tenant=job.tenant.name,
        gpu_model=attempt.allocation.gpu_model,
        replicas=tuple(
            _replica(
                replica,
                tasks[replica["task"]],
                stated.image,
                parts,
                shares=attempt.auxiliary["replicas"] if attempt.auxiliary else [],
                variables=variables,
                ranks=ranks,
                launcher=stated.launcher,
            )
            for replica in part.replicas
        ),
        code=None
        if code is None
        else Code(archive=code.archive.removeprefix(SHA256), git=code.git, commit=code.commit),
        trainers=trainers.addresses if trainers.is_stream else "",
        world_size=world_size,
        go=attempt.go,
        stop=attempt.state == AttemptState.STOPPING,
        grace_seconds=job.grace_seconds,
        has_rank_zero=attempts.has_rank_zero(part),
        master_address=attempt.master_address,
        master_port=attempt.master_port or 0,
        log_bytes=settings.CONFIG.log_bytes_per_attempt,
        shares_gpus=part.sharers > 1,  # type: ignore[attr-defined]
        turn=turn,
        has_secrets=bool(stated.secrets or workers) or job.serves_id is not None,
        ports=ports,
    )


def _replica(
    placed: dict[str, Any],
    task: TaskSpec,
    image: str,
    parts: Mapping[int, GpuPart],
    *,
    shares: Sequence[Sequence[float]],
    variables: dict[str, str],
    ranks: int,
    launcher: Launcher,
) -> Replica:
    """Return a process; `ranks`: how many replicas of the task it plays in turn, with the memory of all.

    `shares`: by rank, the CPUs and memory that it has now of what its task leaves to the platform.
    """
    rank = placed["rank"]
    # Without a share, a replica has no limit.
    cpus, memory = shares[rank] if rank < len(shares) else (0.0, 0)
    return Replica(
        rank=rank,
        task=placed["task"],
        gpu_indexes=tuple(placed["gpu_indexes"]),
        command=tuple(task.command),
        env={**task.env, **variables},
        cpus=float(cpus if isinstance(task.cpus, str) else task.cpus),
        memory_bytes=int(memory) if isinstance(task.memory_bytes, str) else task.memory_bytes * ranks,
        image=image,
        gpu_part=parts.get(placed["gpus"][0]) if placed["gpus"] else None,
        launcher=launcher,
    )


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
    on_commit(send, [((log_group(attempt.job_id),), body)])


def publish_samples(node_name: str, samples: Sequence[Any]) -> None:
    gpus = [
        {
            "index": sample.index,
            "utilisation_percent": sample.utilisation_percent,
            "memory_used_bytes": sample.memory_used_bytes,
        }
        for sample in samples
    ]
    on_commit(send, [((SAMPLES,), {"type": "live.samples", "node": node_name, "gpus": gpus})])
