"""What the next round would do with a job that nobody has submitted yet."""

from dataclasses import replace

from django.db.models import Max

from scheduler.core.model import snapshot as core
from scheduler.core.model.plan import ActionKind, Reason
from scheduler.core.round.decide import decide
from scheduler.jobs.models import Job
from scheduler.rounds.circuit_breaker import with_breakers_open
from scheduler.rounds.models import Leadership
from scheduler.rounds.snapshot import read_snapshot
from scheduler.rounds.speeds import submitted_now


def preview(job: core.Job, name: str) -> tuple[Reason, ...]:
    """Decide on the present facts with a job of that name added; return why it would wait, empty if it would
    start."""
    newest = Leadership.objects.values_list("number", flat=True).first() or 0
    facts = read_snapshot(newest + 1)
    # The id it would get, or a later one: at equal priority and time, ids decide who comes first.
    job_id = core.JobId((Job.objects.aggregate(newest=Max("id"))["newest"] or 0) + 1)
    added = replace(submitted_now(job, name, facts.now), id=job_id)
    plan = decide(replace(with_breakers_open(facts), jobs=(*facts.jobs, added)))
    starts = any(action.kind is ActionKind.START and job_id in action.jobs for action in plan.actions)
    reasons = plan.reasons.get(job_id, ())
    return () if starts and not reasons else reasons
