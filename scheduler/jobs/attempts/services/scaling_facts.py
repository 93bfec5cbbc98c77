"""How a job scales, for pages: the GPUs that it had, its present batch, its speed on more or fewer GPUs."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Count

from scheduler.core.goodput.batch import GoodputModel, efficiency
from scheduler.core.goodput.fit import log_error
from scheduler.core.goodput.gpu_models import best_known
from scheduler.core.goodput.reports import GoodputReport, Way
from scheduler.core.goodput.speedups import CurvePoint, curve
from scheduler.core.goodput.throughput import GoodputError, Parameters, throughput
from scheduler.core.model.snapshot import FIXED_WORLD
from scheduler.jobs.attempts.services.progress import scaling_of
from scheduler.jobspec.shape import Shape, shape_of
from scheduler.models.attempts import Attempt, JobScaling
from scheduler.models.events import Event
from scheduler.models.jobs import Job
from scheduler.models.nodes import Gpu
from tenants.times import iso

#: The most attempts that are listed, the newest; the most numbers of GPUs with a predicted speedup.
ALLOCATIONS_MOST, POINTS_MOST = 100, 64
#: Where no node of the model is left.
_GPUS_OF_A_NODE = 8


def scaling_of_job(job: Job) -> dict[str, Any]:
    """Return it JSON-ready; unknown values are None, unknown lists are empty."""
    shape = job.needs
    if shape.after_trial:
        shape = shape_of(shape.after_trial)
    attempts = list(
        Attempt.objects.filter(job=job, allocation__held_at__isnull=False)
        .select_related("allocation")
        .annotate(nodes=Count("parts"))
        .order_by("-number")[: ALLOCATIONS_MOST + 1]
    )
    row = JobScaling.objects.filter(job=job).first()
    least, most = shape.elastic or (shape.gpus, shape.gpus)
    return {
        "is_elastic": shape.elastic is not None,
        "mode": shape.elastic_mode if shape.elastic else None,
        "min_gpus": least,
        "gpus": shape.amount(shape.gpus),
        "max_gpus": most,
        "allocations": _allocations(job, shape, attempts[:ALLOCATIONS_MOST][::-1]),
        "has_earlier": len(attempts) > ALLOCATIONS_MOST,
        **_measured(row, shape, attempts[0] if attempts else None),
    }


def _allocations(job: Job, shape: Shape, attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    resized = Event.objects.filter(job_id=job.id, kind="job.resized").order_by("-id")[:ALLOCATIONS_MOST]
    why = {event.data.get("attempt"): event.message for event in resized}
    return [
        {
            "attempt": attempt.number,
            "gpus": shape.amount(attempt.allocation.gpu_count),
            "gpu_model": attempt.allocation.gpu_model,
            "nodes": attempt.nodes,  # type: ignore[attr-defined]
            "since": iso(attempt.allocation.held_at),
            "until": iso(attempt.ended_at),
            "why": why.get(attempt.number, ""),
        }
        for attempt in attempts
    ]


def _measured(row: JobScaling | None, shape: Shape, newest: Attempt | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"now": None, "gpu_model": None, "curve": [], "rests_on": None}
    if row is None or newest is None:
        return answer
    known = scaling_of(row)
    parameters = {model: Parameters(*values) for model, (values, _) in row.parameters.items()}
    gpu_model, model, points = newest.allocation.gpu_model, None, []
    if gpu_model not in parameters and parameters:
        gpu_model = best_known(known.measurements())
    if gpu_model in parameters and known.noise is not None and known.limits is not None:
        model = GoodputModel(parameters[gpu_model], known.noise, known.limits)
        points = _curve(model, shape, gpu_model)
    return {
        "now": _now(known, model, points, newest),
        "gpu_model": gpu_model if points else None,
        "curve": [_point(point, shape.tasks[0].gpus) for point in points],
        "rests_on": _rests_on(row, known),
    }


def _curve(model: GoodputModel, shape: Shape, gpu_model: str) -> list[CurvePoint]:
    own, each = shape.tasks[0].replicas, max(shape.tasks[0].gpus, 1)
    most = (shape.elastic[1] if shape.elastic else shape.gpus) // each
    counts = [count for count in range(1, most + 1) if shape.elastic_mode != FIXED_WORLD or own % count == 0]
    if len(counts) > POINTS_MOST:
        step = (len(counts) - 1) / (POINTS_MOST - 1)
        counts = sorted({counts[round(place * step)] for place in range(POINTS_MOST)})
    by_node = Gpu.objects.filter(node__gpu_model__name=gpu_model, present=True).values("node")
    largest = by_node.annotate(gpus=Count("id")).order_by("-gpus").values_list("gpus", flat=True).first()
    try:
        return curve(model, counts, of_a_node=max((largest or _GPUS_OF_A_NODE) // each, 1))
    except GoodputError:
        return []


def _now(
    known: GoodputReport, model: GoodputModel | None, points: Sequence[CurvePoint], newest: Attempt
) -> dict[str, Any] | None:
    """Return the batch that the job has, or had last, with its measured or else predicted speed."""
    if known.batch is None or known.limits is None:
        return None
    batch, allocation = known.batch, newest.allocation
    replicas, nodes = len(allocation.replicas), newest.nodes  # type: ignore[attr-defined]
    way = Way(allocation.gpu_model, nodes, replicas, batch.local_batch, batch.accumulation)
    worth = speed = scale = None
    if known.noise is not None:
        initial = known.limits.initial_batch
        worth = float(efficiency(known.noise, initial, max(batch.size, initial)))
        if known.noise.squared_norm > 0:
            scale = initial * known.noise.variance / known.noise.squared_norm
    if way in known.times:
        speed = batch.size / known.times[way].iteration_seconds
    elif model is not None:
        speed = float(throughput(model.parameters, nodes, replicas, batch.local_batch, batch.accumulation))
    return {
        "attempt": newest.number,
        "gpus": allocation.gpu_count,
        "nodes": nodes,
        "batch_size": batch.size,
        "local_batch": batch.local_batch,
        "accumulation": batch.accumulation,
        "lr_factor": batch.lr_factor,
        "overhead": batch.overhead,
        "noise_scale": scale,
        "efficiency": worth,
        "throughput": speed,
        "is_measured": way in known.times,
        "goodput": None if speed is None or worth is None else speed * worth,
        "speedup": next((point.speedup for point in points if point.replicas == replicas), None),
    }


def _point(point: CurvePoint, replica_gpus: int) -> dict[str, Any]:
    return {
        "gpus": point.replicas * replica_gpus,
        "nodes": point.nodes,
        "goodput": point.goodput,
        "speedup": point.speedup,
        "efficiency": point.efficiency,
        "batch_size": point.replicas * point.local_batch * (point.accumulation + 1),
        "local_batch": point.local_batch,
        "accumulation": point.accumulation,
    }


def _rests_on(row: JobScaling, known: GoodputReport) -> dict[str, Any]:
    """Return what was measured, and how well the fit explains it."""
    measurements = known.measurements()
    models = []
    for model in sorted({*measurements, *row.parameters}):
        rows = measurements.get(model, [])
        values, projected_from = row.parameters.get(model, (None, ""))
        models.append(
            {
                "gpu_model": model,
                "ways": len(rows),
                "most_replicas": max((measured.replicas for measured in rows), default=0),
                "projected_from": projected_from,
                "error": log_error(Parameters(*values), rows) if values and rows else None,
            }
        )
    return {
        "ways": sum(map(len, measurements.values())),
        "iterations": sum(times.iterations for times in known.times.values()),
        "most_replicas": known.most_replicas,
        "fitted_at": iso(row.fitted_at),
        "gpu_models": models,
    }
