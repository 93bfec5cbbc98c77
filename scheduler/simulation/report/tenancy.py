"""Fairness to each tenant: the GPU time it was entitled to, had, and would have had on its own part alone.

At any instant the guaranteed jobs of a tenant in a virtual cluster are its demand. It is *entitled* to its
part of the GPUs that the virtual cluster is guaranteed, by its weight among the tenants with demand at that
instant, plus what others cannot use (water filling, `core.building_blocks.entitlement`). All models count
equally there.

The worth of GPU time to a tenant depends on the model: an hour counts by the speed of its jobs there relative
to their best model. *Alone*, it would have had its part of every model among all members, whether these have
demand or not, its best models first and as far as its demand goes. A tenant that had less worth than that is
better off alone. Both are sums over equidistant instants.

Apps are those of `core.policies.themis.apps`: one job, or all jobs of a tenant that name the same search.
Here the whole life of an app is known, so rho = T / T_alone. T is the time from the first submission to the
last end. T_alone is the time that the app would have taken on an n-th of the C GPUs, where n is the mean
number of apps in the system:

    T_alone = max(last submission + its job's run time alone, ... of every job; GPU time of all · n / C)

For an app of one job this is the rho of `fairness`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.sim.result import JobRecord, Result
from scheduler.simulation.report.distribution import Floats
from scheduler.simulation.report.fairness import jain_index, mean_contention

#: The number of instants at which entitlements are computed.
INSTANTS = 500
#: A loss below this part of what a tenant would have had alone counts as rounding.
TOLERANCE = 0.01
HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantShare:
    """What a tenant was entitled to and had, over the whole run; rho over its apps that ended."""

    tenant: str
    #: For guaranteed jobs, like the three below.
    entitled_gpu_hours: float
    received_gpu_hours: float
    #: The worth of what it had, in GPU-hours of its jobs' best model, and of what it would have had alone.
    worth_gpu_hours: float
    alone_gpu_hours: float
    #: None where there is no other tenant to share with.
    better_off_alone: bool | None
    apps: int
    worst_rho: float | None
    mean_rho: float | None
    rho_above_one: float | None


def tenant_shares(result: Result, measured: Sequence[JobRecord]) -> tuple[TenantShare, ...]:
    """Return the shares by tenant; rho is over the apps whose jobs are all measured and have ended."""
    possible = [job for job in result.jobs if job.outcome != "never"]
    entitled, alone = _entitlements(result, possible)
    received, worth = _received(result, possible, entitled)
    rho = _rho_by_tenant(result, possible, measured)
    return tuple(
        [
            TenantShare(
                tenant=tenant,
                entitled_gpu_hours=entitled[tenant],
                received_gpu_hours=received[tenant],
                worth_gpu_hours=worth[tenant],
                alone_gpu_hours=alone[tenant],
                better_off_alone=worth[tenant] < alone[tenant] * (1 - TOLERANCE)
                if len(entitled) > 1
                else None,
                apps=len(found),
                worst_rho=max(found) if found else None,
                mean_rho=sum(found) / len(found) if found else None,
                rho_above_one=sum([one > 1 + 1e-9 for one in found]) / len(found) if found else None,
            )
            for tenant in sorted(entitled)
            for found in (rho.get(tenant, []),)
        ]
    )


def jain_of_parts(shares: Iterable[TenantShare]) -> float | None:
    """Return Jain's index of the parts of their entitlements that tenants had."""
    parts = [one.received_gpu_hours / one.entitled_gpu_hours for one in shares if one.entitled_gpu_hours > 0]
    return jain_index(np.array(parts, dtype=float))


def _received(
    result: Result, jobs: Sequence[JobRecord], tenants: Iterable[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the GPU-hours that guaranteed jobs of tenants had, and their worth to the tenants."""
    received, worth = dict.fromkeys(tenants, 0.0), dict.fromkeys(tenants, 0.0)
    owners = {job.id: job.tenant for job in jobs if job.guaranteed}
    for job in jobs:
        if job.guaranteed:
            received[job.tenant] += job.gpu_seconds / HOUR
            worth[job.tenant] += job.gpu_seconds / HOUR
    for stay in result.stays:
        tenant = owners.get(stay.job)
        if tenant is not None and (speed := _speed(result, tenant, stay.gpu_model)) != 1:
            worth[tenant] -= (1 - speed) * stay.amount * (stay.ended_at - stay.started_at) / HOUR
    return received, worth


def _speed(result: Result, tenant: str, model: str) -> float:
    return result.speeds.get(tenant, {}).get(model, 1.0)


def _entitlements(result: Result, jobs: Sequence[JobRecord]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the GPU-hours that tenants with guaranteed jobs are entitled to, and would have alone."""
    span = result.ended_at - result.began_at
    instants = result.began_at + (np.arange(INSTANTS) + 0.5) * span / INSTANTS
    demands: dict[str, dict[str, list[JobRecord]]] = {}
    for job in jobs:
        if job.guaranteed:
            demands.setdefault(job.virtual_cluster, {}).setdefault(job.tenant, []).append(job)
    entitled: dict[str, float] = {}
    alone: dict[str, float] = {}
    for vc, by_tenant in sorted(demands.items()):
        members = result.members.get(vc, {})
        by_model = result.guaranteed.get(vc, result.gpus_by_model)
        gpus = sum(by_model.values())
        weights = np.array([members.get(tenant, 1.0) for tenant in by_tenant])
        demand = np.array([_demand(found, instants, result.ended_at) for found in by_tenant.values()])
        parts = _water_filled(gpus, weights, demand).mean(axis=1) * span / HOUR
        everyone = sum(members.values()) or float(weights.sum())
        for place, tenant in enumerate(by_tenant):
            entitled[tenant] = entitled.get(tenant, 0.0) + float(parts[place])
            part = {model: count * weights[place] / everyone for model, count in by_model.items()}
            own = _alone(demand[place], part, result.speeds.get(tenant, {})).mean() * span / HOUR
            alone[tenant] = alone.get(tenant, 0.0) + float(own)
    return entitled, alone


def _alone(demand: Floats, part: Mapping[str, float], speeds: Mapping[str, float]) -> Floats:
    """Return the worth of the part for that demand, by instant, with the best models first."""
    left, done = demand, np.zeros_like(demand)
    for model in sorted(part, key=lambda model: (-speeds.get(model, 1.0), model)):
        used = np.minimum(left, part[model])
        left, done = left - used, done + speeds.get(model, 1.0) * used
    return done


def _demand(jobs: Sequence[JobRecord], instants: Floats, ended_at: float) -> Floats:
    """Return the GPUs of the jobs that were submitted and had not ended, by instant."""
    began = np.array([job.submitted_at for job in jobs])
    ended = np.array([ended_at + 1 if job.ended_at is None else job.ended_at for job in jobs])
    gpus = np.array([float(job.gpus) for job in jobs])
    return _at_most(began, gpus, instants) - _at_most(ended, gpus, instants)


def _at_most(times: Floats, amounts: Floats, instants: Floats) -> Floats:
    """Return the sum of the amounts with a time at or before each instant."""
    order = np.argsort(times, kind="stable")
    sums = np.concatenate(([0.0], np.cumsum(amounts[order])))
    come: Floats = sums[np.searchsorted(times[order], instants, side="right")]
    return come


def _water_filled(gpus: float, weights: Floats, demand: Floats) -> Floats:
    """Return the parts of the GPUs, one row per tenant and one column per instant."""
    parts = np.zeros_like(demand)
    left = np.full(demand.shape[1], float(gpus))
    asks = (demand > 0) & (weights > 0)[:, None]
    for _ in range(len(weights)):
        total = (asks * weights[:, None]).sum(axis=0)
        level = np.divide(left, total, out=np.zeros_like(left), where=total > 0)
        content = asks & (demand <= weights[:, None] * level)
        parts = np.where(content, demand, parts)
        left = left - np.where(content, demand, 0.0).sum(axis=0)
        # Where every tenant wants more than an even part, each that asks gets one.
        last = asks & ~content.any(axis=0)
        parts = np.where(last, weights[:, None] * level, parts)
        asks = asks & ~content & ~last
        if not asks.any():
            break
    return parts


def _rho_by_tenant(
    result: Result, jobs: Sequence[JobRecord], measured: Sequence[JobRecord]
) -> Mapping[str, list[float]]:
    apps: dict[str, list[JobRecord]] = {}
    for job in jobs:
        apps.setdefault(f"{job.tenant}/{job.search}" if job.search else str(job.id), []).append(job)
    ids = {job.id for job in measured}
    began = [min([job.submitted_at for job in app]) for app in apps.values()]
    ended = [_end(app, result.ended_at) for app in apps.values()]
    chosen = [
        place
        for place, app in enumerate(apps.values())
        if all([job.id in ids and job.ended_at is not None and job.attempts > 0 for job in app])
    ]
    starts, ends = np.array(began, dtype=float), np.array(ended, dtype=float)
    together = mean_contention(starts[chosen], ends[chosen], among_began=starts, among_ended=ends)
    found: dict[str, list[float]] = {}
    members, cluster = list(apps.values()), max(1, sum(result.gpus_by_model.values()))
    for place, contention in zip(chosen, together.tolist(), strict=True):
        app, first = members[place], began[place]
        runs = [(job.submitted_at - first, job.work_seconds / job.best_rate, job.gpus) for job in app]
        gpu_seconds = sum([seconds * gpus for _, seconds, gpus in runs])
        alone = max(max([later + seconds for later, seconds, _ in runs]), gpu_seconds * contention / cluster)
        # An app without work has no ratio to its run time.
        if alone > 0:
            found.setdefault(app[0].tenant, []).append((ended[place] - first) / alone)
    return found


def _end(app: Sequence[JobRecord], until: float) -> float:
    return max([until if job.ended_at is None else job.ended_at for job in app])
