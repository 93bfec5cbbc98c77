"""How virtual clusters are divided among their tenants at the instant of a snapshot.

This includes how fast a tenant's jobs would be on its own part of a virtual cluster without other tenants. A
part is seldom a whole number of GPUs. If it is 2.5 GPUs, two are there all the time and a third half of the
time. So a gang runs for the part of the time for which it has enough GPUs. A gang larger than the part,
rounded up, never runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scheduler.core.building_blocks.entitlement import NOTHING, Claim, claim_of, entitled
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.run_options import RunOption, RunOptions
from scheduler.core.fairness.holders import Holders, Idle, TenantHoldings
from scheduler.core.fairness.lent import Share, Use, uses
from scheduler.core.fairness.tiers import Use as TierUse
from scheduler.core.fairness.tiers import uses_of
from scheduler.core.model.snapshot import Job, JobId, Memory, Snapshot, VirtualCluster
from scheduler.core.policies.themis.apps import (
    App,
    Contention,
    apps_of,
    elapsed_seconds,
    even_rate,
    rho,
    rho_now,
)
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.facts import Facts
from scheduler.core.solvers.checking import ABSURD

Gpus = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A tenant in a virtual cluster. GPUs are by model; speeds count GPUs of each job's best model."""

    tenant: str
    weight: float = 0.0
    jobs_running: int = 0
    jobs_waiting: int = 0
    #: GPUs that its guaranteed jobs could use at once; parts of GPUs count as parts, here and below.
    demand_gpus: float = 0.0
    #: When the oldest of these jobs could first run; None if there are none.
    demand_since: float | None = None
    #: Its part, by weight, of the virtual cluster's own guarantee, lent or not.
    own: Gpus = field(default_factory=dict)
    #: Its part of what is in force now, as far as it can use it, plus what others leave.
    entitled: Gpus = field(default_factory=dict)
    #: What its guaranteed jobs hold.
    received: Gpus = field(default_factory=dict)
    #: The GPUs it holds beyond its own part, and those of its part that others hold.
    borrowed: float = 0.0
    lent: float = 0.0
    traded_in: Gpus = field(default_factory=dict)
    traded_out: Gpus = field(default_factory=dict)
    #: The speed of all its running jobs, and that of its guaranteed jobs on its own part alone
    #: (`_Draft._alone`).
    speed_here: float = 0.0
    speed_alone: float = 0.0
    #: How fast its guaranteed jobs are on each model, on average, relative to each one's best.
    speeds: Gpus = field(default_factory=dict)
    #: The finish-time fairness of its apps; None if it has none.
    rho_worst: float | None = None
    rho_mean: float | None = None
    #: GPUs that its guaranteed jobs demand by their own sizes, and those of them that they have
    #: (`tiers.uses_of`).
    demanded_gpus: float = 0.0
    useful_gpus: float = 0.0
    #: Its guaranteed jobs that wait and could run here.
    waiting: tuple[Job, ...] = ()
    #: Its jobs that are slower because they are on more nodes than they need.
    spread: tuple[JobId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """A virtual cluster at an instant."""

    virtual_cluster: VirtualCluster
    #: Its own guarantee, whatever it has lent or borrowed.
    own: Mapping[str, int]
    #: By tenant: its members, and other tenants with jobs in it.
    standings: Mapping[str, Standing]
    #: What the account of the next instant needs.
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """All virtual clusters at an instant."""

    snapshot: Snapshot
    facts: Facts
    idle: Idle
    divisions: Mapping[str, Division]


def account_of(snapshot: Snapshot, memory: Mapping[str, Memory]) -> Account:
    """Return how virtual clusters are divided; `memory` is that of the last account, by virtual cluster."""
    engine = RoundEngine(snapshot)
    views = engine.views()
    holders = Holders(engine.facts)
    jobs: dict[str, list[Job]] = {vc.name: [] for vc in snapshot.virtual_clusters}
    for job in snapshot.jobs:
        jobs.setdefault(job.virtual_cluster, []).append(job)
    drafts = []
    for vc in snapshot.virtual_clusters:
        run_options = RunOptions(views[vc.name])
        rhos, remembered = rhos_of(views[vc.name], run_options, memory.get(vc.name, {}))
        draft = _Draft(snapshot, vc, run_options, jobs[vc.name], holders)
        drafts.append((draft, rhos, remembered))
    shares = {
        (draft.vc.name, tenant): draft.share(tenant) for draft, _, _ in drafts for tenant in draft.tenants
    }
    demands = {name: uses_of(view) for name, view in views.items()}
    used = uses(shares, _unguaranteed(snapshot))
    divisions = {
        draft.vc.name: Division(
            virtual_cluster=draft.vc,
            own=draft.guaranteed,
            standings={
                tenant: draft.standing(
                    tenant, used[draft.vc.name, tenant], rhos.get(tenant, ()), demands[draft.vc.name]
                )
                for tenant in draft.tenants
            },
            memory=remembered,
        )
        for draft, rhos, remembered in drafts
    }
    facts = engine.facts
    return Account(snapshot=snapshot, facts=facts, idle=Idle(facts), divisions=divisions)


class _Draft:
    """One virtual cluster, before it is known which tenants borrow from which."""

    def __init__(
        self,
        snapshot: Snapshot,
        vc: VirtualCluster,
        run_options: RunOptions,
        jobs: Iterable[Job],
        holders: Holders,
    ) -> None:
        self.vc = vc
        self._now, self._run_options, self._holders = snapshot.now, run_options, holders
        own = snapshot.lending.own_gpus if snapshot.lending is not None else {}
        self.guaranteed: Mapping[str, int] = own.get(vc.name, vc.guaranteed)
        self._jobs: dict[str, list[Job]] = {member.tenant: [] for member in vc.members}
        for job in jobs:
            self._jobs.setdefault(job.tenant, []).append(job)
        self.tenants = sorted(self._jobs)
        self._weights = _weights(vc, self.tenants)
        self._wanting = {tenant: self._demands(self._jobs[tenant]) for tenant in self.tenants}
        self._entitled = entitled(
            {model: float(gpus) for model, gpus in vc.guaranteed.items()},
            {tenant: self._claim(tenant) for tenant in self.tenants},
        )
        self._in, self._out = _trades(snapshot.memory.get(vc.name, {}))

    def _demands(self, jobs: Iterable[Job]) -> list[tuple[Job, RunOption]]:
        """Return the guaranteed jobs that run, or could run here now."""
        found = []
        for job in jobs:
            runs = job.id in self._holders.jobs
            if job.guaranteed and not job.cancelling and (runs or self._is_ready(job)):
                run_option = self._run_options.of(job)
                if run_option is not None:
                    found.append((job, run_option))
        return found

    def _claim(self, tenant: str) -> Claim:
        gangs = [(run_option.amount, run_option.speeds) for _, run_option in self._wanting[tenant]]
        return claim_of(self._weights[tenant], gangs)

    def _is_ready(self, job: Job) -> bool:
        return not job.held and not job.awaits and job.eligible_at <= self._now

    def _own(self, tenant: str) -> dict[str, float]:
        total = sum(self._weights.values())
        part = self._weights[tenant] / total if total else 0.0
        return {model: gpus * part for model, gpus in self.guaranteed.items()}

    def share(self, tenant: str) -> Share:
        """Return its part, including trades, and what it holds."""
        own = Counter(self._own(tenant))
        own.update(self._in.get(tenant, {}))
        own.subtract(self._out.get(tenant, {}))
        held = self._holders.of(self.vc.name, tenant)
        return Share(
            own={model: max(0.0, gpus) for model, gpus in own.items()},
            guaranteed=held.guaranteed,
            opportunistic=held.opportunistic,
        )

    def standing(
        self, tenant: str, use: Use, rhos: Sequence[float], demands: Mapping[str, TierUse]
    ) -> Standing:
        jobs, wanting = self._jobs[tenant], self._wanting[tenant]
        held = self._holders.of(self.vc.name, tenant)
        running = sum(job.id in self._holders.jobs for job in jobs)
        own = self._own(tenant)
        gangs = [_gang(run_option) for _, run_option in wanting]
        demand = demands.get(tenant, TierUse())
        return Standing(
            tenant=tenant,
            weight=self._weights[tenant],
            jobs_running=running,
            jobs_waiting=len(jobs) - running,
            demand_gpus=float(sum(gang.gpus for gang in gangs)),
            demand_since=min([max(job.submitted_at, job.eligible_at) for job, _ in wanting], default=None),
            own=own,
            entitled=self._entitled[tenant],
            received=held.guaranteed,
            borrowed=use.borrowed,
            lent=use.lent,
            traded_in=self._in.get(tenant, {}),
            traded_out=self._out.get(tenant, {}),
            speed_here=self._holders.speed(held, self._run_options),
            speed_alone=self._alone(own, held, wanting),
            speeds=_mean_speeds(gangs),
            rho_worst=max(rhos, default=None),
            rho_mean=sum(rhos) / len(rhos) if rhos else None,
            demanded_gpus=demand.demanded_gpus,
            useful_gpus=demand.useful_gpus,
            waiting=tuple([job for job, _ in wanting if job.id not in self._holders.jobs]),
            spread=tuple(sorted(held.spread)),
        )

    def _alone(self, own: Gpus, held: TenantHoldings, wanting: Sequence[tuple[Job, RunOption]]) -> float:
        """Return the speed of its guaranteed jobs on its own part alone.

        While what they hold lies within that part, they would keep running there, and waiting jobs would run
        beside them: other tenants do not decide the order of its jobs. Otherwise the speed is the best that
        any of its jobs reach.
        """
        left = {model: gpus - held.guaranteed.get(model, 0.0) for model, gpus in own.items()}
        is_within = all(held.guaranteed[model] <= own.get(model, 0.0) + NOTHING for model in held.guaranteed)
        if not is_within:
            return speed_alone(own, [_gang(run_option) for _, run_option in wanting])
        waiting = [_gang(run_option) for job, run_option in wanting if job.id not in self._holders.jobs]
        return self._holders.speed_alone(held, self._run_options) + speed_alone(left, waiting)


def _weights(vc: VirtualCluster, tenants: Iterable[str]) -> dict[str, float]:
    """Return the weights of tenants: 0 for tenants that are not members, or all 1 if there are no members."""
    stated = {member.tenant: member.weight for member in vc.members}
    if not stated:
        return dict.fromkeys(tenants, 1.0)
    return {
        tenant: weight if 0 <= (weight := stated.get(tenant, 0.0)) <= ABSURD else 0.0 for tenant in tenants
    }


def _gang(run_option: RunOption) -> Gang:
    return Gang(run_option.amount, run_option.speeds)


def _mean_speeds(gangs: Iterable[Gang]) -> dict[str, float]:
    reached: dict[str, float] = {}
    gpus: dict[str, float] = {}
    for gang in gangs:
        for model, speed in gang.speeds.items():
            reached[model] = reached.get(model, 0.0) + gang.gpus * speed
            gpus[model] = gpus.get(model, 0.0) + gang.gpus
    return {model: reached[model] / gpus[model] for model in reached}


def _trades(memory: Memory) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Return the GPUs by model that each tenant bought and sold, from what Gandiva-Fair remembers."""
    bought: dict[str, dict[str, float]] = {}
    sold: dict[str, dict[str, float]] = {}
    books: Mapping[str, Any] = memory.get("books", {})
    for entry in books.get("trades", ()):
        buyer, seller = entry["buyer"], entry["seller"]
        if buyer == seller:
            continue
        for model, gpus, giver, taker in (
            (entry["fast"], entry["fast_gpus"], seller, buyer),
            (entry["slow"], entry["slow_gpus"], buyer, seller),
        ):
            for sums, tenant in ((sold, giver), (bought, taker)):
                own = sums.setdefault(tenant, {})
                own[model] = own.get(model, 0.0) + gpus
    return bought, sold


def _unguaranteed(snapshot: Snapshot) -> dict[str, float]:
    """Return the GPUs by model that no virtual cluster is guaranteed."""
    left: Counter[str] = Counter()
    for node in snapshot.nodes:
        left[node.gpu_model] += sum(gpu.healthy for gpu in node.gpus)
    for vc in snapshot.virtual_clusters:
        left.subtract(vc.guaranteed)
    return {model: float(max(0, gpus)) for model, gpus in left.items()}


def rhos_of(view: View, run_options: RunOptions, memory: Memory) -> tuple[dict[str, list[float]], Memory]:
    """Return the finish-time fairness of each tenant's apps, under any policy, and what to remember.

    The memory holds what the next account needs of the tenants that shared the virtual cluster.
    """
    apps = apps_of(view, run_options)
    contention = Contention(memory, view.now, {app.name: app.weight for app in apps})
    found: dict[str, list[float]] = {}
    for app in apps:
        value = _rho(app, view, run_options, run_options.gpus, contention.of(app))
        if value is not None:
            found.setdefault(app.tenant, []).append(value)
    return found, contention.remember()


def _rho(
    app: App, view: View, run_options: RunOptions, gpus: Mapping[str, int], contention: float
) -> float | None:
    """Return the rho of an app with what it holds; for one that waits, with its even part from now on."""
    held = rho_now(app, view, run_options, contention)
    even = even_rate(app, gpus, contention)
    if held is not None or even <= 0:
        return held
    return rho(elapsed_seconds(app, view.now), app.left / even, app.work / even)


class Gang(NamedTuple):
    """What a job wants: GPUs at once, or a part of one, and its speed on each model relative to its best."""

    gpus: float
    speeds: Mapping[str, float]


def speed_alone(part: Mapping[str, float], gangs: Iterable[Gang]) -> float:
    """Return the speed that gangs reach on a part, in GPUs of each one's best model; gangs stay whole.

    The fastest go first; among equals the smallest or the largest, whichever order yields more. The result is
    always attainable; occasionally a little more would be.
    """
    pairs = [
        (-speed, gang.gpus, number, model)
        for number, gang in enumerate(gangs)
        for model, speed in gang.speeds.items()
        if speed > 0 and part.get(model, 0.0) > NOTHING
    ]
    smallest = sorted(pairs)
    largest = sorted(pairs, key=lambda pair: (pair[0], -pair[1], *pair[2:]))
    return max(_reached(part, smallest), _reached(part, largest))


def _reached(part: Mapping[str, float], pairs: Iterable[tuple[float, float, int, str]]) -> float:
    left = dict(part)
    placed: set[int] = set()
    reached = 0.0
    for negative, gpus, number, model in pairs:
        room = left[model]
        if number in placed or room <= NOTHING or gpus > math.ceil(room - NOTHING):
            continue
        used = min(room, gpus)
        left[model] = room - used
        placed.add(number)
        reached -= negative * used
    return reached
