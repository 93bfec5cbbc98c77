"""Quotas: what the jobs of a tenant, and of each of its users, may hold at once, and how a job counts.

A job counts with what it states. CPUs and memory that it leaves to the platform (`auto`) do not count: they
come with its GPUs, and take nothing that other jobs state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from scheduler.core.fitting.demand import amount_of, least_amount, least_gpus, needs_held
from scheduler.core.model import wording
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.limits import UserLimits
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import FIXED_WORLD, Job, Tenant

Limit = TypeVar("Limit")

UNLIMITED = float("inf")
#: The line of a quota that caps all GPU models together.
ALL_MODELS = "*"
#: The lines for CPUs and memory; no GPU model has such a name.
CPUS = "(cpus)"
MEMORY = "(memory)"
_RESOURCES: Mapping[str, str] = {ALL_MODELS: "gpus", CPUS: "cpus", MEMORY: "memory_bytes"}


class Amounts(NamedTuple):
    """The amounts with which a gang counts against quotas."""

    gpus: float
    cpus: float
    memory_bytes: int

    def of(self, line: str) -> float:
        """Return what it takes of a quota's line; on a line of GPUs, whatever their model."""
        return self.cpus if line == CPUS else self.memory_bytes if line == MEMORY else self.gpus


class Quota:
    """One quota: that of a tenant, or of a user there."""

    __slots__ = ("gpus_of_any_model", "is_of_gpus", "lines", "of_gpus", "tenant", "user")

    def __init__(self, tenant: str, user: str, lines: Mapping[str, float]) -> None:
        self.tenant = tenant
        #: Only the jobs of this user count; empty: all jobs of the tenant.
        self.user = user
        #: The most at once by GPU model, ALL_MODELS, CPUS and MEMORY; a missing line has no limit.
        self.lines = lines
        #: Its lines for GPUs.
        self.of_gpus = {line: limit for line, limit in lines.items() if line not in (CPUS, MEMORY)}
        #: This number of GPUs fits, whatever their model.
        self.gpus_of_any_model = min(self.of_gpus.values(), default=UNLIMITED)
        #: Whether all its lines are for GPUs, so that CPUs and memory need not be summed.
        self.is_of_gpus = len(self.of_gpus) == len(lines)

    def room(self, model: str, left: Mapping[str, float]) -> float:
        """Return the number of GPUs of a model for which there is room, given what is left by line."""
        return min(left.get(model, UNLIMITED), left.get(ALL_MODELS, UNLIMITED))


def quotas_of(tenant: Tenant | None) -> tuple[Quota, ...]:
    """Return the quotas of a tenant and of its users; most have none."""
    if tenant is None or not tenant.is_capped:
        return ()
    lines: dict[str, float] = {**tenant.quota}
    lines.update(_processors(tenant.quota_cpus, tenant.quota_memory_bytes))
    found = [Quota(tenant.name, "", lines)] if lines else []
    for limits in tenant.users:
        if own := _lines_of(limits):
            found.append(Quota(tenant.name, limits.user, own))
    return tuple(found)


def by_user(limits: Sequence[tuple[str, Limit]]) -> Callable[[str], Sequence[Limit]]:
    """Return a function that gives the limits against which the jobs of a user count.

    Each limit comes with its user; empty: it is for all users of the tenant.
    """
    of_all = [limit for user, limit in limits if not user]
    of_users: dict[str, list[Limit]] = {}
    for user, limit in limits:
        if user:
            of_users.setdefault(user, [*of_all]).append(limit)
    return lambda user: of_users.get(user, of_all)


def _lines_of(limits: UserLimits) -> dict[str, float]:
    own = _processors(limits.cpus, limits.memory_bytes)
    return own if limits.gpus is None else {ALL_MODELS: limits.gpus, **own}


def _processors(cpus: float | None, memory_bytes: int | None) -> dict[str, float]:
    given = {CPUS: cpus, MEMORY: memory_bytes}
    return {line: amount for line, amount in given.items() if amount is not None}


def held_by(job: Job, gpus: int) -> Amounts:
    """Return the amounts of a gang with this number of GPUs."""
    cpus, memory = 0.0, 0
    for need in needs_held(job, gpus):
        cpus += need.cpus
        memory += need.memory_bytes
    return Amounts(amount_of(job, gpus), exact(cpus), memory)


def held_with(job: Job, replicas: int) -> Amounts:
    """Return the amounts of a gang with this number of replicas; a gang that is not elastic has all of
    them.
    """
    return held_by(job, job.gpus if job.elastic is None else replicas * job.tasks[0].gpus)


def least_held(job: Job) -> Amounts:
    """Return the job's least amounts, whatever its size."""
    return _held_at(job, least_gpus(job))._replace(gpus=least_amount(job))


def most_held(job: Job) -> Amounts:
    """Return the job's largest amounts."""
    return least_held(job) if job.elastic is None else _held_at(job, job.elastic[1])


def most_gpus_held(job: Job) -> float:
    """Return the job's largest amount of GPUs."""
    if job.elastic is not None:
        return job.elastic[1]
    return job.milligpus / WHOLE_GPU if job.has_parts else job.gpus


def _held_at(job: Job, gpus: int) -> Amounts:
    if job.elastic is None:
        return held_by(job, gpus)
    each = growth_of(job)
    replicas = -(-gpus // job.tasks[0].gpus)
    # All replicas of a fixed world always run, with all their memory.
    memory = each.memory_bytes * replicas
    if job.elastic_mode == FIXED_WORLD:
        memory = job.tasks[0].replicas * job.tasks[0].memory_bytes
    return Amounts(gpus, exact(each.cpus * replicas), memory)


def growth_of(job: Job) -> Amounts:
    """Return the amounts of one more replica of an elastic gang."""
    task = job.tasks[0]
    memory = 0 if job.elastic_mode == FIXED_WORLD else task.memory_bytes
    return Amounts(task.gpus, task.cpus, memory)


def exact(amount: float) -> float:
    """Return a sum without rounding errors, since it is compared with a request."""
    return round(amount, 6)


def exceeds_quota(job: Job, quotas: Sequence[Quota], models: Callable[[], Sequence[str]]) -> Reason | None:
    """Return why a job exceeds all that its tenant, or its user there, may hold at once; else None.

    It counts against `quotas`. `models` returns the models on which it fits; few jobs are large enough to
    need it.
    """
    gpus = least_amount(job)
    for quota in quotas:
        if gpus > quota.gpus_of_any_model:
            room = {model: quota.room(model, quota.lines) for model in models()}
            most = max(room.values(), default=UNLIMITED)
            if gpus > most and quota.user:
                return _user_exceeds(job, least_held(job), quota, ALL_MODELS)
            if gpus > most:
                return _exceeds(job, quota, room)
        if quota.is_of_gpus:
            continue
        needs = least_held(job)
        for line in (CPUS, MEMORY):
            if needs.of(line) > quota.lines.get(line, UNLIMITED):
                refuse = _user_exceeds if quota.user else _exceeds_resources
                return refuse(job, needs, quota, line)
    return None


def _exceeds(job: Job, quota: Quota, room: Mapping[str, float]) -> Reason:
    model = max(room, key=lambda model: room[model])
    most = int(room[model])
    cap = wording.gpus(most, [model] if model in quota.of_gpus else job.gpu_models)
    return Reason(
        code="exceeds_quota",
        tier=Tier.NEVER,
        message=f"Tenant {job.tenant} may hold at most {cap} at once; this job needs"
        f" {least_amount(job):.12g}.",
        blocking={"tenant": job.tenant, "quota": quota.of_gpus},
        needed=least_gpus(job),
        available=most,
        hint=_advice(most, cap, "an operator for more quota"),
    )


def _exceeds_resources(job: Job, needs: Amounts, quota: Quota, line: str) -> Reason:
    cap = _said(line, quota.lines[line])
    return Reason(
        code="exceeds_quota_resources",
        tier=Tier.NEVER,
        message=f"Tenant {job.tenant} may hold at most {cap} at once; this job needs"
        f" {_said(line, needs.of(line))}.",
        blocking=_blocking(quota, line),
        hint=_advice(quota.lines[line], f"{cap} in all", "an operator for more quota"),
    )


def _user_exceeds(job: Job, needs: Amounts, quota: Quota, line: str) -> Reason:
    cap = _said(line, quota.lines[line])
    return Reason(
        code="exceeds_user_quota",
        tier=Tier.NEVER,
        message=f"User {job.user} may hold at most {cap} at once in tenant {job.tenant}; this job needs"
        f" {_said(line, needs.of(line))}.",
        blocking=_blocking(quota, line),
        hint=_advice(quota.lines[line], f"{cap} in all", "an admin of the tenant for more"),
    )


def _advice(most: float, cap: str, otherwise: str) -> str:
    """Return what to ask for: less, unless the quota is 0, or more quota."""
    return f"Ask for at most {cap}, or {otherwise}." if most else f"Ask {otherwise}."


def over_quota(job: Job, needs: Amounts, quota: Quota, left: Mapping[str, float]) -> Reason:
    """Return why a job waits for a quota of which `left` is left."""
    lacking = [line for line in (CPUS, MEMORY) if needs.of(line) > left.get(line, UNLIMITED)]
    of_gpus = sorted(quota.of_gpus)
    accepted = [line for line in of_gpus if line in (ALL_MODELS, *(job.gpu_models or of_gpus))]
    line = lacking[0] if lacking else min(accepted, key=lambda line: left[line])
    held = exact(quota.lines[line] - left[line])
    if quota.user:
        return _over_user_quota(job, needs, quota, line, held)
    return (
        _over_resources(job, needs, quota, line, held)
        if lacking
        else _over_gpus(job, needs, quota, line, held)
    )


def _over_gpus(job: Job, needs: Amounts, quota: Quota, line: str, held: float) -> Reason:
    cap = quota.lines[line]
    return Reason(
        code="quota",
        tier=Tier.QUOTA,
        message=f"Tenant {job.tenant} has a quota of {_said(line, cap)}; {held:g} are used"
        f" by its jobs or reserved for jobs ahead, and this job needs {needs.gpus:g}.",
        blocking={"tenant": job.tenant, "quota": {line: cap}},
        needed=math.ceil(needs.gpus),
        available=max(int(cap - held), 0),
        hint="It is considered as soon as other jobs of the tenant end, or an operator raises the quota.",
    )


def _over_resources(job: Job, needs: Amounts, quota: Quota, line: str, held: float) -> Reason:
    return Reason(
        code="quota_resources",
        tier=Tier.QUOTA,
        message=f"Tenant {job.tenant} has a quota of {_said(line, quota.lines[line])}; {_said(line, held)}"
        " are used by its jobs or reserved for jobs ahead, and this job needs"
        f" {_said(line, needs.of(line))}.",
        blocking=_blocking(quota, line) | {"held": held},
        hint="It is considered as soon as other jobs of the tenant end, or an operator raises the quota.",
    )


def _over_user_quota(job: Job, needs: Amounts, quota: Quota, line: str, held: float) -> Reason:
    return Reason(
        code="user_quota",
        tier=Tier.QUOTA,
        message=f"User {job.user} has a quota of {_said(line, quota.lines[line])} in tenant {job.tenant};"
        f" {_said(line, held)} are used by the user's jobs or reserved for jobs ahead, and this job needs"
        f" {_said(line, needs.of(line))}.",
        blocking=_blocking(quota, line) | {"held": held},
        hint="It is considered as soon as other jobs of the user end, or an admin of the tenant raises the"
        " quota.",
    )


def _blocking(quota: Quota, line: str) -> dict[str, object]:
    whose = {"tenant": quota.tenant, "user": quota.user} if quota.user else {"tenant": quota.tenant}
    return {**whose, "resource": _RESOURCES[line], "limit": quota.lines[line]}


def _said(line: str, amount: float) -> str:
    """Return "4 GPUs", "4 V100", "8 CPUs" or "2 GiB of memory"."""
    if line == CPUS:
        return f"{amount:.12g} {'CPU' if amount == 1 else 'CPUs'}"
    if line == MEMORY:
        return f"{wording.gibibytes(amount)} of memory"
    return wording.gpus(amount, () if line == ALL_MODELS else [line])
