"""GPU-hours used, in any range of time and by any grouping.

An attempt counts each of its GPUs from when it had them until it gave them back; a part of a GPU counts as
such, and jobs that have GPUs together count an equal part for each while they are beside one another. So
does a budget (`services`). Sums are exact, so those of any grouping of a range are equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Q, Sum

from scheduler.core.fitting.quotas import Amounts, exact, held_with
from scheduler.core.model import snapshot as core
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.lifecycle import AttemptState
from scheduler.jobspec.shape import Shape, stored_shape
from scheduler.models.attempts import Attempt
from scheduler.models.budgets import UserQuota
from tenants.errors import FieldError, Invalid, NotAllowed, NotFound
from tenants.models import Guarantee, Membership, Role, Tenant
from tenants.selectors import Viewer, tenant_get

#: The most rows of one answer.
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class _Grouping:
    """What a grouping shows, the column of `own` that it needs, and the table that has the name of this."""

    shown: str
    own: str = ""
    named_by: str = ""


_BY: Mapping[str, _Grouping] = {
    "tenant": _Grouping("t.name", "j.tenant_id", "tenants_tenant t ON t.id = held.tenant_id"),
    "user": _Grouping("u.username", "j.submitted_by_id", "tenants_user u ON u.id = held.submitted_by_id"),
    "virtual_cluster": _Grouping(
        "v.name", "l.virtual_cluster_id", "tenants_virtualcluster v ON v.id = held.virtual_cluster_id"
    ),
    "gpu_model": _Grouping("held.gpu_model", "l.gpu_model"),
    "application": _Grouping(
        "held.application", "coalesce(nullif(j.shape ->> 'application', ''), j.name) AS application"
    ),
    "day": _Grouping("(held.cut_start AT TIME ZONE 'UTC')::date"),
}
GROUPINGS = tuple(_BY)
#: Groupings for which the guarantee is known.
_OF_A_GUARANTEE = frozenset({"virtual_cluster", "gpu_model", "day"})

# It reads no column of a job that no grouping asks for: the index of tenants then has all that it needs.
_USED = """
WITH own AS (
    SELECT a.id, a.job_id, a.allocation_id, greatest(a.starting_at, %(since)s) AS start,
           least(l.released_at, a.ended_at, %(until)s) AS own_end,
           CASE WHEN l.guaranteed THEN l.opportunistic_gpus END AS beyond,
           CASE WHEN l.guaranteed AND l.opportunistic_gpus > 0 THEN l.replicas END AS replicas,
           coalesce(m.price_per_hour, 1)::numeric AS price,
           CASE WHEN a.outcome IN ('failed', 'lost') THEN a.starting_at
                WHEN a.lost_seconds > 0 THEN a.ended_at - make_interval(secs => a.lost_seconds)
           END AS wasted_from {own}
    FROM scheduler_attempt a
    JOIN scheduler_job j ON j.id = a.job_id
    JOIN scheduler_allocation l ON l.id = a.allocation_id
    LEFT JOIN scheduler_gpumodel m ON m.name = l.gpu_model
    WHERE a.starting_at < %(until)s AND (a.ended_at IS NULL OR a.ended_at > %(since)s) {conditions}
), shared AS (
    SELECT allocation_id FROM scheduler_attempt WHERE allocation_id IN (SELECT allocation_id FROM own)
    GROUP BY allocation_id HAVING count(*) > 1
), had AS (
    -- GPUs that left together, which are nearly always all of an allocation's, count as one.
    SELECT allocation_id, released_at, sum(request) AS request
    FROM scheduler_allocatedgpu WHERE allocation_id IN (SELECT allocation_id FROM own)
    GROUP BY allocation_id, released_at
), cut AS (
    -- By far the most have their GPUs alone, and nothing of others is looked up for them.
    SELECT own.*, piece.start AS cut_start, piece.until AS cut_end, 1 AS sharers
    FROM own, LATERAL ({pieces}) piece
    WHERE own_end > own.start AND allocation_id NOT IN (SELECT allocation_id FROM shared)
    UNION ALL
    -- From one coming or going of those beside it to the next, and in each day, it has an equal part.
    SELECT own.*, moment.at AS cut_start,
           coalesce(lead(moment.at) OVER (PARTITION BY own.id ORDER BY moment.at), own_end) AS cut_end,
           (SELECT count(*) FROM scheduler_attempt b
            WHERE b.allocation_id = own.allocation_id AND b.starting_at <= moment.at
                  AND (b.ended_at IS NULL OR b.ended_at > moment.at)) AS sharers
    FROM own, LATERAL (
        SELECT piece.start AS at FROM ({pieces}) piece
        UNION SELECT change.at
        FROM scheduler_attempt b, LATERAL (VALUES (b.starting_at), (b.ended_at)) AS change (at)
        WHERE b.allocation_id = own.allocation_id AND b.id <> own.id
              AND change.at > own.start AND change.at < own.own_end
    ) moment
    WHERE own_end > own.start AND allocation_id IN (SELECT allocation_id FROM shared)
), held AS (
    SELECT cut.*, had.request * share.of_one * slice.seconds AS seconds,
           CASE WHEN cut.wasted_from < slice.until THEN
               had.request * share.of_one
               * extract(epoch FROM slice.until - greatest(cut.cut_start, cut.wasted_from))
           END AS wasted,
           CASE WHEN cut.beyond > 0 THEN share.of_one * slice.seconds * (
               SELECT sum(one.request) FROM scheduler_allocatedgpu one JOIN (
                   SELECT gpu, min(place) AS place, gpus FROM (
                       SELECT gpu::bigint, count(*) OVER () AS gpus,
                              row_number() OVER (ORDER BY replica.place, each.place) AS place
                       FROM jsonb_array_elements(cut.replicas) WITH ORDINALITY AS replica (gpus, place),
                            jsonb_array_elements(replica.gpus) WITH ORDINALITY AS each (gpu, place)
                   ) listed GROUP BY gpu, gpus
               ) listed ON listed.gpu = one.gpu_id AND listed.place <= listed.gpus - cut.beyond
               WHERE one.allocation_id = cut.allocation_id
                     AND one.released_at IS NOT DISTINCT FROM had.released_at
           ) END AS within
    FROM cut JOIN had USING (allocation_id),
         LATERAL (SELECT 1::numeric / 1000 / greatest(cut.sharers, 1) AS of_one) share,
         LATERAL (SELECT least(had.released_at, cut.cut_end) AS until) free,
         LATERAL (SELECT free.until, extract(epoch FROM free.until - cut.cut_start) AS seconds) slice
    WHERE slice.until > cut.cut_start
)
SELECT {columns}, count(DISTINCT held.job_id), coalesce(sum(seconds), 0) / 3600,
       (coalesce(sum(seconds) FILTER (WHERE beyond = 0), 0) + coalesce(sum(within), 0)) / 3600,
       coalesce(sum(price * seconds), 0) / 3600, coalesce(sum(wasted), 0) / 3600
FROM held {named}
GROUP BY GROUPING SETS (({columns}), ()) ORDER BY grouping({columns}), {columns} LIMIT {most}
"""

#: The pieces of an attempt's time: all of it, or those of each day (UTC).
_WHOLE = "SELECT own.start, own.own_end AS until"
_BY_DAY = """
SELECT greatest(midnight, own.start) AS start, least(midnight + interval '1 day', own.own_end) AS until
FROM generate_series(date_trunc('day', own.start, 'UTC'), own.own_end, interval '1 day') AS midnight
WHERE midnight < own.own_end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuestion:
    """The time, groupings and filters of the use. An empty filter: all."""

    since: datetime
    until: datetime
    by: Sequence[str]
    tenant: str = ""
    user: str = ""
    virtual_cluster: str = ""
    gpu_model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The use of one group; `key` has the value of each grouping."""

    key: Mapping[str, Any]
    jobs: int
    gpu_hours: Decimal
    #: The part of them on GPUs that the virtual cluster was guaranteed.
    guaranteed_gpu_hours: Decimal
    cost: Decimal
    #: Those of attempts that failed or were lost, and of work thrown away when an attempt was stopped.
    wasted_gpu_hours: Decimal = Decimal()
    #: The GPU-hours of the virtual cluster's present guarantee in this time; None: not about a guarantee.
    entitled_gpu_hours: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    rows: Sequence[Used]
    total: Used


_NOTHING = Used(key={}, jobs=0, gpu_hours=Decimal(), guaranteed_gpu_hours=Decimal(), cost=Decimal())


def usage(viewer: Viewer, question: UsageQuestion) -> Usage:
    """Return the use of GPUs that the viewer may see.

    Operators see all tenants, members their own. Only admins of a tenant see its use by user, or that of
    other users. Raises NotAllowed for what the viewer may not see, Invalid for more than `MOST_ROWS` rows.
    """
    conditions, values = _conditions(viewer, question)
    by = [_BY[name] for name in question.by]
    statement = _USED.format(
        conditions=conditions,
        pieces=_BY_DAY if "day" in question.by else _WHOLE,
        own="".join(f", {one.own}" for one in by if one.own),
        columns=", ".join(one.shown for one in by),
        named=" ".join(f"JOIN {one.named_by}" for one in by if one.named_by),
        most=MOST_ROWS + 2,
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found = cursor.fetchall()
    if len(found) > MOST_ROWS + 1:
        problem = f"gives more than {MOST_ROWS:,} rows"
        raise Invalid(f"by {problem}.", [FieldError("by", problem, "fewer groupings, or a shorter time")])
    count = len(question.by)
    # The total comes last: it alone is not grouped, whatever its columns say.
    *rows, total = [_used(dict(zip(question.by, row[:count], strict=True)), *row[count:]) for row in found]
    used = _with_guarantees(viewer, question, rows) if _tells_of_guarantees(question) else rows
    return Usage(rows=used, total=replace(total, key={}))


def _used(
    key: Mapping[str, Any], jobs: int, gpu_hours: Decimal, guaranteed: Decimal, cost: Decimal, wasted: Decimal
) -> Used:
    return Used(
        key=key,
        jobs=jobs,
        gpu_hours=gpu_hours,
        guaranteed_gpu_hours=guaranteed,
        cost=cost,
        wasted_gpu_hours=wasted,
    )


def _conditions(viewer: Viewer, question: UsageQuestion) -> tuple[str, dict[str, Any]]:
    values: dict[str, Any] = {
        "since": question.since,
        "until": question.until,
    }
    conditions = []
    tenants = _tenants(viewer, question)
    if tenants is not None:
        conditions.append("AND j.tenant_id = ANY(%(tenants)s)")
        values["tenants"] = tenants
    for name, condition in (
        ("user", "j.submitted_by_id = (SELECT id FROM tenants_user WHERE username = %(user)s)"),
        ("virtual_cluster", "l.virtual_cluster_id = "
         "(SELECT id FROM tenants_virtualcluster WHERE name = %(virtual_cluster)s)"),
        ("gpu_model", "l.gpu_model = %(gpu_model)s"),
    ):  # fmt: skip
        if value := getattr(question, name):
            conditions.append(f"AND {condition}")
            values[name] = value
    return " ".join(conditions), values


def _tenants(viewer: Viewer, question: UsageQuestion) -> list[int] | None:
    """Return the tenants whose use is asked for; None: all tenants."""
    of_others = question.user != viewer.user.username
    is_personal = ("user" in question.by or bool(question.user)) and of_others
    if question.tenant:
        tenant = tenant_get(viewer, question.tenant)
        if is_personal:
            viewer.require(tenant, Role.ADMIN)
        return [tenant.pk]
    if viewer.is_operator:
        return None
    allowed = [one for one in viewer.roles if not is_personal or viewer.may(one, Role.ADMIN)]
    if is_personal and not allowed:
        raise NotAllowed(
            "Only admins of a tenant can see what single users used."
            f" You can see your own: that of user {viewer.user.username}."
        )
    return allowed


def _tells_of_guarantees(question: UsageQuestion) -> bool:
    return "virtual_cluster" in question.by and _OF_A_GUARANTEE.issuperset(question.by)


def _with_guarantees(viewer: Viewer, question: UsageQuestion, rows: Sequence[Used]) -> list[Used]:
    """Add to each row what is guaranteed, and add rows for guarantees that were not used."""
    found = {tuple(row.key.values()): row for row in rows}
    for key, hours in _entitled(viewer, question).items():
        row = found.get(key) or replace(_NOTHING, key=dict(zip(question.by, key, strict=True)))
        found[key] = replace(row, entitled_gpu_hours=hours)
    return [found[key] for key in sorted(found, key=lambda key: [str(part) for part in key])]


def _entitled(viewer: Viewer, question: UsageQuestion) -> dict[tuple[Any, ...], Decimal]:
    guarantees = Guarantee.objects.select_related("virtual_cluster")
    if question.virtual_cluster:
        guarantees = guarantees.filter(virtual_cluster__name=question.virtual_cluster)
    if question.gpu_model:
        guarantees = guarantees.filter(gpu_model=question.gpu_model)
    if not viewer.is_operator or question.tenant:
        tenants = _tenants(viewer, question) or []
        members = Tenant.objects.filter(pk__in=tenants).values("virtual_clusters__virtual_cluster")
        guarantees = guarantees.filter(virtual_cluster__in=members)
    days = _days(question.since, question.until) if "day" in question.by else {None: _hours(question)}
    entitled: dict[tuple[Any, ...], Decimal] = {}
    for guarantee in guarantees:
        for day, hours in days.items():
            values = {
                "virtual_cluster": guarantee.virtual_cluster.name,
                "gpu_model": guarantee.gpu_model,
                "day": day,
            }
            key = tuple(values[name] for name in question.by)
            entitled[key] = entitled.get(key, Decimal()) + guarantee.gpus * hours
    return entitled


def _hours(question: UsageQuestion) -> Decimal:
    return _between(question.since, question.until)


def _between(start: datetime, end: datetime) -> Decimal:
    return Decimal((end - start) // timedelta(microseconds=1)) / 3_600_000_000


def _days(since: datetime, until: datetime) -> dict[date | None, Decimal]:
    """Return by day (UTC) how many hours of it are in the time."""
    days: dict[date | None, Decimal] = {}
    start = since.astimezone(UTC)
    while start < until:
        midnight = datetime.combine(start.date() + timedelta(days=1), time(0), UTC)
        days[start.date()] = _between(start, min(midnight, until.astimezone(UTC)))
        start = midnight
    return days


def member_get(by: Viewer, tenant_name: str, username: str, *, role: Role | None = None) -> Membership:
    """Return a member of a tenant: the viewer's own membership, or any for admins of the tenant.

    `role`: the role that the viewer must have in any case.
    """
    tenant = tenant_get(by, tenant_name)
    if role is not None or by.user.username != username:
        by.require(tenant, role or Role.ADMIN)
    found = Membership.objects.select_related("user", "tenant").filter(tenant=tenant, user__username=username)
    if (membership := found.first()) is None:
        raise NotFound(f"{username!r} is not a member of tenant {tenant.name!r}.")
    return membership


def user_quota_state(membership: Membership) -> Mapping[str, Any]:
    """Return what a member may hold at once in the tenant, and what that is now, JSON-ready."""
    quota = UserQuota.objects.filter(membership=membership).first() or UserQuota()
    return {
        "gpus": quota.gpus,
        "cpus": quota.cpus,
        "memory_bytes": quota.memory_bytes,
        "held": held_now(membership.tenant, membership.user_id),
    }


def held_now(tenant: Tenant, user: int | None = None) -> Mapping[str, Any]:
    """Return the GPUs by model, CPUs and bytes of memory that the jobs of a tenant, or of a user there, hold
    now, as a round counts them: a job whose attempt makes room for its next one holds the larger of both."""
    live = Attempt.objects.filter(job__tenant=tenant).exclude(state=AttemptState.ENDED)
    if user is not None:
        live = live.filter(job__submitted_by=user)
    rows = live.values_list(
        "job_id", "job__shape", "allocation__gpu_model", "allocation__replicas", "allocation__id"
    ).annotate(milligpus=Sum("allocation__gpus__request", filter=~Q(allocation__gpus__phase="released")))
    gpus: dict[tuple[int, str], float] = {}
    processors: dict[int, Amounts] = {}
    for job, shape, model, replicas, _, milligpus in rows:
        counts_as = held_with(_core_job(job, stored_shape(shape)), len(replicas))
        known = processors.get(job, counts_as)
        cpus = max(known.cpus, counts_as.cpus)
        processors[job] = Amounts(0, cpus, max(known.memory_bytes, counts_as.memory_bytes))
        gpus[job, model] = max(gpus.get((job, model), 0), (milligpus or 0) / WHOLE_GPU)
    by_model: dict[str, float] = {}
    for (_, model), amount in sorted(gpus.items(), key=lambda line: line[0][1]):
        if amount:
            by_model[model] = exact(by_model.get(model, 0) + amount)
    return {
        "gpus": by_model,
        "cpus": exact(sum([each.cpus for each in processors.values()])),
        "memory_bytes": sum([each.memory_bytes for each in processors.values()]),
    }


def _core_job(number: int, shape: Shape) -> core.Job:
    return core.Job(id=core.JobId(number), tenant="", virtual_cluster="", submitted_at=0.0, **shape.facts())
