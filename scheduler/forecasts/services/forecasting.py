"""Predict the starts of the waiting jobs after a round, keep them, and send the pages what changed."""

import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import Func, JSONField, TextField, Value

from scheduler.core.model.snapshot import JobId
from scheduler.core.sim.forecast import Forecast as CoreForecast
from scheduler.core.sim.forecast import Prediction, forecast, waiting_jobs
from scheduler.forecasts.services.facts import facts_ahead, known_run_times, serving_pools
from scheduler.jobs.representations import publish_explanations
from scheduler.models.forecasts import Forecast
from scheduler.models.jobs import Job
from scheduler.models.rounds import Leadership
from scheduler.rounds.circuit_breaker import with_cheap
from scheduler.wiring.watchdog import within_budget
from tenants.times import iso

#: Forecasts kept; the newest counts, the others are for later inspection.
_KEPT = 5
#: If there are more changes than this, a tenant's pages get them with their next refetch.
_PUSHED = 200
#: An instant that moved by less than this, or by this part of its distance, is not reported again.
_STEADY_SECONDS = 10.0
_STEADY_PART = 0.02

#: As stored: [position, starts_at, earliest, latest, why not].
Stored = list[Any]


def run_forecast() -> float:
    """Make the forecast of the newest round, if a job waits and there is none; return its seconds."""
    newest = Leadership.objects.values_list("number", flat=True).first() or 0
    if Forecast.objects.filter(round_number=newest).exists():
        return 0.0
    began = time.perf_counter()
    facts = facts_ahead(newest)
    if not waiting_jobs(facts):
        return 0.0
    run_times, pools = known_run_times(), serving_pools()
    made = within_budget(
        lambda timekeeper, overran: forecast(
            with_cheap(facts, overran), run_times, pools=pools, timekeeper=timekeeper
        )
    )
    took_seconds = time.perf_counter() - began
    _keep(made, {job.id: job.tenant for job in facts.jobs}, took_seconds)
    return took_seconds


@transaction.atomic
def _keep(made: CoreForecast, tenants: Mapping[JobId, str], took_seconds: float) -> None:
    before = Forecast.objects.order_by("-round_number").first()
    stored = before.predictions if before is not None else {}
    predictions = {
        str(job): steadied(stored_form(prediction), stored.get(str(job)), made.made_at)
        for job, prediction in made.predictions.items()
    }
    row, is_new = Forecast.objects.get_or_create(
        round_number=made.round_number,
        defaults={
            "made_at": datetime.fromtimestamp(made.made_at, UTC),
            "took_seconds": took_seconds,
            "assumption": made.assumption,
            "predictions": predictions,
        },
    )
    if not is_new:
        return
    kept = list(Forecast.objects.order_by("-round_number").values_list("round_number", flat=True)[:_KEPT])
    Forecast.objects.exclude(round_number__in=kept).delete()
    has_new_words = before is None or before.assumption != row.assumption
    by_tenant: dict[str, list[dict[str, object]]] = defaultdict(list)
    for job, prediction in predictions.items():
        objects = by_tenant[tenants[JobId(int(job))]]
        if (has_new_words or prediction != stored.get(job)) and len(objects) < _PUSHED:
            data = represented(row, prediction)
            objects.append({"kind": "prediction", "id": int(job), "version": row.round_number, "data": data})
    publish_explanations({tenant: objects for tenant, objects in by_tenant.items() if objects})


def stored_form(prediction: Prediction) -> Stored:
    """Return a prediction as it is stored."""
    return [
        prediction.position,
        prediction.starts_at,
        prediction.earliest,
        prediction.latest,
        prediction.why_not,
    ]


def steadied(new: Stored, stored: Stored | None, now: float) -> Stored:
    """Return the new prediction, or the one reported before when it differs only a little.

    So pages do not flicker, and get only what matters. Nothing that lies in the past is repeated.
    """
    if stored is None or new[0] != stored[0] or new[4] != stored[4]:
        return new
    for later, earlier in zip(new[1:4], stored[1:4], strict=True):
        if (later is None) != (earlier is None):
            return new
        if later is not None:
            little = max(_STEADY_SECONDS, _STEADY_PART * (later - now))
            if abs(later - earlier) > little or earlier < now:
                return new
    return stored


def prediction_of(job: Job) -> dict[str, Any]:
    """Return what is predicted for a job: {"prediction": ... or null, "no_prediction": why there is none}."""
    if job.state != "queued":
        return _none(f"It does not wait: its state is {job.state}.")
    newest = (
        Forecast.objects.order_by("-round_number")
        # One job's of thousands; Django's own transform takes "12" for a place in a list.
        .annotate(stored=_stored_prediction(job.id))
        .defer("predictions")
        .first()
    )
    if newest is None or newest.stored is None:
        return _none("No forecast has looked at it yet; ask again in a few seconds.")
    return represented(newest, newest.stored)


def _stored_prediction(job_id: int) -> Func:
    key = Value(str(job_id), output_field=TextField())
    return Func("predictions", key, function="jsonb_extract_path", output_field=JSONField())


def represented(row: Forecast, stored: Stored) -> dict[str, Any]:
    """Return a stored prediction as the API and the live stream show it."""
    position, starts_at, earliest, latest, why_not = stored
    if starts_at is None:
        return _none(why_not)
    prediction = {
        "starts_at": instant(starts_at),
        "earliest": instant(earliest),
        "latest": instant(latest),
        "assumption": row.assumption,
        "position": position,
        "made_at": iso(row.made_at),
        "round": row.round_number,
    }
    return {"prediction": prediction, "no_prediction": ""}


def instant(at: float | None) -> str | None:
    """Return Unix seconds as the API writes instants."""
    return None if at is None else iso(datetime.fromtimestamp(at, UTC))


def _none(why: str) -> dict[str, Any]:
    return {"prediction": None, "no_prediction": why}
