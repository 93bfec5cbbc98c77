"""Changing a submitted job."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.db import transaction

from scheduler.core.model import wording
from scheduler.core.model.lifecycle import JOB_FINAL, AttemptState
from scheduler.jobs.attempts.services.steps import job_event, lock_jobs, touch_job
from scheduler.jobs.representations import publish_jobs
from scheduler.jobs.services.submission import Submission
from scheduler.jobspec import JobSpec, did_you_mean, parse
from scheduler.jobspec.beginning import begins_at
from scheduler.jobspec.shape import with_reservation
from scheduler.models.attempts import Attempt
from scheduler.models.jobs import Job
from scheduler.wiring.clock import database_now
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.audit.entries import record
from tenants.errors import Conflict, FieldError, Invalid
from tenants.models import Role
from tenants.selectors import Viewer
from tenants.times import iso

#: Fields of the specification that can be changed while the job waits; and while it has GPUs.
CHANGEABLE = (
    "name",
    "description",
    "virtual_cluster",
    "priority",
    "guarantee",
    "time_limit",
    "begin",
    "reservation",
    "labels",
)
WHILE_IT_RUNS = ("name", "description", "priority", "time_limit", "labels")
#: Checked at submission against the submitter's rights and the jobs, nodes and reservations of that time:
#: what is not changed is not checked again.
_KEPT = ("secrets", "after", "nodes", "reservation")


@repeated_on_deadlock
@transaction.atomic
def job_change(*, viewer: Viewer, job: Job, changes: Mapping[str, Any]) -> None:
    """Give a job other values of some fields of its specification, as if it had been submitted with them.

    Raises Invalid for fields that cannot be changed or are wrong, Conflict for a job that has ended or has
    GPUs and would have to give them back, QuotaExceeded for what could never run.
    """
    viewer.require(job.tenant, Role.MEMBER)
    _require_known(changes)
    tenant = job.tenant.name
    job = lock_jobs([job.id])[job.id]
    if job.state in JOB_FINAL:
        raise Conflict(f"Job {job.id} has ended already, so it cannot be changed.")
    if job.cancelling:
        raise Conflict(f"Job {job.id} is being cancelled, so it cannot be changed.")
    before = parse(job.spec)
    written = {**job.spec, **changes}
    kept = [name for name in _KEPT if name not in changes]
    submission = Submission(viewer, tenant, submitter=job.submitted_by)
    checked = submission.check({name: value for name, value in written.items() if name not in kept})
    after = replace(checked.spec, **{name: getattr(before, name) for name in kept})
    changed = _changed(before, after)
    if not changed:
        return
    if Attempt.objects.filter(job=job).exclude(state=AttemptState.ENDED).exists():
        _require_possible_while_it_runs(viewer, job, changed)
    columns = _beginning(job, after) if "begin" in changed else {}
    if "reservation" in changed:
        columns["shape"] = with_reservation(job.shape, after.reservation)
    touch_job(
        job,
        name=after.name,
        spec=after.to_dict(),
        labels=dict(after.labels),
        virtual_cluster_id=checked.virtual_cluster.id,
        priority=after.priority,
        guaranteed=after.guaranteed,
        time_limit_seconds=after.time_limit_seconds,
        **columns,
    )
    job_event(
        job,
        "job.changed",
        at=database_now(),
        actor=viewer.actor,
        why=", ".join(
            f"{name}: {_in_words(name, old)} -> {_in_words(name, new)}"
            for name, (old, new) in changed.items()
        ),
        data={name: list(values) for name, values in changed.items()},
    ).save()
    publish_jobs([job.id])
    request_round_on_commit()


def _require_known(changes: Mapping[str, Any]) -> None:
    unknown = [name for name in changes if name not in CHANGEABLE]
    expected = f"{'one' if unknown else 'one or more'} of: {', '.join(CHANGEABLE)}"
    problems = [
        FieldError(str(name)[:80], f"cannot be changed{did_you_mean(str(name)[:80], CHANGEABLE)}", expected)
        for name in unknown
    ]
    if not changes:
        problems = [FieldError("body", "changes nothing", expected)]
    if problems:
        raise Invalid.of(*problems[:100])


def _changed(before: JobSpec, after: JobSpec) -> dict[str, tuple[Any, Any]]:
    """Return the old and the new value of each changed field, in the normal form."""
    old, new = before.to_dict(), after.to_dict()
    pairs = {name: (old.get(name), new.get(name)) for name in CHANGEABLE}
    return {name: values for name, values in pairs.items() if values[0] != values[1]}


def _beginning(job: Job, after: JobSpec) -> dict[str, Any]:
    """Return the columns that change with `begin`. A started job has begun: after that, the column delays the
    next attempt after a failure."""
    if job.attempts_started:
        problem = f"cannot be changed, since job {job.id} has started before"
        raise Conflict(f"begin {problem}.", [FieldError("begin", problem, "hold the job, and release it")])
    begins = begins_at(after.begin, job.submitted_at)
    # Back-off changes the column too, so a change of it alone makes no entry.
    before, after_that = iso(job.eligible_at), iso(begins)
    record(
        "job.change",
        object_kind="job",
        object_id=job.id,
        subject=job.name,
        tenant=job.tenant,
        before={"begin": before},
        after={"begin": after_that},
    )
    return {"eligible_at": begins}


def _require_possible_while_it_runs(viewer: Viewer, job: Job, changed: Mapping[str, tuple[Any, Any]]) -> None:
    """Plans of others rest on its end, so only an operator may let it run for longer."""
    for name, (old, new) in changed.items():
        if name not in WHILE_IT_RUNS:
            problem = f"cannot be changed while job {job.id} has GPUs"
            expected = f"one of: {', '.join(WHILE_IT_RUNS)}; or wait until it waits again"
            raise Conflict(f"{name} {problem}.", [FieldError(name, problem, expected)])
        if name == "time_limit" and old is not None and not viewer.is_operator and (new is None or new > old):
            problem = f"can only be made shorter while job {job.id} has GPUs"
            expected = f"at most {wording.duration(old)}; an operator can make it longer"
            raise Conflict(f"{name} {problem}.", [FieldError(name, problem, expected)])


def _in_words(name: str, value: Any) -> str:
    if value is None:
        return "none"
    return wording.duration(value) if isinstance(value, int | float) and name != "priority" else str(value)
