"""Store why jobs wait, in which order they will be considered, and what policies remember of them.

Writes changes only.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from scheduler.core.model.codec import reasons_json
from scheduler.core.model.plan import Plan, Reason
from scheduler.core.model.snapshot import JobId, Snapshot
from scheduler.core.round.alike import BEHIND_OWN
from scheduler.jobs.representations import publish_explanations, publish_positions
from scheduler.models.events import Event
from scheduler.models.jobs import Explanation, QueueOrder
from scheduler.models.rounds import PolicyMemory
from scheduler.rounds.copying import copy_rows
from scheduler.rounds.fixed_ports import with_ports_named

#: Positions deeper in a queue than this are not pushed to pages, which read them when they open.
_PUSHED_POSITIONS = 1_000
#: The same for reasons: a tenant's pages read more changes than this with their next refetch.
_PUSHED_REASONS = 200

EVENT_COLUMNS = (
    "at", "kind", "subject", "subject_id", "tenant_id", "job_id", "from_state", "to_state", "actor",
    "message", "data",
)  # fmt: skip


# Where the stored reasons differ from a round's; without jobs that were deleted since the snapshot.
_CHANGED = """
SELECT job.id, job.tenant_id, stored.reasons -> 0 ->> 'code'
FROM unnest(%s::bigint[], %s::text[]) AS decided (job_id, digest)
JOIN scheduler_job job ON job.id = decided.job_id
LEFT JOIN scheduler_explanation stored ON stored.job_id = job.id
WHERE stored.digest IS DISTINCT FROM decided.digest
ORDER BY job.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChangedReasons:
    """A job whose reasons, or their words, differ from the stored ones."""

    job: JobId
    tenant_id: int
    reasons: tuple[Reason, ...]
    text: bytes
    digest: str
    #: Code of the previous decisive reason; None: the job had none.
    code_before: str | None


def write_explanations(
    plan: Plan,
    tenants: Mapping[int, str],
    left_out: Sequence[JobId] = (),
    having_ports: Collection[JobId] = (),
    *,
    at: datetime,
) -> None:
    """Store the reasons that differ from the stored ones; make an event when the decisive one changes.

    `left_out`, `having_ports`: as in `apply_plan`.
    """
    named = with_ports_named(plan.reasons, having_ports)
    changed = _read_changed({**named, **dict.fromkeys(left_out, BEHIND_OWN)})
    if not changed:
        return
    _write_events(changed, plan, at=at)
    with connection.cursor() as cursor:
        stored = [each.job for each in changed if each.code_before is not None]
        cursor.execute("DELETE FROM scheduler_explanation WHERE job_id = ANY(%s)", [stored])
    copy_rows(
        Explanation,
        ("job_id", "reasons", "digest", "round_number", "decided_at"),
        ((each.job, each.text.decode(), each.digest, plan.round_number, at) for each in changed),
    )
    _publish(changed, plan, tenants)


def _read_changed(found: Mapping[JobId, tuple[Reason, ...]]) -> list[_ChangedReasons]:
    # Many jobs have the same reasons; those of a plan live as long as it does, so that ids are unique.
    written: dict[int, tuple[bytes, str]] = {}
    for reasons in found.values():
        if id(reasons) not in written:
            text = reasons_json(reasons)
            written[id(reasons)] = text, hashlib.blake2b(text, digest_size=8).hexdigest()
    texts = {job: written[id(reasons)][0] for job, reasons in found.items()}
    digests = {job: written[id(reasons)][1] for job, reasons in found.items()}
    with connection.cursor() as cursor:
        cursor.execute(_CHANGED, [list(digests), list(digests.values())])
        return [
            _ChangedReasons(
                job=job,
                tenant_id=tenant_id,
                reasons=found[job],
                text=texts[job],
                digest=digests[job],
                code_before=code_before,
            )
            for job, tenant_id, code_before in cursor.fetchall()
        ]


def _write_events(changed: Sequence[_ChangedReasons], plan: Plan, *, at: datetime) -> None:
    """The history of a wait: one event each time its decisive reason changes."""
    actor = f"round {plan.round_number}"
    copy_rows(
        Event,
        EVENT_COLUMNS,
        (
            (
                at, "job.waiting", "job", each.job, each.tenant_id, each.job, "", "", actor,
                each.reasons[0].message[:500], json.dumps({"code": each.reasons[0].code}),
            )
            for each in changed
            if each.code_before != each.reasons[0].code
        ),
    )  # fmt: skip


def _publish(changed: Sequence[_ChangedReasons], plan: Plan, tenants: Mapping[int, str]) -> None:
    positions = positions_of(plan)
    by_tenant: dict[str, list[dict[str, object]]] = defaultdict(list)
    # Jobs that the round left out are so far behind that pages may read them later.
    seen = [each for each in changed if each.job in tenants]
    for each in sorted(seen, key=lambda each: positions.get(each.job, len(positions))):
        objects = by_tenant[tenants[each.job]]
        if len(objects) < _PUSHED_REASONS:
            data = {"reasons": json.loads(each.text), "position": positions.get(each.job)}
            objects.append({"kind": "why", "id": each.job, "version": plan.round_number, "data": data})
    publish_explanations(by_tenant)


def positions_of(plan: Plan) -> dict[JobId, int]:
    """1 for the head of each queue."""
    return {job: place for queue in plan.queues.values() for place, job in enumerate(queue, start=1)}


def write_queues(plan: Plan, tenants: Mapping[int, str]) -> None:
    stored = dict(QueueOrder.objects.values_list("view", "jobs"))
    changed = {view: list(jobs) for view, jobs in plan.queues.items() if stored.get(view) != list(jobs)}
    changed.update({view: [] for view, jobs in stored.items() if jobs and view not in plan.queues})
    QueueOrder.objects.bulk_create(
        [QueueOrder(view=view, jobs=jobs, round_number=plan.round_number) for view, jobs in changed.items()],
        update_conflicts=True,
        unique_fields=["view"],
        update_fields=["jobs", "round_number"],
    )
    by_tenant: dict[str, dict[str, int]] = defaultdict(dict)
    for jobs in changed.values():
        for place, job in enumerate(jobs[:_PUSHED_POSITIONS], start=1):
            by_tenant[tenants[job]][str(job)] = place
    publish_positions(plan.round_number, by_tenant)


def write_memory(snapshot: Snapshot, plan: Plan) -> None:
    """Store the memory of the views that remember something else than before."""
    changed = [
        PolicyMemory(view=view, memory=dict(memory))
        for view, memory in plan.memory.items()
        if memory != snapshot.memory.get(view, {})
    ]
    PolicyMemory.objects.bulk_create(
        changed, update_conflicts=True, unique_fields=["view"], update_fields=["memory"]
    )
