"""Check that under a plan no tenant, and no user with limits, holds more at once than allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scheduler.core.model.errors import PlanError
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.plan import Action
from scheduler.core.model.snapshot import FIXED_WORLD, GpuId, Job, JobId, Running, Snapshot, Tenant

#: A limit's owner (tenant, user or ""), and its resource: a GPU model, "*", "cpus" or "memory".
Line = tuple[str, str, str]
#: CPUs are compared in millionths, so that sums are exact.
_CPU = 1_000_000


def check_quotas(
    snapshot: Snapshot,
    placed: Mapping[JobId, Action],
    kept: Mapping[JobId, Running],
    current: Mapping[JobId, Running],
) -> None:
    """Raise PlanError where a limit is exceeded and more is held than before."""
    caps = {line: cap for tenant in snapshot.tenants for line, cap in _caps(tenant)}
    if not caps:
        return
    used, before = dict.fromkeys(caps, 0), dict.fromkeys(caps, 0)
    by_owner: dict[tuple[str, str], list[Line]] = {}
    for line in caps:
        by_owner.setdefault(line[:2], []).append(line)
    tenants = {line[0] for line in caps}
    known = {job.id: job for job in snapshot.jobs if job.tenant in tenants}
    for number, action in placed.items():
        if action.placement is not None and number in known:
            job = known[number]
            _add(
                (used,), _lines_of(job, by_owner), job, action.placement.gpu_model, action.placement.replicas
            )
    for number, running in current.items():
        if number in known:
            job = known[number]
            # Jobs that stay, which are nearly all, count in both.
            both = (before, used) if number in kept else (before,)
            _add(both, _lines_of(job, by_owner), job, running.gpu_model, running.replicas)
    for line, cap in caps.items():
        if used[line] > max(cap, before[line]):
            tenant, user, what = line
            whose = f"user {user} of tenant {tenant}" if user else f"tenant {tenant}"
            unit = {"cpus": _CPU, "memory": 1}.get(what, WHOLE_GPU)
            raise PlanError(
                f"{whose} would hold {used[line] / unit:.12g} ({what}), more than its quota {cap / unit:.12g}"
            )


def _caps(tenant: Tenant) -> Iterator[tuple[Line, int]]:
    for model, gpus in tenant.quota.items():
        yield (tenant.name, "", model), gpus * WHOLE_GPU
    yield from _processors(tenant.name, "", tenant.quota_cpus, tenant.quota_memory_bytes)
    for limits in tenant.users:
        if limits.gpus is not None:
            yield (tenant.name, limits.user, "*"), limits.gpus * WHOLE_GPU
        yield from _processors(tenant.name, limits.user, limits.cpus, limits.memory_bytes)


def _processors(
    tenant: str, user: str, cpus: float | None, memory_bytes: int | None
) -> Iterator[tuple[Line, int]]:
    if cpus is not None:
        yield (tenant, user, "cpus"), round(cpus * _CPU)
    if memory_bytes is not None:
        yield (tenant, user, "memory"), memory_bytes


def _lines_of(job: Job, by_owner: Mapping[tuple[str, str], Sequence[Line]]) -> Sequence[Line]:
    """Return the limits that apply to a job."""
    lines = by_owner.get((job.tenant, ""), ())
    return [*lines, *by_owner.get((job.tenant, job.user), ())] if job.user else lines


def _add(
    counts: Sequence[dict[Line, int]],
    lines: Sequence[Line],
    job: Job,
    model: str,
    replicas: tuple[tuple[GpuId, ...], ...],
) -> None:
    """Count what a gang holds on these lines."""
    gpus = job.milligpus if job.has_parts else sum(map(len, replicas)) * WHOLE_GPU
    for line in lines:
        what = line[2]
        if what in ("cpus", "memory"):
            amount = _stated(job, len(replicas))[what == "memory"]
        elif what in (model, "*"):
            amount = gpus
        else:
            continue
        for each in counts:
            each[line] += amount


def _stated(job: Job, replicas: int) -> tuple[int, int]:
    """Return the CPUs, and bytes of memory, that a gang of this number of replicas states."""
    cpus = memory = 0
    for task in job.tasks:
        number, each = task.replicas, task.memory_bytes
        if job.elastic is not None:
            number = replicas
            if job.elastic_mode == FIXED_WORLD and replicas < task.replicas:
                # A device holds all the replicas that take turns on it.
                each *= -(-task.replicas // max(replicas, 1))
        cpus += round(number * task.cpus * _CPU)
        memory += number * each
    return cpus, memory
