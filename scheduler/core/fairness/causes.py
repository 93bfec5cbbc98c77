"""Explain why a tenant's jobs do less here than on its own part alone: a code and a sentence with figures.

Several causes may hold at once; the first in the order of `Cause` is reported. So the order runs from what a
person decided, through what is broken, to what only the policy can know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduler.core.fairness.division import Account, Division, Standing
from scheduler.core.fairness.properties import WINDOW_SECONDS
from scheduler.core.fitting.demand import amount_of
from scheduler.core.fitting.quotas import CPUS, MEMORY, held_with, least_held
from scheduler.core.lending.in_force import active
from scheduler.core.lending.lots import words_of
from scheduler.core.model import wording
from scheduler.core.model.snapshot import Job, Node, Tenant

#: Policies that divide a virtual cluster by the weights of its members, and policies that weigh jobs or apps.
BY_WEIGHT = frozenset({"drf", "fair", "gandiva_fair"})
BY_JOB = frozenset({"gavel", "themis"})
#: The prefix of `gavel` objectives that consider tenants first.
HIERARCHICAL = "hierarchical"
#: The key of a quota line that caps all GPU models together.
ANY_MODEL = "*"
#: The most waiting jobs that are examined; thousands may wait, and most are alike.
MOST_LOOKED_AT = 200
#: Fewer GPUs count as none.
NEGLIGIBLE = 1e-6


class Cause(StrEnum):
    QUOTA = "quota"
    GUARANTEE_LENT = "guarantee_lent"
    BROKEN_HARDWARE = "broken_hardware"
    FRAGMENTED = "fragmented"
    LEFT_IDLE = "left_idle"
    JUST_ARRIVED = "just_arrived"
    POLICY_IGNORES_WEIGHTS = "policy_ignores_weights"
    RESTARTED = "restarted"
    SLOWER_GPUS = "slower_gpus"
    OTHERS_HOLD_MORE = "others_hold_more"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Finding:
    cause: Cause
    message: str


def cause_of(account: Account, virtual_cluster: str, tenant: str, demand_since: float) -> Finding:
    """Return the cause; `demand_since` is when the tenant's present demand began."""
    circumstances = _Circumstances(account, virtual_cluster, tenant, demand_since)
    for look in _LOOKS:
        finding = look(circumstances)
        if finding is not None:
            return finding
    return _others_hold_more(circumstances)


class _Circumstances:
    """The facts about one tenant of a virtual cluster from which its cause is found."""

    def __init__(self, account: Account, virtual_cluster: str, tenant: str, demand_since: float) -> None:
        self.account, self.snapshot, self.facts = account, account.snapshot, account.facts
        self.division: Division = account.divisions[virtual_cluster]
        self.standing: Standing = self.division.standings[tenant]
        self.demand_since = demand_since

    @property
    def waiting_gpus(self) -> float:
        return sum(amount_of(job) for job in self.standing.waiting)

    @property
    def waiting(self) -> tuple[Job, ...]:
        """Return its waiting jobs that are examined one by one."""
        return self.standing.waiting[:MOST_LOOKED_AT]

    @property
    def others(self) -> tuple[float, float]:
        """Return the GPUs that all other tenants hold, and the sum of their parts."""
        others = [each for each in self.division.standings.values() if each is not self.standing]
        held = sum(sum(each.received.values()) for each in others)
        return held, sum(sum(each.own.values()) for each in others)

    @property
    def others_hold_more(self) -> bool:
        """Return whether another tenant holds more of a model than its part, or this one lends to another."""
        others = [each for each in self.division.standings.values() if each is not self.standing]
        return self.standing.lent > NEGLIGIBLE or any(each.borrowed > NEGLIGIBLE for each in others)

    def models(self, job: Job) -> tuple[str, ...]:
        return job.gpu_models or tuple(sorted(self.division.virtual_cluster.guaranteed))


def _quota(seen: _Circumstances) -> Finding | None:
    if not seen.standing.waiting:
        return None
    tenant = seen.facts.tenants.get(seen.standing.tenant)
    if tenant is not None and tenant.has_spent(seen.snapshot.now):
        return Finding(Cause.QUOTA, f"{tenant.name} has used up its budget.")
    held: dict[str, float] = {}
    for vc in seen.account.divisions.values():
        standing = vc.standings.get(seen.standing.tenant)
        for model, gpus in standing.received.items() if standing else ():
            held[model] = held.get(model, 0.0) + gpus
    smallest = min(amount_of(job) for job in seen.standing.waiting)
    for model, limit in sorted(tenant.quota.items()) if tenant else ():
        has = sum(held.values()) if model == ANY_MODEL else held.get(model, 0.0)
        if has + smallest > limit and (model == ANY_MODEL or _all_need(seen, model)):
            what = "GPUs" if model == ANY_MODEL else model
            return Finding(
                Cause.QUOTA,
                f"{seen.standing.tenant} holds {has:.4g} of the {limit} {what} that its quota allows.",
            )
    return _processors_of_quota(seen, tenant) if tenant else None


def _processors_of_quota(seen: _Circumstances, tenant: Tenant) -> Finding | None:
    """Return that its quota of CPUs or memory has too little left for every waiting job."""
    limits = {CPUS: tenant.quota_cpus, MEMORY: tenant.quota_memory_bytes}
    for line, limit in limits.items():
        if limit is None:
            continue
        jobs, current = seen.facts.by_tenant.get(tenant.name, {}), seen.facts.current
        has = sum(
            [
                held_with(job, len(current[number].replicas)).of(line)
                for number, job in jobs.items()
                if number in current
            ]
        )
        if all([has + least_held(job).of(line) > limit for job in seen.standing.waiting]):
            what = wording.processors(limit, 0) if line == CPUS else wording.processors(0, limit)
            share = has / limit if limit else 1.0
            message = f"{tenant.name} holds {share:.0%} of the {what} that its quota allows."
            return Finding(Cause.QUOTA, message)
    return None


def _all_need(seen: _Circumstances, model: str) -> bool:
    """Return whether all its waiting jobs accept only that model."""
    return all(job.gpu_models == (model,) for job in seen.standing.waiting)


def _guarantee_lent(seen: _Circumstances) -> Finding | None:
    lending, name = seen.snapshot.lending, seen.division.virtual_cluster.name
    lent = (
        [loan for loan in active(lending.loans, seen.snapshot.now) if loan.lender == name] if lending else []
    )
    in_force = seen.division.virtual_cluster.guaranteed
    missing = {
        model: gpus - in_force.get(model, 0)
        for model, gpus in seen.division.own.items()
        if gpus > in_force.get(model, 0)
    }
    if not (lent and missing):
        return None
    ends_at = max(loan.ends_at for loan in lent)
    words = wording.listed([f"{words_of(loan.lot)} to {loan.borrower}" for loan in lent])
    return Finding(
        Cause.GUARANTEE_LENT,
        f"Virtual cluster {name} has lent {words}; all of it is back at {wording.instant(ends_at)}.",
    )


def _broken_hardware(seen: _Circumstances) -> Finding | None:
    if not seen.standing.waiting:
        return None
    for model in sorted(seen.division.own):
        fleet = seen.facts.cluster.fleets.get(model)
        usable = fleet.total_usable if fleet else 0
        guaranteed = sum(vc.guaranteed.get(model, 0) for vc in seen.snapshot.virtual_clusters)
        accepted = any(not job.gpu_models or model in job.gpu_models for job in seen.standing.waiting)
        if accepted and usable < guaranteed:
            nodes = fleet.nodes if fleet else ()
            named = [words for node in nodes if (words := _trouble(node))]
            why = f": {wording.listed(named)}" if named else ""
            return Finding(
                Cause.BROKEN_HARDWARE,
                f"Virtual clusters are guaranteed {guaranteed} {model}, of which {usable} can be used{why}.",
            )
    return None


def _trouble(node: Node) -> str:
    if node.loan is not None and not node.takes_work:
        return f"node {node.name} is not lent by its serving pool {node.loan.pool}"
    if not node.schedulable:
        return f"node {node.name} takes no work"
    broken = sum(not gpu.healthy for gpu in node.gpus)
    return (
        f"{wording.gpus(broken)} of node {node.name} {'is' if broken == 1 else 'are'} broken"
        if broken
        else ""
    )


def _fragmented(seen: _Circumstances) -> Finding | None:
    """Return that enough GPUs for a waiting gang are idle, but no node has enough of them."""
    room = _room_left(seen)
    for job in seen.waiting:
        largest = max(task.gpus for task in job.tasks)
        for model in seen.models(job):
            idle = seen.account.idle.of(model)
            if min(sum(idle), room.get(model, 0.0)) >= job.gpus and max(idle, default=0) < largest:
                return Finding(
                    Cause.FRAGMENTED,
                    f"{sum(idle)} {model} are idle, but no node has the {largest} of them that job {job.id}"
                    " needs side by side.",
                )
    return None


def _room_left(seen: _Circumstances) -> dict[str, float]:
    """Return the GPUs by model that the virtual cluster may still use of its guarantee."""
    held: dict[str, float] = {}
    for standing in seen.division.standings.values():
        for model, gpus in standing.received.items():
            held[model] = held.get(model, 0.0) + gpus
    in_force = seen.division.virtual_cluster.guaranteed
    return {model: gpus - held.get(model, 0.0) for model, gpus in in_force.items()}


def _left_idle(seen: _Circumstances) -> Finding | None:
    """Return that the policy or the placer lets a job wait that would fit."""
    room, vc = _room_left(seen), seen.division.virtual_cluster
    for job in seen.waiting:
        for model in seen.models(job):
            idle, task = seen.account.idle.of(model), job.tasks[0]
            fits = _asks_for_gpus_alone(job) and sum(count // task.gpus for count in idle) >= task.replicas
            if fits and room.get(model, 0.0) >= job.gpus:
                return Finding(
                    Cause.LEFT_IDLE,
                    f"{sum(idle)} {model} are idle, and policy {vc.policy} with placer {vc.placer} lets job"
                    f" {job.id} wait, which needs {job.gpus}.",
                )
    return None


def _asks_for_gpus_alone(job: Job) -> bool:
    """Return whether counting GPUs suffices to see whether the gang fits."""
    task = job.tasks[0]
    is_near = job.topology is not None and job.topology.required
    return len(job.tasks) == 1 and not (task.cpus or task.memory_bytes or is_near)


def _just_arrived(seen: _Circumstances) -> Finding | None:
    passed = seen.snapshot.now - seen.demand_since
    if passed >= WINDOW_SECONDS or not (seen.standing.waiting and seen.others_hold_more):
        return None
    return Finding(
        Cause.JUST_ARRIVED,
        f"Its jobs came {wording.duration(passed)} ago; others hand over GPUs as their turns and leases end.",
    )


def _policy_ignores_weights(seen: _Circumstances) -> Finding | None:
    if not seen.others_hold_more:
        return None
    vc = seen.division.virtual_cluster
    objective = str(vc.policy_parameters.get("objective", ""))
    if vc.policy in BY_WEIGHT or (vc.policy == "gavel" and objective.startswith(HIERARCHICAL)):
        return None
    if vc.policy in BY_JOB:
        return Finding(
            Cause.POLICY_IGNORES_WEIGHTS,
            f"Policy {vc.policy} weighs jobs or apps and not their tenants, so that more of them have more;"
            f" {_holdings(seen)}.",
        )
    return Finding(
        Cause.POLICY_IGNORES_WEIGHTS,
        f"Policy {vc.policy} does not divide virtual cluster {vc.name} by the weights of its members;"
        f" {_holdings(seen)}.",
    )


def _restarted(seen: _Circumstances) -> Finding | None:
    stopped = [job for job in seen.standing.waiting if job.attempts]
    if not stopped or 2 * sum(amount_of(job) for job in stopped) < seen.waiting_gpus:
        return None
    return Finding(
        Cause.RESTARTED,
        f"What waits has lost GPUs that it had: {wording.jobs([job.id for job in stopped])} ran before.",
    )


def _slower_gpus(seen: _Circumstances) -> Finding | None:
    standing = seen.standing
    has, due = sum(standing.received.values()), min(sum(standing.own.values()), standing.demand_gpus)
    if has < due * (1 - NEGLIGIBLE) or not has:
        return None
    if standing.spread:
        return Finding(
            Cause.FRAGMENTED,
            f"It has its part, but on more nodes than need be: {wording.jobs(standing.spread)}.",
        )
    return Finding(
        Cause.SLOWER_GPUS,
        f"It has {_words(standing.received)}; of its own part, {_words(standing.own)}, its jobs would make"
        " more.",
    )


def _others_hold_more(seen: _Circumstances) -> Finding:
    if seen.others_hold_more:
        return Finding(Cause.OTHERS_HOLD_MORE, f"Tenant {_holdings(seen)}.")
    return Finding(Cause.OTHER, f"Tenant {_holdings(seen)}; CPUs, memory or a topology level may be short.")


def _holdings(seen: _Circumstances) -> str:
    """Return how much of its part the tenant has, and the others together, since its members read this."""
    standing, (theirs, part) = seen.standing, seen.others
    return (
        f"{standing.tenant} holds {_words(standing.received)} of its own part of {_words(standing.own)}, and"
        f" all others {theirs:.4g} GPUs of theirs of {part:.4g}"
    )


def _words(gpus: Mapping[str, float]) -> str:
    named = [f"{count:.4g} {model}" for model, count in sorted(gpus.items()) if count > NEGLIGIBLE]
    return wording.listed(named) or "no GPUs"


_LOOKS: tuple[Callable[[_Circumstances], Finding | None], ...] = (
    _quota,
    _guarantee_lent,
    _broken_hardware,
    _fragmented,
    _left_idle,
    _just_arrived,
    _policy_ignores_weights,
    _restarted,
    _slower_gpus,
)
