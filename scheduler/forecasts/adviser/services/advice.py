"""Advice on which cells each virtual cluster should get: asked for, worked out from the jobs of the last
days, shown, and in the end applied."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.db import transaction

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import to_document
from scheduler.core.cells.errors import Problem
from scheduler.core.round.guarantees.reliance import owned
from scheduler.core.sim.advice import AdviceError, Demands, Effort, advise, minimum_of
from scheduler.core.sim.recommending import DAY_SECONDS, recommendation
from scheduler.core.sim.run_times import RunTimes
from scheduler.core.sim.workload import Arrival
from scheduler.forecasts.adviser.services.past import PastJob, read_past
from scheduler.forecasts.services import turns
from scheduler.forecasts.services.facts import known_run_times
from scheduler.models.adviser import Advice, WorkState
from scheduler.rounds.snapshot import read_snapshot
from scheduler.virtual_clusters.cells.selectors import CellsInForce, cells_in_force
from scheduler.virtual_clusters.cells.services import cells_apply, cells_proposal, field_errors, summary_of
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_advice
from tenants.after_commit import after_commit
from tenants.errors import Conflict, Invalid, NotFound
from tenants.models import VirtualCluster
from tenants.selectors import Viewer
from tenants.times import iso

DAYS = 7.0
#: A question without an answer after this time will never have one.
PATIENCE = timedelta(minutes=10)
#: Questions kept; older ones make room.
KEPT = 50
#: The newest jobs of all virtual clusters that are read.
MOST_JOBS = 30_000
#: Seldom more than half a minute's work.
EFFORT = Effort(jobs_of_each=5_000, simulated_jobs=120_000)
TOO_LONG = "It took too long to work out; ask for fewer days."


def demands_of(question: Mapping[str, Any]) -> Demands:
    """Return the operator's demands as the core takes them."""
    return Demands(
        budget_gpus=question["budget_gpus"],
        minimum=question["minimum"],
        keep=tuple(question["keep"]),
        price_per_gpu_hour=question["price_per_gpu_hour"],
    )


def base_of(now: CellsInForce) -> Layout:
    """Return what the advice begins with: the cells in force, or else today's hardware as cells."""
    return now.layout if now.layout.chains else compiled(cells_proposal())


def advice_ask(*, viewer: Viewer, question: Mapping[str, Any]) -> Advice:
    """Keep a question and have it worked out soon. Raises Invalid for names that do not exist."""
    now = cells_in_force()
    names = list(VirtualCluster.objects.order_by("name").values_list("name", flat=True))
    try:
        minimum_of(demands_of(question), base_of(now), names)
    except AdviceError as error:
        raise Invalid(summary_of(error.problems), field_errors(error.problems)) from None
    with transaction.atomic():
        row = Advice.objects.create(
            asked_by=viewer.user,
            asked_at=database_now(),
            question=dict(question),
            based_on_version=now.version,
        )
        kept = Advice.objects.order_by("-number").values_list("number", flat=True)[:KEPT]
        Advice.objects.exclude(number__in=list(kept)).delete()
        after_commit(request_advice, str(row.id))
    return row


def advice_get(advice_id: UUID) -> Advice:
    """Return a question; raises NotFound."""
    row = Advice.objects.select_related("asked_by").filter(id=advice_id).first()
    if row is None:
        raise NotFound("There is no such advice. It may have been deleted to make room for newer advice.")
    return row


def is_given_up(row: Advice) -> bool:
    """Whether the worker that had it must have died."""
    unanswered = row.state in (WorkState.WAITING, WorkState.RUNNING)
    return unanswered and row.asked_at < database_now() - PATIENCE


@transaction.atomic
def advice_apply(*, viewer: Viewer, advice_id: UUID) -> CellsInForce:
    """Put the advised cells in force. Raises Conflict when there are none yet, or the cells changed since."""
    row = advice_get(advice_id)
    if row.state != WorkState.DONE:
        raise Conflict(f"This advice is {row.state}; there is nothing to apply.")
    done = cells_apply(document=row.specification, version=row.based_on_version, actor=viewer.actor)
    Advice.objects.filter(number=row.number).update(applied_at=database_now())
    return done


def work_out(advice_id: str) -> None:
    """Answer a question that waits; one that is gone or has been answered is left alone."""
    waiting = Advice.objects.filter(id=UUID(advice_id), state=WorkState.WAITING)
    if not waiting.update(state=WorkState.RUNNING):
        return
    row = Advice.objects.get(id=UUID(advice_id))
    in_force = cells_in_force()
    # The facts by what virtual clusters own, whatever they lend and borrow at the moment.
    now = owned(read_snapshot(0))
    window = row.question["days"] * DAY_SECONDS
    since = now.now - window
    demands = demands_of(row.question)
    past = read_past(since=since, until=now.now, most=MOST_JOBS)
    facts = replace(now, now=since, jobs=(), running=(), memory={}, cells=None)
    history = _history(past, since, now.now, known_run_times())
    try:
        found = advise(
            facts, base_of(in_force).specification, history, demands, window_seconds=window, effort=EFFORT
        )
    except AdviceError as error:
        give_up(advice_id, f"{error}.", error.problems)
        return
    Advice.objects.filter(id=row.id).update(
        state=WorkState.DONE,
        made_at=database_now(),
        answer={
            "jobs": found.jobs,
            **msgspec.to_builtins(recommendation(found, demands.price_per_gpu_hour)),
        },
        specification=to_document(found.specification),
        based_on_version=in_force.version,
    )


def seconds_waited(advice_id: str) -> float | None:
    """Return for how long someone has waited for it; None: nothing waits for it any more."""
    return turns.seconds_waited(Advice.objects.filter(id=UUID(advice_id)), PATIENCE)


def give_up(advice_id: str, problem: str, problems: Sequence[Problem] = ()) -> None:
    """Record that there is no advice, and why."""
    fields = [{"field": one.field, "problem": one.problem, "expected": one.hint} for one in problems]
    Advice.objects.filter(id=UUID(advice_id)).update(
        state=WorkState.FAILED, problem=problem, fields=fields, made_at=database_now()
    )


def _history(past: Sequence[PastJob], since: float, until: float, run_times: RunTimes) -> Iterable[Arrival]:
    """Return the jobs as they came; those that were cancelled before they ever ran are left out."""
    for each in past:
        if each.ended_at is None or each.stays:
            began_at = max(since, each.job.submitted_at)
            yield Arrival(job=each.job_at(since), truth=each.truth(began_at, until, run_times))


def advice_represented(rows: Iterable[Advice], *, whole: bool) -> list[dict[str, Any]]:
    """Return questions and answers as the API shows them; the specification only with `whole`."""
    return [_represented(row, whole) for row in rows]


def _represented(row: Advice, whole: bool) -> dict[str, Any]:
    given_up = is_given_up(row)
    answer = row.answer or {}
    totals = {name: answer[name] for name in ("today", "advised")} if answer else None
    shown = {
        "id": str(row.id),
        "state": WorkState.FAILED if given_up else row.state,
        "problem": "No worker computed it; ask again." if given_up else row.problem,
        "fields": row.fields,
        "asked_at": iso(row.asked_at),
        "asked_by": row.asked_by.username,
        "days": row.question["days"],
        "jobs": answer.get("jobs", 0),
        "made_at": iso(row.made_at),
        "assumption": answer.get("assumption", ""),
        "rows": answer.get("rows", []),
        "totals": totals,
        "curves": answer.get("curves", {}),
        "based_on_version": row.based_on_version,
        "applied_at": iso(row.applied_at),
    }
    return {**shown, "specification": row.specification} if whole else shown
