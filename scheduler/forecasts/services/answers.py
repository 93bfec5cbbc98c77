"""Answer what-if questions: two forecasts of the present facts, and the part that the asker may see."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import Max

from scheduler.core.model.snapshot import Job as CoreJob
from scheduler.core.model.snapshot import JobId, Snapshot
from scheduler.core.sim.forecast import Prediction
from scheduler.core.sim.what_if import (
    Change,
    ChangeError,
    Comparison,
    Effect,
    GuaranteeChange,
    JobChange,
    NewJob,
    NodeChange,
    what_if,
)
from scheduler.forecasts.services import turns
from scheduler.forecasts.services.facts import facts_ahead, known_run_times, serving_pools
from scheduler.forecasts.services.forecasting import instant
from scheduler.forecasts.services.questions import PATIENCE, expires_at, is_given_up
from scheduler.jobspec import parse
from scheduler.models.forecasts import WhatIf, WhatIfState
from scheduler.models.jobs import Job
from scheduler.models.rounds import Leadership
from scheduler.rounds.circuit_breaker import with_cheap
from scheduler.rounds.submitted import submitted_now
from scheduler.wiring.watchdog import within_budget
from tenants.selectors import Viewer
from tenants.times import iso

#: Jobs of one tenant that are named in each list; all are counted.
NAMED = 100

TOO_LONG = "The prediction took too long; the queue is too long."


def answer(question_id: str) -> None:
    """Work out the answer of a question that waits; one that is gone or has been answered is left alone."""
    waiting = WhatIf.objects.filter(id=question_id, state=WhatIfState.WAITING)
    if not waiting.update(state=WhatIfState.RUNNING):
        return
    row = WhatIf.objects.select_related("asked_by").get(id=question_id)
    newest = Leadership.objects.values_list("number", flat=True).first() or 0
    facts = facts_ahead(newest)
    try:
        changes = _changes(row.question, row.asked_by.username, facts)
        run_times, pools = known_run_times(), serving_pools()
        compared = within_budget(
            lambda timekeeper, overran: what_if(
                with_cheap(facts, overran), changes, run_times, pools=pools, timekeeper=timekeeper
            )
        )
    except ChangeError as error:
        wrong = {"field": error.field, "problem": error.problem, "expected": error.expected}
        give_up(question_id, f"{error}.", [wrong])
        return
    WhatIf.objects.filter(id=row.id).update(state=WhatIfState.DONE, answer=_stored(compared, row, facts))


def seconds_waited(question_id: str) -> float | None:
    """Return for how long someone has waited for it; None: nothing waits for it any more."""
    return turns.seconds_waited(WhatIf.objects.filter(id=question_id), PATIENCE)


def give_up(question_id: str, problem: str, fields: Sequence[Mapping[str, str]] = ()) -> None:
    """Record that a question has no answer, and why."""
    WhatIf.objects.filter(id=question_id).update(
        state=WhatIfState.FAILED, problem=problem, fields=list(fields)
    )


def _changes(question: Mapping[str, Any], user: str, facts: Snapshot) -> list[Change]:
    changes: list[Change] = []
    cluster = question.get("cluster") or {}
    changes += [NodeChange(node=name, schedulable=False) for name in cluster.get("drain", ())]
    changes += [NodeChange(node=name, schedulable=True) for name in cluster.get("add_back", ())]
    changes += [GuaranteeChange(**one) for one in cluster.get("enlarge", ())]
    if "job" in question:
        changed = dict(question["changes"])
        if "gpu_models" in changed:
            changed["gpu_models"] = tuple(changed["gpu_models"])
        changes.append(JobChange(job=JobId(question["job"]), **changed))
    if "spec" in question:
        spec = parse(question["spec"])
        job = replace(spec.core_job(tenant=question["tenant"]), user=user)
        changes.append(NewJob(job=_with_id(submitted_now(job, spec, facts))))
    return changes


def _with_id(job: CoreJob) -> CoreJob:
    # The id it would get, or a later one: at equal priority and time, ids decide who comes first.
    newest = Job.objects.aggregate(newest=Max("id"))["newest"] or 0
    return replace(job, id=JobId(newest + 1))


def _stored(compared: Comparison, row: WhatIf, facts: Snapshot) -> dict[str, Any]:
    """Return the answer as it is kept: each effect with its tenant, so that readers see only their own."""
    jobs = {job.id: job for job in facts.jobs}
    names = dict(Job.objects.filter(id__in=_mentioned(compared)).values_list("id", "name"))

    def effect(one: Effect) -> dict[str, Any]:
        known = jobs.get(one.job)
        return {
            "job": one.job if known else None,
            "name": names.get(one.job) or (row.question.get("spec") or {}).get("name", ""),
            "tenant": known.tenant if known else row.question.get("tenant", ""),
            "runs_now": known is not None and one.before is None,
            "before": _stored_form(one.before),
            "after": _stored_form(one.after),
        }

    def shortened(effects: Sequence[Effect]) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        named = []
        for one in effects:
            tenant = jobs[one.job].tenant
            counts[tenant] += 1
            if counts[tenant] <= NAMED:
                named.append(effect(one))
        return {"named": named, "counts": counts}

    return {
        "made_at": instant(compared.after.made_at),
        "round": compared.after.round_number,
        "assumption": compared.after.assumption,
        "subjects": [effect(one) for one in compared.subjects],
        "later": shortened(compared.later),
        "sooner": shortened(compared.sooner),
    }


def _mentioned(compared: Comparison) -> list[int]:
    return [one.job for one in (*compared.subjects, *compared.later, *compared.sooner)]


def _stored_form(prediction: Prediction | None) -> dict[str, Any] | None:
    if prediction is None:
        return None
    return {
        "starts_at": instant(prediction.starts_at),
        "earliest": instant(prediction.earliest),
        "latest": instant(prediction.latest),
        "position": prediction.position,
        "why_not": prediction.why_not,
    }


def represented(row: WhatIf, viewer: Viewer) -> dict[str, Any]:
    """Return a question and its answer as the viewer may see them: of others' jobs only how many."""
    given_up = is_given_up(row)
    stored = row.answer or {}
    mine = None if viewer.is_operator else set(viewer.tenant_names)
    lists = {name: _as_seen_by(mine, stored.get(name)) for name in ("later", "sooner")}
    return {
        "id": str(row.id),
        "state": WhatIfState.FAILED if given_up else row.state,
        "problem": "No worker answered it; ask again." if given_up else row.problem,
        "fields": row.fields,
        "asked_at": iso(row.asked_at),
        "expires_at": iso(expires_at(row)),
        "made_at": stored.get("made_at"),
        "round": stored.get("round"),
        "assumption": stored.get("assumption", ""),
        "subjects": [_without_tenant(one) for one in stored.get("subjects", ())],
        "later": lists["later"][0],
        "sooner": lists["sooner"][0],
        "later_count": lists["later"][1],
        "sooner_count": lists["sooner"][1],
        "others_later": lists["later"][2],
        "others_sooner": lists["sooner"][2],
    }


def _as_seen_by(
    mine: set[str] | None, effects: Mapping[str, Any] | None
) -> tuple[list[dict[str, object]], int, int]:
    """Return the effects that may be seen, how many there are of these, and how many of others."""
    if effects is None:
        return [], 0, 0
    counts = effects["counts"]
    seen = [one for one in effects["named"] if mine is None or one["tenant"] in mine]
    own = sum(count for tenant, count in counts.items() if mine is None or tenant in mine)
    return [_without_tenant(one) for one in seen], own, sum(counts.values()) - own


def _without_tenant(effect: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in effect.items() if name != "tenant"}
