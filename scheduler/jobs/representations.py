"""Jobs as whole objects of the API: REST answers and the live stream send these.

`jobs` answers in the order of its ids, leaves out those that do not exist, and costs a fixed number of
queries however many there are. So do the representations of the other slices.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db.models import Case, IntegerField, When

from scheduler.core.model.lifecycle import ATTEMPT_LIVE, JOB_FINAL, AttemptState, JobState
from scheduler.core.model.snapshot import GUARANTEED, OPPORTUNISTIC
from scheduler.jobs.attempts.representations import attempts_by_id
from scheduler.jobspec import in_order
from scheduler.models.attempts import Attempt
from scheduler.models.jobs import Dependency, Job, QueueOrder
from scheduler.models.selectors.jobs import input_workers_of, nodes_of_workers, view_of
from scheduler.models.selectors.maintenance import windows_of
from scheduler.nodes.representations import maintenance
from scheduler.wiring.representation import Representation
from scheduler.wiring.stream import OPERATORS, batches, object_of, on_commit, send, tenant_group, to_pages
from tenants.times import iso


def jobs(ids: Iterable[int]) -> list[Representation]:
    """Return the jobs with their newest attempt and, while they wait, with reasons and position."""
    ids = list(ids)
    rows = Job.objects.filter(id__in=ids).select_related(
        "tenant", "virtual_cluster", "submitted_by", "explanation", "serves", "archive"
    )
    by_id = {job.id: job for job in rows}
    newest = _newest_attempts(by_id)
    attempt_forms = attempts_by_id(newest.values())
    positions = positions_of([job for job in by_id.values() if job.state == JobState.QUEUED])
    windows = _windows_of(newest, attempt_forms)
    return [
        _job(
            job,
            newest.get(job.id),
            attempt_forms,
            reasons_of(job),
            positions.get(job.id),
            windows.get(job.id),
        )
        for job in [by_id[job_id] for job_id in ids if job_id in by_id]
    ]


def new_job(job: Job) -> Representation:
    """Return a job that was submitted a moment ago, for which nothing needs to be looked up."""
    return _job(job, None, {}, [], None, None)


def _job(
    job: Job,
    attempt: Attempt | None,
    attempt_forms: Mapping[int, Representation],
    reasons: list[Representation],
    position: int | None,
    window: Representation | None,
) -> Representation:
    return {
        "id": job.id,
        "name": job.name,
        "tenant": job.tenant.name,
        "virtual_cluster": job.virtual_cluster.name,
        "submitted_by": job.submitted_by.username,
        "state": job.state,
        "phase": _phase(job, attempt),
        "guarantee": GUARANTEED if job.guaranteed else OPPORTUNISTIC,
        "priority": job.priority,
        "gpus": job.gpus,
        "gpu_models": job.gpu_models,
        "spec": in_order(job.spec),
        "submitted_at": iso(job.submitted_at),
        "eligible_at": iso(job.eligible_at),
        "started_at": iso(job.started_at),
        "ended_at": iso(job.ended_at),
        "deadline_at": _deadline_at(job),
        "attempts": job.attempts_started,
        "attempt": attempt_forms[attempt.id] if attempt else None,
        "guarantee_lapsed": _guarantee_lapsed(job, attempt),
        "reasons": reasons,
        "position": position,
        "exit_code": job.exit_code,
        "message": job.message,
        "preemptions": job.preemptions,
        "service_gpu_seconds": round(sum(job.service.values()), 3),
        "labels": job.labels,
        "cancelling": job.cancelling,
        "held": job.held,
        "code": _code(job),
        "maintenance": window,
        "array": None if job.array is None else {"number": job.array_id, **job.array},
        "serves": None if job.serves is None else job.serves.job_id,
        "version": job.version,
    }


def input_workers(job: Job) -> Representation:
    """Return the input workers that the platform runs for the newest attempt of a job that has any."""
    pool, workers = input_workers_of(job)
    return {
        "desired": pool.desired if pool is not None and pool.is_open else 0,
        "running": sum(worker.state == JobState.RUNNING for worker in workers),
        "connected": pool and pool.connected,
        "stall": pool and pool.stall,
        "skipped": pool and pool.skipped,
        "problem": pool.problem if pool is not None and pool.is_open else "",
        "workers": [
            {
                "job": worker.id,
                "state": worker.state,
                "started_at": iso(worker.started_at),
                "node": node,
            }
            for worker, node in zip(workers, nodes_of_workers(workers), strict=True)
        ],
    }


def _code(job: Job) -> Representation | None:
    """Return where a job's code comes from; None: its working folders begin empty."""
    # Few jobs have any, and to read a whole specification is a tenth of what a list of jobs costs.
    if job.spec.get("code") is None:
        return None
    code = job.specification.code
    assert code is not None, "a specification has the code that is stored"
    archive = job.archive
    return {
        "archive": code.archive or None,
        "git": code.git or None,
        "commit": code.commit or None,
        "bytes": archive and archive.bytes,
        "files": archive and archive.files,
        "unpacked_bytes": archive and archive.unpacked_bytes,
        "is_removed": archive is not None and archive.removed_at is not None,
    }


def dependency(row: Dependency, other: Job) -> Representation:
    """Return one dependency as one of its two jobs sees it; `other` is the other one."""
    return {
        "job": other.id,
        "name": other.name,
        "job_state": other.state,
        "when": row.when,
        "state": row.state,
    }


def _windows_of(
    newest: Mapping[int, Attempt], attempt_forms: Mapping[int, Representation]
) -> Mapping[int, Representation]:
    """Return the first maintenance window of a node of each job that has GPUs, by job."""
    nodes = {
        job: [part["node"] for part in attempt_forms[attempt.id]["placement"]]
        for job, attempt in newest.items()
        if attempt.state != AttemptState.ENDED
    }
    windows = windows_of({node for each in nodes.values() for node in each})
    found = {}
    for job, names in nodes.items() if windows else ():
        closing = [name for name in names if name in windows]
        if closing:
            node = min(closing, key=lambda name: windows[name].starts_at)
            found[job] = {"node": node, **(maintenance(windows[node]) or {})}
    return found


def _deadline_at(job: Job) -> str | None:
    seconds = job.needs.deadline_seconds
    return None if seconds is None else iso(job.submitted_at + timedelta(seconds=seconds))


def _guarantee_lapsed(job: Job, attempt: Attempt | None) -> bool:
    """Whether a guaranteed job runs as an opportunistic one because its cells have gone."""
    if attempt is None or attempt.state == AttemptState.ENDED:
        return False
    return job.guaranteed and not attempt.allocation.guaranteed


def _phase(job: Job, attempt: Attempt | None) -> str:
    """Return the phase of the job, which is finer than its state."""
    if job.state in JOB_FINAL:
        return "ended"
    if attempt is not None and attempt.state != AttemptState.ENDED:
        return attempt.state
    return "held" if job.held else "waiting"


def reasons_of(job: Job) -> list[Representation]:
    """Return why the job waits; empty when it does not, or when no round has seen it yet."""
    explanation = getattr(job, "explanation", None)
    return explanation.reasons if explanation is not None and job.state == JobState.QUEUED else []


def positions_of(queued: Iterable[Job]) -> dict[int, int]:
    """Return the jobs' places in the queues that the newest round left, 1 for the head."""
    by_view: dict[str, set[int]] = defaultdict(set)
    for job in queued:
        by_view[view_of(job)].add(job.id)
    orders = QueueOrder.objects.filter(view__in=by_view).values_list("view", "jobs") if by_view else ()
    return {
        job_id: place
        for view, order in orders
        for place, job_id in enumerate(order, start=1)
        if job_id in by_view[view]
    }


def _newest_attempts(job_ids: Collection[int]) -> dict[int, Attempt]:
    # While a job moves, its running attempt comes before the planned one.
    is_live = Case(When(state__in=ATTEMPT_LIVE, then=0), default=1, output_field=IntegerField())
    rows = Attempt.objects.filter(job_id__in=job_ids).select_related("allocation")
    return {
        attempt.job_id: attempt for attempt in rows.order_by("job_id", is_live, "-number").distinct("job_id")
    }


def readers_of(tenant: str) -> tuple[str, ...]:
    """Return the groups that receive changes of a tenant's jobs."""
    return tenant_group(tenant), OPERATORS


def publish_jobs(ids: Iterable[int]) -> None:
    to_pages(_send_jobs, sorted(set(ids)))


def publish_new_jobs(jobs: Sequence[Job]) -> None:
    """As `publish_jobs`, for jobs that were submitted a moment ago: nothing needs to be read again."""
    to_pages(_send_new_jobs, list(jobs))


def publish_explanations(by_tenant: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """`by_tenant` holds objects of kind "why", each {kind, id, version, data}."""
    messages = [
        (readers_of(tenant), {"type": "live.objects", "objects": batch})
        for tenant, objects in by_tenant.items()
        for batch in batches(objects)
    ]
    on_commit(send, messages)


def publish_positions(round_number: int, by_tenant: Mapping[str, Mapping[str, int]]) -> None:
    messages = [
        (readers_of(tenant), {"type": "live.queues", "round": round_number, "positions": dict(positions)})
        for tenant, positions in by_tenant.items()
    ]
    on_commit(send, messages)


def _send_jobs(ids: list[int]) -> None:
    _send_to_owners(jobs(ids))


def _send_new_jobs(jobs: list[Job]) -> None:
    _send_to_owners([new_job(job) for job in jobs])


def _send_to_owners(jobs: Iterable[Representation]) -> None:
    by_tenant: dict[str, list[dict[str, object]]] = defaultdict(list)
    for job in jobs:
        by_tenant[job["tenant"]].append(object_of("job", job))
    send(
        [
            (readers_of(tenant), {"type": "live.objects", "objects": batch})
            for tenant, objects in by_tenant.items()
            for batch in batches(objects)
        ]
    )
