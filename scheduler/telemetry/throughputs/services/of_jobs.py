"""Why a job is on the GPU model it is on: its throughputs, what its policy aims at, and what it received."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from scheduler.core.model.lifecycle import AttemptState, HoldPhase
from scheduler.core.model.training import Profile
from scheduler.core.perf.profiles import first_known, stored_profile
from scheduler.core.perf.throughput import JobClass, Throughput
from scheduler.models.attempts import Attempt, JobProfile
from scheduler.models.jobs import Job
from scheduler.models.nodes import GpuModel
from scheduler.models.selectors.cluster import cluster_settings
from scheduler.models.selectors.jobs import view_of
from scheduler.models.selectors.virtual_clusters import view_targets
from scheduler.models.throughputs import ClassProfile
from scheduler.telemetry.throughputs.services.on_record import read_estimator
from scheduler.wiring.clock import database_now
from scheduler.wiring.plugins import ChosenPlugin
from tenants.times import iso


def job_throughputs(job: Job) -> dict[str, Any]:
    """Return the answer of the API, JSON-ready: one entry for each GPU model of the cluster."""
    job_class = job.job_class
    prices = dict(GpuModel.objects.order_by("name").values_list("name", "price_per_hour"))
    view = view_of(job)
    known = view_targets(view)
    throughputs = _throughputs(job, job_class, prices)
    attained, here = _attained(job)
    fastest = max((throughput.value for throughput in throughputs.values()), default=0.0)
    has_targets, counted = known.decided_at is not None, known.counted_seconds
    targets, received = known.shares.get(job.id, {}), known.received_seconds.get(job.id, {})
    in_all = sum(attained.values())
    policy = _policy(job)
    return {
        "job": job.id,
        "tenant": job_class.tenant,
        "application": job_class.application,
        "gpus": job.gpus,
        "view": view,
        "policy_plugin": policy.to_json(),
        "objective": known.objective,
        "decided_at": iso(known.decided_at),
        "models": [
            {
                "gpu_model": model,
                "price_per_hour": price,
                "accepted": not job.gpu_models or model in job.gpu_models,
                **_facts_of(throughputs.get(model), fastest),
                "target_share": targets.get(model, 0.0) if has_targets else None,
                "received_seconds": received.get(model, 0.0) if has_targets else None,
                "received_share": min(1.0, received.get(model, 0.0) / counted) if counted else None,
                "attained_gpu_seconds": round(attained.get(model, 0.0), 3),
                "attained_share": attained.get(model, 0.0) / in_all if in_all else None,
                "runs_now": model in here,
            }
            for model, price in prices.items()
        ],
        "profile": _profile(job),
    }


def _profile(job: Job) -> dict[str, Any] | None:
    """Return what rounds know of the job's profile: figure by figure its own, its user's or any user's."""
    own = stored_profile(JobProfile.objects.filter(job=job).values_list("profile", flat=True).first() or {})
    alike = ClassProfile.objects.filter(tenant=job.tenant_id, application=job.job_class.application)
    latest = alike.order_by("-updated_at", "-id").values_list("profile", flat=True)
    users = latest.filter(user=job.submitted_by_id).first() or {}
    profile = first_known([own, stored_profile(users), stored_profile(latest.first() or {})])
    if profile is None:
        return None
    return {**asdict(profile), "is_own": own != Profile()}


def _throughputs(job: Job, job_class: JobClass, prices: Mapping[str, float]) -> dict[str, Throughput]:
    declared = job.needs.throughput
    return read_estimator().throughputs(job_class, job.gpus, sorted({*prices, *declared}), declared)


def _facts_of(throughput: Throughput | None, fastest: float) -> dict[str, Any]:
    if throughput is None:
        return {"throughput": None, "relative": None, "source": None, "samples": 0, "confidence": 0.0}
    return {
        "throughput": throughput.value,
        "relative": throughput.value / fastest if fastest else None,
        "source": throughput.source.value,
        "samples": throughput.samples,
        "confidence": round(throughput.confidence, 3),
    }


def _attained(job: Job) -> tuple[dict[str, float], set[str]]:
    """Return the GPU-seconds that the job had by model, what runs now included, and where it runs now."""
    attained: dict[str, float] = {**job.service}
    here: set[str] = set()
    now = database_now()
    attempts = Attempt.objects.filter(job=job, allocation__phase=HoldPhase.HELD)
    for attempt in attempts.exclude(state=AttemptState.ENDED).select_related("allocation"):
        allocation = attempt.allocation
        if not allocation.gpu_count:
            continue
        seconds = max(0.0, (now - attempt.starting_at).total_seconds()) if attempt.starting_at else 0.0
        model = allocation.gpu_model
        attained[model] = attained.get(model, 0.0) + seconds * allocation.gpu_amount
        here.add(model)
    return attained, here


def _policy(job: Job) -> ChosenPlugin:
    if not job.guaranteed:
        return ChosenPlugin(**cluster_settings()["spare_policy_plugin"])
    return ChosenPlugin(job.virtual_cluster.policy, job.virtual_cluster.policy_parameters)
