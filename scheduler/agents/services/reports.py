"""A node agent's exchange: believe what the node reports, answer what it should be running."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models import F

from nodeagent.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    DesiredState,
    Inventory,
    MessageError,
    PartReport,
    Report,
    decode,
)
from scheduler.agents.services.desired import desired_parts
from scheduler.core.model.lifecycle import ATTEMPT_LIVE, PartState
from scheduler.jobs.attempts.services import lifecycle as attempts
from scheduler.jobs.attempts.services.cpu_trials import cpus_note
from scheduler.jobs.attempts.services.input_pools import demand_note, trainers_note
from scheduler.jobs.attempts.services.preemption_cost import settle_lost_work
from scheduler.jobs.attempts.services.profiling import profile_note
from scheduler.jobs.attempts.services.progress import pace_note, scaling_note, training_note
from scheduler.jobs.attempts.services.steps import hold_jobs
from scheduler.jobs.representations import publish_jobs
from scheduler.models.attempts import Attempt, AttemptPart, ProgressPoint
from scheduler.models.jobs import Job
from scheduler.models.nodes import Gpu, GpuModel, Node, NodeState
from scheduler.nodes.representations import publish_nodes
from scheduler.nodes.services.changes import node_event
from scheduler.nodes.services.health import findings_apply
from scheduler.nodes.services.isolation import refuse_unisolated
from scheduler.telemetry.metrics.services import readings_store
from scheduler.telemetry.throughputs.services.measuring import measure
from scheduler.wiring.stream import SAMPLES, log_group, on_commit, send
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.times import iso

log = logging.getLogger(__name__)

#: So that several reports may be lost before the lease is.
_REPORTS_PER_LEASE = 6
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
        with _costs_no_lease(f"the findings of node {node.name}"):
            findings_apply(node, report.findings, at=now)
    for job_id, part_report in _news(node, report.parts):
        with _costs_no_lease(f"a report of attempt {part_report.attempt}"):
            _part_apply(node, job_id, part_report, at=now)
    if report.samples:
        with _costs_no_lease(f"the samples of node {node.name}"):
            publish_samples(node.name, report.samples)
    if report.readings:
        with _costs_no_lease(f"the readings of node {node.name}"):
            readings_store(node, report, at=now)
    return DesiredState(
        generation=generation,
        lease_seconds=settings.CONFIG.node_lease_seconds,
        report_seconds=settings.CONFIG.node_lease_seconds / _REPORTS_PER_LEASE,
        parts=desired_parts(node),
        want_inventory=node.boot != report.boot,
    )


@contextmanager
def _costs_no_lease(what: str) -> Iterator[None]:
    """Log why a part of a report cannot be applied: that must not cost all jobs on the node their lease."""
    try:
        yield
    except OperationalError:
        # The database is away, or ended this for a deadlock: the agent repeats the report.
        raise
    except Exception:
        log.exception("%s could not be applied", what)


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
    names = ("attempt_id", "attempt__job_id", "attempt__state", "state", "enforcement", "is_queued")
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
            or report.is_queued != row.is_queued
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
    if report.is_queued != part.is_queued:
        _queue_note(part, is_queued=report.is_queued, at=at)
    if report.input_ports:
        trainers_note(part, report.input_ports)
    if report.state == "ready":
        attempts.part_ready(part, master_port=report.master_port)
    elif report.state == "running":
        attempts.part_running(part, at=at)
    elif report.state == "exited":
        _exited(node, part, report, at=at)


def _queue_note(part: AttemptPart, *, is_queued: bool, at: datetime) -> None:
    """Note that a part waits in the queue of another scheduler, or has left it: its time to start begins."""
    part.is_queued = is_queued
    part.left_queue_at = None if is_queued else at
    part.save(update_fields=["is_queued", "left_queue_at"])


def _exited(node: Node, part: AttemptPart, report: PartReport, *, at: datetime) -> None:
    attempts.part_exited(
        part,
        # It may have run and ended between two reports: its start must not be missed.
        has_run=report.started_at is not None,
        exit_code=report.exit_code,
        category=report.category,
        message=report.message.replace("\0", " "),
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
    oldest = window.order_by("at", "sequence").first()
    if oldest is None or oldest.at >= newest.at or oldest.samples is None:
        return attempt.throughput
    return (newest.samples - oldest.samples) / (newest.at - oldest.at).total_seconds()


def publish_progress(attempt: Any, points: Sequence[Any]) -> None:
    body = {
        "type": "live.progress",
        "job": attempt.job_id,
        "points": [
            {
                "attempt": attempt.number,
                "at": iso(point.at),
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
