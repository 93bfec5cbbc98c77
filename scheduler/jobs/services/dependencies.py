"""Dependencies of jobs: written with the job, settled before each round."""

from collections import Counter
from collections.abc import Iterable, Sequence

from django.db import connection, transaction
from django.db.models import Q

from scheduler.core.model import wording
from scheduler.core.model.awaited import ENDED, FAILED, STARTED, SUCCEEDED, Awaited
from scheduler.core.model.lifecycle import JOB_FINAL, JobState
from scheduler.jobs.attempts.services.steps import cancel_waiting_jobs
from scheduler.jobs.representations import publish_jobs
from scheduler.jobspec import CANCEL, JobSpec
from scheduler.models.jobs import Dependency, DependencyState, Job
from scheduler.wiring.deadlocks import repeated_on_deadlock
from scheduler.wiring.wakeups import request_round_on_commit
from tenants.errors import FieldError, Invalid

_ACTOR = "dependencies"
#: The most links of a chain with a failed first job that are cancelled before a round; the next goes on.
_MOST_LINKS = 20
_WORDS = {SUCCEEDED: "to succeed", ENDED: "to end", FAILED: "to fail", STARTED: "to start"}
_ENDED_WORDS = {"succeeded": "succeeded", "failed": "failed", "cancelled": "was cancelled"}


class AwaitedStates:
    """The states of a tenant's jobs that its other jobs await; each is read once."""

    def __init__(self, tenant_id: int, tenant: str) -> None:
        self._tenant_id, self._tenant = tenant_id, tenant
        #: By job, or array: the state of each, and whether it ever started; empty: no such job of the tenant.
        self._known: dict[int, list[tuple[str, bool]]] = {}

    def require_possible(self, awaited: Sequence[Awaited], where: str) -> tuple[Awaited, ...]:
        """Return the dependencies that are not met yet; raise Invalid naming jobs that do not exist, and
        dependencies that cannot be met any more."""
        unknown = [each.job for each in awaited if each.job not in self._known]
        if unknown:
            found = Job.objects.filter(Q(id__in=unknown) | Q(array_id__in=unknown), tenant_id=self._tenant_id)
            self._known |= {job: [] for job in unknown}
            for job, array, state, started_at in found.values_list("id", "array_id", "state", "started_at"):
                for number in {job, array or job}.intersection(unknown):
                    self._known[number].append((state, started_at is not None))
        problems, left = [], []
        for number, each in enumerate(awaited):
            known = self._known[each.job]
            if not known:
                problem = f"tenant {self._tenant} has no job {each.job}"
                problems.append(FieldError(f"{where}.{number}.job", problem, "the number of one of its jobs"))
            elif _became(each.when, known) is DependencyState.NEVER:
                ended = _ended_words(each.job, known)
                problem = f"{ended}, so it cannot be waited for {_WORDS[each.when]}"
                problems.append(FieldError(f"{where}.{number}", problem, "a job that may still do so"))
            elif _became(each.when, known) is DependencyState.AWAITED:
                left.append(each)
        if problems:
            raise Invalid.of(*problems)
        return tuple(left)


def _ended_words(job: int, tasks: Sequence[tuple[str, bool]]) -> str:
    if len(tasks) == 1:
        return f"job {job} {_ENDED_WORDS[tasks[0][0]]}"
    counted = Counter(_ENDED_WORDS[state] for state, _ in tasks if state in JOB_FINAL)
    return f"of array {job} {wording.listed([f'{count} {word}' for word, count in counted.items()])}"


def _became(when: str, tasks: Sequence[tuple[str, bool]]) -> DependencyState:
    """Return whether a job, or all tasks of an array, did or still can succeed, end, fail or start.

    `tasks`: the state of each, and whether it ever started. An array has failed when it has ended and one of
    its tasks failed.
    """
    has_ended = all(state in JOB_FINAL for state, _ in tasks)
    has_failed = any(state in (JobState.FAILED, JobState.CANCELLED) for state, _ in tasks)
    if when == SUCCEEDED and has_failed:
        return DependencyState.NEVER
    if when == STARTED:
        has_started = all(has_started or state in JOB_FINAL for state, has_started in tasks)
        return DependencyState.MET if has_started else DependencyState.AWAITED
    if not has_ended:
        return DependencyState.AWAITED
    return DependencyState.NEVER if when == FAILED and not has_failed else DependencyState.MET


def dependencies_write(jobs: Iterable[Job], specs: Iterable[JobSpec]) -> None:
    """Store the dependencies of new jobs."""
    rows = [
        Dependency(job=job, awaited_id=each.job, when=each.when, cancels=spec.on_unmet == CANCEL)
        for job, spec in zip(jobs, specs, strict=True)
        for each in spec.after
    ]
    if rows:
        Dependency.objects.bulk_create(rows)


# By the rule of `_became`; a job that no longer waits has no open dependency.
_SETTLE = """
WITH awaited AS MATERIALIZED (
    -- Once for each, since all tasks of one array may wait for all of another.
    SELECT awaited_id AS id, tasks.*
    FROM (SELECT DISTINCT awaited_id FROM scheduler_dependency WHERE is_open) open
    CROSS JOIN LATERAL (
        SELECT bool_and(ended_at IS NOT NULL) AS has_ended,
               bool_and(ended_at IS NOT NULL OR started_at IS NOT NULL) AS has_started,
               bool_or(state IN ('failed', 'cancelled')) AS has_failed
        FROM scheduler_job WHERE scheduler_job.id = open.awaited_id OR array_id = open.awaited_id
    ) tasks
)
UPDATE scheduler_dependency AS dependency
SET state = found.state, is_open = found.waits AND found.state = 'never' AND NOT dependency.cancels
FROM (
    SELECT open.id, own.state = 'queued' AS waits, CASE
        WHEN own.state <> 'queued' THEN open.state
        WHEN open."when" = 'succeeded' AND other.has_failed THEN 'never'
        WHEN open."when" = 'started' THEN CASE WHEN other.has_started THEN 'met' ELSE 'awaited' END
        WHEN NOT other.has_ended THEN 'awaited'
        WHEN open."when" = 'failed' AND NOT other.has_failed THEN 'never'
        ELSE 'met' END AS state
    FROM scheduler_dependency open
    JOIN scheduler_job own ON own.id = open.job_id
    JOIN awaited other ON other.id = open.awaited_id
    WHERE open.is_open
) found
WHERE found.id = dependency.id AND (found.state <> dependency.state OR NOT found.waits)
RETURNING dependency.job_id, dependency.awaited_id, dependency."when",
          dependency.state = 'never' AND dependency.cancels AND found.waits
"""


_WAITS_NOW = """
UPDATE scheduler_job SET waits_since = clock_timestamp() WHERE state = 'queued' AND id IN (
    SELECT id FROM scheduler_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE)
"""


def dependencies_settle() -> None:
    """Settle the dependencies that are met; cancel the jobs whose dependencies cannot be met any more.

    Rounds call it before they read their facts. It reads open dependencies only, so a round without any
    costs one statement.
    """
    for _ in range(_MOST_LINKS):
        if not _settle():
            return


@repeated_on_deadlock
@transaction.atomic
def _settle() -> bool:
    """Settle once; return whether a job was cancelled, for which others may have waited."""
    with connection.cursor() as cursor:
        cursor.execute(_SETTLE)
        settled = cursor.fetchall()
        if settled:
            # It could not have been started before.
            cursor.execute(_WAITS_NOW, [sorted({job for job, *_ in settled})])
    unmet = [(job, awaited, when) for job, awaited, when, cancels in settled if cancels]
    arrays = set(
        Job.objects.filter(array_id__in={one[1] for one in unmet}).values_list("array_id", flat=True)
    )
    why = {job: _why(awaited, when, is_array=awaited in arrays) for job, awaited, when in unmet}
    if not why:
        return False
    cancelled = cancel_waiting_jobs(sorted(why), actor=_ACTOR, why=why)
    publish_jobs(cancelled)
    request_round_on_commit()
    return True


def _why(awaited: int, when: str, *, is_array: bool) -> str:
    what = ("one of array" if when == FAILED else "all of array") if is_array else "job"
    return f"It waited for {what} {awaited} {_WORDS[when]}, which cannot happen any more."
