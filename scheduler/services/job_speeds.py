"""Why a job is on the GPU model it is on: its speeds, what its policy aims at, and what it received."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from scheduler.clock import database_now
from scheduler.core.lifecycle import AttemptState, HoldPhase
from scheduler.core.perf.speed import Kind, Speed, kind_of
from scheduler.core.plugin_text import format_plugin
from scheduler.models import Attempt, GpuModel, Job, PolicyMemory
from scheduler.represent import iso, view_of
from scheduler.services.cluster_settings import cluster_settings
from scheduler.services.known_speeds import read_knowledge


def job_speeds(job: Job) -> dict[str, Any]:
    """Return the answer of the API, JSON-ready: one entry for each GPU model of the cluster."""
    kind = kind_of(job.tenant.name, job.shape.get("application") or "", job.name)
    prices = dict(GpuModel.objects.order_by("name").values_list("name", "price_per_hour"))
    view = view_of(job)
    memory = PolicyMemory.objects.filter(view=view).values_list("memory", flat=True).first() or {}
    speeds = _speeds(job, kind, prices)
    attained, here = _attained(job)
    fastest = max((speed.value for speed in speeds.values()), default=0.0)
    targets, received = _targets(memory, job), memory.get("received", {}).get(str(job.id), {})
    counts = "received" in memory and "reset_at" in memory
    elapsed = max(0.0, memory["at"] - memory["reset_at"]) if counts and "at" in memory else 0.0
    in_all = sum(attained.values())
    return {
        "job": job.id,
        "tenant": kind.tenant,
        "application": kind.application,
        "gpus": job.gpus,
        "view": view,
        "policy": _policy(job),
        "objective": memory.get("objective"),
        "reset_at": _instant(memory.get("reset_at")),
        "decided_at": _instant(memory.get("reset_at")) if "targets" in memory else None,
        "models": [
            {
                "gpu_model": model,
                "price_per_hour": price,
                "accepted": not job.gpu_models or model in job.gpu_models,
                **_told(speeds.get(model), fastest),
                "target_share": None if targets is None else targets.get(model, 0.0),
                "received_seconds": received.get(model, 0.0) if counts else None,
                "received_share": min(1.0, received.get(model, 0.0) / elapsed) if elapsed else None,
                "attained_gpu_seconds": round(attained.get(model, 0.0), 3),
                "attained_share": attained.get(model, 0.0) / in_all if in_all else None,
                "runs_now": model in here,
            }
            for model, price in prices.items()
        ],
    }


def _speeds(job: Job, kind: Kind, prices: Mapping[str, float]) -> dict[str, Speed]:
    declared = job.shape.get("throughput") or {}
    return read_knowledge().speeds(kind, job.gpus, sorted({*prices, *declared}), declared)


def _told(speed: Speed | None, fastest: float) -> dict[str, Any]:
    if speed is None:
        return {"speed": None, "relative": None, "source": None, "samples": 0, "confidence": 0.0}
    return {
        "speed": speed.value,
        "relative": speed.value / fastest if fastest else None,
        "source": speed.source.value,
        "samples": speed.samples,
        "confidence": round(speed.confidence, 3),
    }


def _targets(memory: Mapping[str, Any], job: Job) -> Mapping[str, float] | None:
    """Return the job's share of its time by model, alone or sharing; None: the policy has no targets."""
    if "targets" not in memory:
        return None
    shares: dict[str, float] = {}
    # Of two jobs that are to share GPUs the key is "3+5".
    for unit, parts in (*memory["targets"].items(), *memory.get("shared", {}).items()):
        if str(job.id) in unit.split("+"):
            for model, share in parts.items():
                shares[model] = shares.get(model, 0.0) + share
    return shares


def _attained(job: Job) -> tuple[dict[str, float], set[str]]:
    """Return the GPU-seconds that the job had by model, what runs now included, and where it runs now."""
    attained: dict[str, float] = {**job.service}
    here: set[str] = set()
    now = database_now()
    attempts = Attempt.objects.filter(job=job, allocation__phase=HoldPhase.HELD)
    for attempt in attempts.exclude(state=AttemptState.ENDED).select_related("allocation"):
        allocation = attempt.allocation
        seconds = max(0.0, (now - allocation.held_at).total_seconds()) if allocation.held_at else 0.0
        gpus, model = sum(map(len, allocation.replicas)), allocation.gpu_model
        attained[model] = attained.get(model, 0.0) + seconds * gpus
        here.add(model)
    return attained, here


def _policy(job: Job) -> str:
    if not job.guaranteed:
        return cluster_settings()["spare_policy"]
    vc = job.virtual_cluster
    parameters = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vc.policy_parameters.items()
    }
    return format_plugin(vc.policy, parameters)


def _instant(at: float | None) -> str | None:
    return iso(datetime.fromtimestamp(at, UTC)) if at is not None else None
