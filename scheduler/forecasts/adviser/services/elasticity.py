"""What elasticity saved: the jobs of the last days simulated twice, elastic as declared and each at its own
size."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.db import transaction

from scheduler.core.model.snapshot import GpuId, NodeId, Snapshot
from scheduler.core.round.guarantees.reliance import owned
from scheduler.core.sim.elasticity import RESTART_SECONDS, GoodputSpeeds, TooLongError, savings
from scheduler.core.sim.recommending import DAY_SECONDS
from scheduler.core.sim.run_times import Assumption, RunTimes
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.workload import Arrival, Truth
from scheduler.forecasts.adviser.services.past import PastJob, read_past
from scheduler.forecasts.services import turns
from scheduler.forecasts.services.facts import known_run_times
from scheduler.models.adviser import ElasticitySavings, WorkState
from scheduler.models.attempts import JobScaling
from scheduler.rounds.snapshot import read_snapshot
from scheduler.rounds.training import goodput_of
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_elasticity_savings
from tenants.after_commit import after_commit
from tenants.selectors import Viewer
from tenants.times import iso

#: A question without an answer after this time will never have one.
PATIENCE = timedelta(minutes=10)
#: Questions kept; older ones make room.
KEPT = 50
#: The newest jobs of the days asked for; older ones are left out.
MOST_JOBS = 2_000
#: Both simulations together. The task's own limit may strike inside a policy, whose failures cost its round
#: only.
MOST_SECONDS = 100.0
TOO_LONG = "It took too long to simulate; ask for fewer days."


def elasticity_savings_ask(*, viewer: Viewer, days: float) -> ElasticitySavings:
    """Keep a question and have it worked out soon."""
    with transaction.atomic():
        row = ElasticitySavings.objects.create(asked_by=viewer.user, asked_at=database_now(), days=days)
        kept = ElasticitySavings.objects.order_by("-number").values_list("number", flat=True)[:KEPT]
        ElasticitySavings.objects.exclude(number__in=list(kept)).delete()
        after_commit(request_elasticity_savings, str(row.id))
    return row


def is_given_up(row: ElasticitySavings) -> bool:
    """Whether the worker that had it must have died."""
    unanswered = row.state in (WorkState.WAITING, WorkState.RUNNING)
    return unanswered and row.asked_at < database_now() - PATIENCE


def work_out(question: str) -> None:
    """Answer a question that waits; one that is gone or has been answered is left alone."""
    waiting = ElasticitySavings.objects.filter(id=UUID(question), state=WorkState.WAITING)
    if not waiting.update(state=WorkState.RUNNING):
        return
    row = ElasticitySavings.objects.get(id=UUID(question))
    deadline = time.monotonic() + MOST_SECONDS
    # The facts by what virtual clusters own, whatever they lend and borrow at the moment.
    now = owned(read_snapshot(0))
    since = now.now - row.days * DAY_SECONDS
    read = read_past(since=since, until=now.now, most=MOST_JOBS, with_opportunistic=True)
    past = _with_goodput([each for each in read if each.job.submitted_at >= since])
    speeds = GoodputSpeeds(gpus_per_node=max([len(node.gpus) for node in now.nodes], default=1))
    tenants = tuple([replace(tenant, budget_spent=False) for tenant in now.tenants])
    facts = replace(now, now=since, jobs=(), running=(), memory={}, tenants=tenants)
    arrivals = list(_arrivals(past, now, speeds, known_run_times()))
    try:
        found = savings(facts, arrivals, speeds, is_over=lambda: time.monotonic() > deadline)
    except TooLongError:
        give_up(question, TOO_LONG)
        return
    elastic = [arrival.job for arrival in arrivals if arrival.job.elastic is not None]
    answer = {
        **msgspec.to_builtins(found),
        "measured_jobs": sum([job.goodput is not None for job in elastic]),
        "is_cut": len(past) == MOST_JOBS,
    }
    ElasticitySavings.objects.filter(id=row.id).update(
        state=WorkState.DONE, made_at=database_now(), answer=answer
    )


def seconds_waited(question: str) -> float | None:
    """Return for how long someone has waited for it; None: nothing waits for it any more."""
    return turns.seconds_waited(ElasticitySavings.objects.filter(id=UUID(question)), PATIENCE)


def give_up(question: str, problem: str) -> None:
    """Record that there is no answer, and why."""
    ElasticitySavings.objects.filter(id=UUID(question)).update(
        state=WorkState.FAILED, problem=problem, made_at=database_now()
    )


def _with_goodput(past: Sequence[PastJob]) -> list[PastJob]:
    """Return the jobs with what is known today of how the elastic ones scale."""
    elastic = [each.job.id for each in past if each.job.elastic is not None]
    known = JobScaling.objects.filter(job_id__in=elastic).exclude(parameters={}).in_bulk()
    return [
        replace(each, job=replace(each.job, goodput=goodput_of(known[each.job.id], each.job.throughput)))
        if each.job.id in known
        else each
        for each in past
    ]


def _arrivals(
    past: Iterable[PastJob], now: Snapshot, speeds: Speeds, run_times: RunTimes
) -> Iterable[Arrival]:
    """Yield the jobs as they came; those that were cancelled before they ever ran are left out."""
    node_of = {gpu.id: node.id for node in now.nodes for gpu in node.gpus}
    for each in past:
        if each.ended_at is None or each.stays:
            work = work_seconds(each, now.now, speeds, node_of, run_times)
            yield Arrival(job=each.job, truth=Truth(work_seconds=work))


def work_seconds(
    past: PastJob, until: float, speeds: Speeds, node_of: Mapping[GpuId, NodeId], run_times: RunTimes
) -> float:
    """Return how long a job would have run at its own size: its stays count by its speed at each size. One
    that has not ended is assumed to run as long as is usual, or as long as it has already.
    """
    done = 0.0
    for stay in past.stays:
        gpus = [gpu for replica in stay.replicas for gpu in replica]
        # GPUs that are gone by now are assumed to have been on a node that is still known, or on one.
        nodes = len({node_of[gpu] for gpu in gpus if gpu in node_of})
        rate = speeds.alone(past.job, stay.gpu_model, len(gpus), max(1, nodes))
        done += stay.seconds(past.job.submitted_at, until) * rate
    if past.ended_at is not None:
        return done
    usual = run_times.left_seconds(past.job, None, until, past.limit_seconds, Assumption.EXPECTED)
    return max(usual, done)


def elasticity_savings_represented(rows: Iterable[ElasticitySavings]) -> list[dict[str, Any]]:
    """Return questions and answers as the API shows them."""
    return [_represented(row) for row in rows]


def _represented(row: ElasticitySavings) -> dict[str, Any]:
    given_up = is_given_up(row)
    answer = row.answer or {}
    return {
        "id": str(row.id),
        "state": WorkState.FAILED if given_up else row.state,
        "problem": "No worker computed it; ask again." if given_up else row.problem,
        "asked_at": iso(row.asked_at),
        "asked_by": row.asked_by.username,
        "days": row.days,
        "made_at": iso(row.made_at),
        **{name: answer.get(name, 0) for name in ("jobs", "elastic_jobs", "measured_jobs", "left_out")},
        **{name: answer.get(name) for name in ("elastic", "rigid")},
        "assumption": _assumption(answer) if answer else "",
    }


def _assumption(answer: Mapping[str, Any]) -> str:
    return " ".join(
        [
            "Both are simulated: today's nodes, guarantees and policies, empty at the beginning; each job has"
            " the work that it did, and GPU models are equally fast. Jobs whose scaling was not measured"
            f" are assumed to scale perfectly. Going on after a stop costs {RESTART_SECONDS:g} seconds.",
            *([f"Only the newest {MOST_JOBS:,} jobs were looked at."] if answer["is_cut"] else []),
        ]
    )
