"""Run times of jobs by GPU model: the run time is stated once, speeds by model.

The run time is the one measured from the job's own steps (`pace`), else the declared estimate, else its time
limit, else the default limit of its view. It holds on one model, the reference; on another it is scaled by
the job's throughput. The assumptions about unknown facts are:

- The reference is the given model, where the job states its speed there, else the fastest for which it does.
  A measured run time always holds on the fastest.
- A job that states no speed is equally fast on every model. A job that states some is on every other model as
  slow as on the slowest of these: an unknown model is neither preferred nor ruled out.
- A throughput of 0 says that the job does not run there (as in Gavel's table). A negative or non-finite
  throughput says nothing.
- Work done counts by the speed of the model it was done on.
- The speed of an elastic job on other numbers of GPUs than its own gang follows from its goodput
  (consolidated). It is in proportion to the GPUs where nothing was measured on that model, where its world is
  fixed, and where its own steps give its run time, which is in GPU-seconds of the sizes that it had. The work
  of the present attempt counts likewise. The sizes of earlier attempts are not kept, so their work counts by
  GPU-seconds.
- A job that outlives its run time is expected to end within a minute, then within 2, 4, 8, ... minutes. Each
  such instant holds until it is reached, so that nothing changes in between.
- No attempt lasts longer than the job's time limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scheduler.core.building_blocks.elastic.speedups import relative_goodput
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS, executed_seconds
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import FIXED_WORLD, Job, Running

#: Nothing is expected to take longer: about three hundred years.
LONGEST_SECONDS = 1e10
#: The first time within which a job that outlives its run time is expected to end.
GRACE_SECONDS = 60.0


def relative_speeds(job: Job, models: Sequence[str], reference: str = "") -> dict[str, float]:
    """Return the job's speed on each model relative to the one its run time holds on; 0: it does not run."""
    return relative_rates(job.throughput, models, reference)


def relative_rates(
    throughput: Mapping[str, float], models: Sequence[str], reference: str = ""
) -> dict[str, float]:
    """Return the same as `relative_speeds` for a throughput."""
    stated = {model: rate for model, rate in throughput.items() if math.isfinite(rate) and rate >= 0}
    running = [rate for rate in stated.values() if rate > 0]
    if not running:
        return {model: 0.0 if model in stated else 1.0 for model in models}
    base, slowest = stated.get(reference) or max(running), min(running)
    return {model: stated.get(model, slowest) / base for model in models}


def runs_nowhere(job: Job) -> Reason:
    """Return why a job waits that runs on none of the models that it may have."""
    return Reason(
        code="no_model_runs_it",
        tier=Tier.CAPACITY,
        message="By its throughput, the job does not run on any GPU model here that it accepts.",
        needed=job.gpus,
        available=0,
        hint="Give `throughput` a speed above 0 for a GPU model of this cluster.",
    )


def start_seconds(
    job: Job, models: Sequence[str], default_limit_seconds: float, reference: str = ""
) -> dict[str, float]:
    """Return how long the job would run on each model that it can run on, if it started now."""
    speeds = relative_speeds(job, [*models, *job.attained_service], reference)
    work = _work_left(job, job.attained_service, speeds, default_limit_seconds, reference)
    limit = LONGEST_SECONDS if job.time_limit_seconds is None else job.time_limit_seconds
    return {
        model: min(work / speeds[model], limit, LONGEST_SECONDS)
        for model in models
        if speeds[model] > 0 and (not job.gpu_models or model in job.gpu_models)
    }


def size_speed(job: Job, gpu_model: str, gpus: int) -> float:
    """Return the speed of a job on `gpus` GPUs of a model relative to its own gang."""
    follows = job.goodput is not None and job.elastic is not None and job.elastic_mode != FIXED_WORLD
    if follows and not job.measured and gpus != job.gpus:
        known = relative_goodput(job, gpu_model, gpus)
        if known is not None:
            return known
    return gpus / job.gpus if job.gpus else 1.0


def left_seconds(
    job: Job, running: Running, now: float, default_limit_seconds: float, reference: str = ""
) -> float:
    """Return the seconds that a running job is expected to need where it is; never below 0."""
    model, gpus = running.gpu_model, sum(map(len, running.replicas))
    begun = running.since_of(job.id) if running.phase == "held" else now
    service = _service(job, running, now)
    speeds = relative_speeds(job, [model, *service], reference)
    # It runs there, whatever its throughput says.
    speed = (speeds[model] or 1.0) * size_speed(job, model, gpus)
    left = min(_work_left(job, service, speeds, default_limit_seconds, reference) / speed, LONGEST_SECONDS)
    if job.time_limit_seconds is None:
        return left
    return max(0.0, min(left, begun + job.time_limit_seconds - now))


def work_left_seconds(
    job: Job, running: Running | None, now: float, default_limit_seconds: float, reference: str = ""
) -> float:
    """Return the work left, in seconds of the job's own gang on the reference model; more than 0."""
    service = _service(job, running, now)
    speeds = relative_speeds(job, [*service], reference)
    return min(_work_left(job, service, speeds, default_limit_seconds, reference), LONGEST_SECONDS)


def work_left_seconds_on(
    gpu_model: str, job: Job, running: Running | None, now: float, default_limit_seconds: float
) -> float:
    """Return the work left, in seconds of the job's own gang on that model; more than 0."""
    left = work_left_seconds(job, running, now, default_limit_seconds)
    # A job that was placed on a model runs there, whatever its throughput says.
    speed = relative_speeds(job, [gpu_model])[gpu_model] or 1.0
    return min(left / speed, LONGEST_SECONDS)


def remaining_seconds(job: Job, running: Running | None, now: float, default_limit_seconds: float) -> float:
    """Return how long a job is expected to run on, for policies that treat all GPU models alike.

    A second on any model counts as one, as in declared times; only times measured from steps distinguish
    models. Never below 0: a job that outlives its run time counts as about to end.
    """
    if job.measured:
        service = _service(job, running, now)
        done = _done_seconds(job, service, relative_speeds(job, [*service]))
    else:
        done = executed_seconds(job, running, now)
    return max(0.0, whole_seconds(job, default_limit_seconds) - done)


def seconds_to_run(job: Job, running: Running | None, view: View) -> float:
    """Return how long a job is expected to run on, where it runs or else where it would be fastest.

    For policies that rank jobs before GPU models are assigned: a waiting job is assumed to get the view's
    model on which it is fastest, of those that it accepts. A job that states no throughput is as fast on all.
    Never below 0: a job that outlives its run time counts as about to end.
    """
    default = view.default_time_limit_seconds
    if not job.throughput:
        return remaining_seconds(job, running, view.now, default)
    service = _service(job, running, view.now)
    models = [model for model in view.capacity.models if not job.gpu_models or model in job.gpu_models]
    speeds = relative_speeds(job, [*service, *models])
    left = max(0.0, whole_seconds(job, default) - _done_seconds(job, service, speeds))
    fastest = max([speeds[model] for model in models], default=1.0)
    speed = fastest if running is None else relative_speeds(job, [running.gpu_model])[running.gpu_model]
    # A job that was placed on a model runs there, whatever its throughput says.
    return min(left / (speed or 1.0), LONGEST_SECONDS)


def terms_of_ranks(policy: object, view: View) -> object:
    """Return what else the rank of a waiting job depends on if a policy ranks by `seconds_to_run`."""
    return policy, view.default_time_limit_seconds, view.capacity.models


def _service(job: Job, running: Running | None, now: float) -> dict[str, float]:
    """Return the GPU-seconds that the job received by model; those of the running attempt as its own gang
    would have needed for the same work.
    """
    service = {**job.attained_service}
    if running is not None and running.phase == "held":
        speed = size_speed(job, running.gpu_model, sum(map(len, running.replicas)))
        had = max(0.0, now - running.since_of(job.id)) * speed * _size(job)
        service[running.gpu_model] = service.get(running.gpu_model, 0.0) + had
    return service


def _work_left(
    job: Job,
    service: Mapping[str, float],
    speeds: Mapping[str, float],
    default_limit_seconds: float,
    reference: str,
) -> float:
    """Return the seconds of work left, as seconds of the whole gang on the reference model."""
    whole = whole_seconds(job, default_limit_seconds)
    if job.measured and reference:
        # A measured time holds on the job's fastest model.
        whole *= max(relative_speeds(job, [*job.throughput], reference).values(), default=1.0) or 1.0
    left = whole - _done_seconds(job, service, speeds)
    if left > INSTANT_SECONDS:
        return left
    beyond = max(0.0, -left)
    _, doublings = math.frexp(beyond / GRACE_SECONDS)
    return GRACE_SECONDS * 2.0 ** max(0, doublings) - beyond


def whole_seconds(job: Job, default_limit_seconds: float) -> float:
    """Return the whole run time, on the model that it holds on."""
    if job.estimate_seconds is not None:
        return job.estimate_seconds
    return default_limit_seconds if job.time_limit_seconds is None else job.time_limit_seconds


def _done_seconds(job: Job, service: Mapping[str, float], speeds: Mapping[str, float]) -> float:
    """Return the work done, as seconds of the whole gang where the speed is 1."""
    return sum([seconds * speeds[model] for model, seconds in service.items()]) / _size(job)


def _size(job: Job) -> float:
    """Return the GPU-seconds in a second of the gang; a job without GPUs counts seconds."""
    return amount_of(job) or 1.0
