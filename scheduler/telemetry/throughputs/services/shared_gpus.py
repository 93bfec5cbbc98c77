"""GPUs that several jobs may have at once: which part each has, how that is held, and what it costs each.

By parts of their own (`core.model.gpu_parts`), or with one grant of all of it that a policy gave to several
jobs, which run on it together or in turns.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import Count, Q, QuerySet

from scheduler.core.model.gpu_parts import WHOLE_GPU, GpuPart
from scheduler.core.model.lifecycle import ATTEMPT_LIVE, HoldPhase
from scheduler.core.perf.estimator import ThroughputEstimator
from scheduler.core.perf.throughput import Setting, beside
from scheduler.models.attempts import AllocatedGpu, Attempt, AttemptPart
from scheduler.models.nodes import Gpu
from scheduler.telemetry.metrics.selectors.now import newest_readings
from scheduler.telemetry.metrics.selectors.reading import Row
from scheduler.telemetry.throughputs.services.on_record import read_estimator
from scheduler.wiring.clock import database_now
from tenants.models import Role
from tenants.selectors import Viewer


def gpus_shared() -> QuerySet[Gpu]:
    """Return the GPUs of which jobs have parts, or that several jobs have together."""
    held = AllocatedGpu.objects.filter(phase=HoldPhase.HELD)
    live = Attempt.objects.filter(state__in=ATTEMPT_LIVE).order_by().values("allocation")
    crowded = live.annotate(attempts=Count("id")).filter(attempts__gt=1).values("allocation")
    return Gpu.objects.filter(
        Q(id__in=held.filter(request__lt=WHOLE_GPU).values("gpu"))
        | Q(id__in=held.filter(allocation__in=crowded).values("gpu"))
    )


def shared_gpus(viewer: Viewer, ids: Collection[int]) -> list[dict[str, Any]]:
    """Return these GPUs, JSON-ready. Only what they have is shown of jobs that the viewer may not see."""
    gpus = Gpu.objects.select_related("node__gpu_model").in_bulk(ids)
    holds = AllocatedGpu.objects.filter(gpu__in=gpus, phase=HoldPhase.HELD).order_by("allocation")
    attempts: dict[int, list[Attempt]] = defaultdict(list)
    rows = Attempt.objects.filter(allocation__in=holds.values("allocation"), state__in=ATTEMPT_LIVE)
    for attempt in rows.select_related("allocation", "job__tenant", "job__virtual_cluster").order_by("id"):
        attempts[attempt.allocation_id].append(attempt)
    parts = AttemptPart.objects.filter(attempt__allocation__in=list(attempts), node__gpus__in=gpus)
    enforcement = {
        (attempt, node): word
        for attempt, node, word in parts.values_list("attempt", "node", "enforcement").distinct()
    }
    estimator = read_estimator()
    slowdowns = {
        attempt.id: _slowdown(attempt, group, estimator)
        for group in attempts.values()
        for attempt in group
        if viewer.may(attempt.job.tenant_id, Role.VIEWER)
    }
    readings = newest_readings({gpu.node_id for gpu in gpus.values()}, database_now())
    by_gpu: dict[int, list[AllocatedGpu]] = defaultdict(list)
    for hold in holds:
        by_gpu[hold.gpu_id].append(hold)
    return [
        _gpu(gpus[gpu_id], by_gpu[gpu_id], attempts, enforcement, slowdowns, readings)
        for gpu_id in ids
        if gpu_id in gpus
    ]


def _gpu(
    gpu: Gpu,
    holds: Collection[AllocatedGpu],
    attempts: Mapping[int, Collection[Attempt]],
    enforcement: Mapping[tuple[int, int], str],
    slowdowns: Mapping[int, float | None],
    readings: Mapping[int, Row],
) -> dict[str, Any]:
    """`slowdowns`: by attempt, of those that the viewer may see; `readings`: by node."""
    reading = readings.get(gpu.node_id)
    occupied = {} if reading is None else reading.values.get("occupied", {})
    jobs = []
    for hold in holds:
        part = GpuPart(request=hold.request, limit=hold.limit, memory_bytes=hold.memory_bytes)
        for attempt in attempts.get(hold.allocation_id, ()):
            job = attempt.job if attempt.id in slowdowns else None
            jobs.append(
                {
                    "id": job and job.id,
                    "name": job and job.name,
                    "tenant": job and job.tenant.name,
                    "virtual_cluster": job and job.virtual_cluster.name,
                    "request": hold.request / WHOLE_GPU,
                    "limit": hold.limit / WHOLE_GPU,
                    "memory_bytes": part.memory_on(gpu.memory_bytes),
                    "memory_used_bytes": job and occupied.get(str(attempt.id), {}).get(str(gpu.index)),
                    "way": _way(hold, attempt),
                    "enforcement": enforcement.get((attempt.id, gpu.node_id), ""),
                    "slowdown": slowdowns.get(attempt.id),
                }
            )
    return {
        "id": gpu.id,
        "node": gpu.node.name,
        "index": gpu.index,
        "gpu_model": gpu.node.gpu_model.name if gpu.node.gpu_model else None,
        "memory_bytes": gpu.memory_bytes,
        "in_use": sum(hold.request for hold in holds) / WHOLE_GPU,
        "jobs": jobs,
    }


def _way(hold: AllocatedGpu, attempt: Attempt) -> str:
    if hold.request < WHOLE_GPU:
        return "part"
    return "together" if attempt.allocation.slice_seconds is None else "turns"


def _slowdown(attempt: Attempt, group: Collection[Attempt], estimator: ThroughputEstimator) -> float | None:
    """Return its run time relative to running alone on whole GPUs, as far as that was measured.

    For several that a policy put together, it is what is on record. For one with parts, its throughput of the
    last minute is compared with what is on record of its job class alone.
    """
    job_class, allocation = attempt.job.job_class, attempt.allocation
    setting = Setting(allocation.gpu_model, allocation.gpu_count)
    if len(group) > 1:
        if allocation.slice_seconds is not None:
            return None
        others = [other.job.job_class.application for other in group if other.id != attempt.id]
        relative = estimator.beside(job_class, setting._replace(partner=beside(others)))
    else:
        alone = estimator.at(job_class, setting)
        relative = attempt.throughput / alone.value if attempt.throughput and alone and alone.value else None
    return 1 / min(1.0, relative) if relative else None
