"""Step 6, explain: for every job that does not run after this round, why not, most decisive first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler.core.fitting.candidates import MOST_NODES, needed_words, waits_for_candidates
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import Demand, Need, demand_of, shape_in, sizes_of
from scheduler.core.fitting.reading import waits_for_storage
from scheduler.core.lending.in_force import active
from scheduler.core.lending.lots import gpus_of
from scheduler.core.model import wording
from scheduler.core.model.loan_terms import Loan
from scheduler.core.model.plan import Action, ActionKind, Placement, Reason, Tier
from scheduler.core.model.snapshot import LENT, AllocationId, GpuId, Job, JobId, Running
from scheduler.core.round.admit import Admission
from scheduler.core.round.facts import Facts
from scheduler.core.round.guarantees.lapse import held_by_lapsed
from scheduler.core.round.leaving import in_the_way
from scheduler.core.round.reservations import in_the_way as reserved
from scheduler.core.round.run_view import ViewOutcome

Reasons = tuple[Reason, ...]

#: Actions in which jobs leave their GPUs.
_LEAVE = (ActionKind.STOP, ActionKind.MOVE, ActionKind.RESIZE)
_TIERS = {tier: place for place, tier in enumerate(Tier)}


def explain(
    facts: Facts, admission: Admission, outcomes: Sequence[ViewOutcome], actions: Sequence[Action]
) -> dict[JobId, Reasons]:
    """Return the reasons of every waiting job, in the order of their ids."""
    found: dict[JobId, list[Reason]] = {job: list(held) for job, held in admission.held_back.items()}
    placed: set[JobId] = set().union(*[outcome.kept for outcome in outcomes])
    nominated = [running for running in facts.nominated.values() if placed.issuperset(running.jobs)]
    holders = _holders(facts) if actions or nominated else {}
    for action in actions:
        if action.placement is not None:
            placed.update(action.jobs)
            # A guest that joins a host waits for no GPU.
            if action.kind is not ActionKind.JOIN and _may_wait(action.placement, holders):
                nominated.append(_granted(action, action.placement))
        elif action.kind is ActionKind.REGRADE:
            placed.update(action.jobs)
        else:
            for job in action.jobs:
                found.setdefault(job, []).append(_stopped(action, facts, admission))
    for running in nominated:
        waits = _waits_for(running, holders) or _waits_for_nodes(running, facts, actions)
        if waits:
            found.update((job, [waits]) for job in running.jobs)
    for outcome in outcomes:
        shortages = _Shortages(outcome, outcomes[-1].capacity, facts)
        for waiting in outcome.view.jobs.values():
            if waiting.id not in placed:
                reasons = found.setdefault(waiting.id, [])
                if waiting.id in admission.outgrown:
                    reasons.append(admission.outgrown[waiting.id])
                own = shortages.of(waiting)
                if reasons:
                    # Where no job took its GPUs, both may state the policy's reason; it is kept once.
                    said = {reason.message for reason in own}
                    reasons[:] = [reason for reason in reasons if reason.message not in said]
                reasons.extend(own)
    return {job: _in_order(found[job]) for job in facts.jobs if job in found}


def _in_order(reasons: list[Reason]) -> Reasons:
    if len(reasons) > 1:
        reasons.sort(key=lambda reason: _TIERS[reason.tier])
    return tuple(reasons)


def _holders(facts: Facts) -> dict[GpuId, Running]:
    """Return the allocation on each GPU now, even if it is leaving."""
    held = [running for running in facts.running.values() if running.phase == "held"]
    return {gpu: running for running in held for gpu in running.gpus}


def _may_wait(placement: Placement, holders: Mapping[GpuId, Running]) -> bool:
    """Return whether other jobs may still hold part of this placement; few starts have to wait."""
    return bool(placement.nodes) or not holders.keys().isdisjoint(placement.gpus)


def _granted(action: Action, placement: Placement) -> Running:
    """Return the allocation that a start will hold."""
    return Running(
        allocation=AllocationId(0),
        jobs=action.jobs,
        gpu_model=placement.gpu_model,
        replicas=placement.replicas,
        nodes=placement.nodes,
        phase="planned",
        guaranteed=action.guaranteed,
    )


def _waits_for_nodes(nominated: Running, facts: Facts, actions: Sequence[Action]) -> Reason | None:
    """Return the reason for a job with replicas without GPUs whose CPUs or memory others still hold."""
    if not nominated.nodes:
        return None
    stopped = [action.allocation for action in actions if action.kind in _LEAVE]
    leaving = [*facts.stopping.values(), *[facts.running[each] for each in stopped if each in facts.running]]
    others = [each for each in in_the_way(facts, nominated, leaving) if each.jobs != nominated.jobs]
    if not others:
        return None
    jobs = list(dict.fromkeys([job for each in others for job in each.jobs]))
    return Reason(
        code="waiting_for_release",
        tier=Tier.PREPARING,
        message=f"CPUs and memory are promised to it; they are still being released by {wording.jobs(jobs)}.",
        blocking={"jobs": jobs},
        needed=len(nominated.gpus),
        available=len(nominated.gpus),
    )


def _waits_for(placement: Running, on: Mapping[GpuId, Running]) -> Reason | None:
    """Return the reason for a job nominated for GPUs that others have not released yet."""
    holders: dict[JobId, None] = {}
    count = 0
    for gpu in placement.gpus:
        holder = on.get(gpu)
        if holder is not None and holder.jobs != placement.jobs:
            holders.update(dict.fromkeys(holder.jobs))
            count += 1
    if not holders:
        return None
    promised = wording.gpus(len(placement.gpus), [placement.gpu_model])
    leaving = wording.jobs(list(holders))
    if len(placement.gpus) == 1:
        message = f"{promised} is reserved for it; {leaving} must release it first."
    else:
        message = f"{promised} are reserved for it; {leaving} must release {count} of them first."
    return Reason(
        code="waiting_for_release",
        tier=Tier.PREPARING,
        message=message,
        blocking={"jobs": list(holders)},
        needed=len(placement.gpus),
        available=len(placement.gpus) - count,
    )


def _stopped(action: Action, facts: Facts, admission: Admission) -> Reason:
    if action.cause == "cancelled":
        return Reason(code="cancelling", tier=Tier.HELD, message=action.message)
    if action.cause == "time_limit":
        return Reason(code="time_limit", tier=Tier.HELD, message=action.message)
    if action.cause == "drained":
        return Reason(
            code="node_returns",
            tier=Tier.CAPACITY,
            message=action.message,
            hint="Workers beyond the fewest of an elastic job are given back without stopping it.",
        )
    if action.allocation in admission.giving_way:
        return Reason(
            code="prediction_failed",
            tier=Tier.CAPACITY,
            message=action.message,
            hint="A guaranteed job has the CPUs and the memory that it asks for to itself.",
        )
    if action.allocation in facts.stale:
        return Reason(code="promise_lost", tier=Tier.CAPACITY, message=action.message)
    tier = Tier.ORDER if action.guaranteed else Tier.GUARANTEE
    return Reason(
        code="preempted",
        tier=tier,
        message=action.message,
        blocking={"jobs": list(action.preempted_by)} if action.preempted_by else {},
    )


class _Shortages:
    """What a view's waiting jobs lack, computed once for each shape."""

    def __init__(self, outcome: ViewOutcome, leftover: Capacity, facts: Facts) -> None:
        self._outcome, self._leftover, self._facts = outcome, leftover, facts
        self._known: dict[object, Reasons] = {}

    def of(self, job: Job) -> Reasons:
        """Return why the job was not placed."""
        if self._outcome.failure:
            return (self._failed(),)
        if job.id in self._outcome.unbound:
            return (self._outcome.unbound[job.id],)
        shape = shape_in(self._facts.cluster, job)
        if shape not in self._known:
            lacks = self._lacks(job)
            self._known[shape] = tuple(filter(None, (lacks and self._lent(job), lacks)))
        reasons = self._known[shape] + self._outcome.decision.reasons.get(job.id, ())
        return reasons or (self._passed_over(),)

    def _failed(self) -> Reason:
        return Reason(
            code="policy_failed",
            tier=Tier.HELD,
            message=f"The policy or placer of {self._view_words()} failed in this round, so nothing new"
            f" starts there: {self._outcome.failure}.",
            hint="An operator can choose another policy or correct its parameters.",
        )

    def _passed_over(self) -> Reason:
        return Reason(
            code="not_chosen",
            tier=Tier.ORDER,
            message=f"The policy of {self._view_words()} served other jobs in this round.",
        )

    def _view_words(self) -> str:
        view = self._outcome.view
        return f"virtual cluster {view.name}" if view.guaranteed else "the spare GPUs"

    def _lacks(self, job: Job) -> Reason | None:
        capacity, cluster = self._outcome.capacity, self._facts.cluster
        demand = demand_of(job, cluster, sizes_of(job)[-1])
        if demand.has_parts:
            return self._lacks_parts(job, demand)
        roomy = tuple([model for model in demand.models if capacity.room(model) >= demand.gpus])
        if not roomy:
            return self._guarantee_in_use(job, demand)
        offers = {model: capacity.offered(model) for model in roomy}
        if max(offers.values()) < demand.gpus:
            return self._too_few(job, demand, max(offers, key=lambda model: offers[model]))
        demand = replace(demand, models=roomy)
        if capacity.find(demand) is not None:
            return None
        if reason := reserved(job, demand, capacity, self._facts):
            return reason
        if demand.candidates and capacity.find(replace(demand, candidates=())) is not None:
            return waits_for_candidates(demand, self._facts.cluster)
        kept = [holding.running for holding in capacity.kept_from(demand) if holding.running is not None]
        if kept and capacity.regardless_of_lapsed().find(demand) is not None:
            return held_by_lapsed(self._outcome.view.name, wording.gpus(demand.gpus, demand.models), kept)
        anywhere = replace(demand, ranks=(len(cluster.levels),))
        without_processors = replace(
            anywhere, needs=tuple([Need(need.gpus, 0.0, 0) for need in demand.needs])
        )
        if capacity.find(without_processors) is None:
            return self._fragmented(demand, max(offers.values()))
        if capacity.find(anywhere) is None:
            return waits_for_storage(anywhere, capacity) or self._short_of_processors(demand)
        return self._scattered(job, demand)

    def _lacks_parts(self, job: Job, demand: Demand) -> Reason | None:
        """Return the same for a job that asks for parts of GPUs."""
        capacity = self._outcome.capacity
        if capacity.find(demand) is not None:
            return None
        parts = wording.parts([need.part.request for need in demand.needs if need.part is not None])
        if label := capacity.label_in_the_way(demand):
            return Reason(
                code="sharing_label",
                tier=Tier.CAPACITY,
                message=f"{parts.capitalize()} would be left, but label {label} does not let it share there.",
                blocking={"label": label},
                needed=demand.gpus,
                hint="It starts when the jobs leave that it may not join, or when a whole GPU comes free.",
            )
        if reason := reserved(job, demand, capacity, self._facts):
            return reason
        if demand.candidates and capacity.find(replace(demand, candidates=())) is not None:
            return waits_for_candidates(demand, self._facts.cluster)
        if not any([capacity.room(model) >= demand.gpus for model in demand.models]):
            return self._guarantee_in_use(job, demand)
        if reason := waits_for_storage(demand, capacity):
            return reason
        return Reason(
            code="no_part_left",
            tier=Tier.CAPACITY,
            message=f"No GPU that it may use has room for {parts}: compute, device memory, or the CPUs and"
            " memory of its node are taken.",
            needed=demand.gpus,
            hint="It starts when others leave. A smaller part, or less `gpu_memory`, may fit now.",
        )

    def _guarantee_in_use(self, job: Job, demand: Demand) -> Reason:
        vc = self._facts.virtual_clusters[job.virtual_cluster]
        capacity = self._outcome.capacity
        model = max(demand.models, key=lambda name: (capacity.room(name), vc.guaranteed.get(name, 0)))
        guaranteed, room = vc.guaranteed.get(model, 0), max(capacity.room(model), 0)
        idle = max([self._leftover.idle(name) for name in demand.models], default=0)
        return Reason(
            code="vc_guarantee_in_use",
            tier=Tier.GUARANTEE,
            message=f"Virtual cluster {vc.name} guarantees {wording.gpus(guaranteed, [model])};"
            f" its guaranteed jobs use {guaranteed - room} and this job needs {demand.gpus}.",
            blocking={"virtual_cluster": vc.name},
            needed=demand.gpus,
            available=room,
            hint=f"Submit it as opportunistic to use idle GPUs ({wording.gpus(idle)} now)."
            if idle >= demand.gpus
            else "",
        )

    def _lent(self, job: Job) -> Reason | None:
        """Return the loans that hold what the job lacks; None where its virtual cluster lends none of it."""
        lending, facts = self._facts.frame.lending, self._facts
        if lending is None or not self._outcome.view.guaranteed:
            return None
        demand = demand_of(job, facts.cluster, sizes_of(job)[-1])
        for model in demand.models:
            lent = [
                (loan, gpus_of(lot, facts.layout).get(model, 0))
                for loan in active(lending.loans, facts.frame.now)
                if (lot := loan.given_by(job.virtual_cluster)) is not None
            ]
            loans, gpus = [loan for loan, count in lent if count], sum([count for _, count in lent])
            if loans and max(self._outcome.capacity.room(model), 0) + gpus >= demand.gpus:
                return self._lent_to(job, demand, model, gpus, loans)
        return None

    def _lent_to(self, job: Job, demand: Demand, model: str, gpus: int, loans: Sequence[Loan]) -> Reason:
        vc, last = job.virtual_cluster, max(loan.ends_at for loan in loans)
        whom = wording.listed(
            [f"{loan.other(vc)} until {wording.instant(loan.ends_at)} (loan {loan.id})" for loan in loans]
        )
        return Reason(
            code="guarantee_lent",
            tier=Tier.GUARANTEE,
            message=f"Virtual cluster {vc} lends {wording.gpus(gpus, [model])} to {whom};"
            f" this job needs {demand.gpus}.",
            blocking={"virtual_cluster": vc, "loans": [loan.id for loan in loans], "until": last},
            needed=demand.gpus,
            available=max(self._outcome.capacity.room(model), 0),
            hint=f"They return automatically, at {wording.instant(last)} at the latest.",
        )

    def _too_few(self, job: Job, demand: Demand, model: str) -> Reason:
        offered = self._outcome.capacity.offered(model)
        # In cells these are the view's own nodes: broken hardware outside its cells does not matter to it.
        fleet = self._outcome.view.capacity.cluster.fleets[model]
        broken = fleet.total - fleet.total_usable
        if self._outcome.view.guaranteed and (shielded := self._shielded(model)):
            return Reason(
                code="reclaim_later",
                tier=Tier.CAPACITY,
                message=f"Virtual cluster {job.virtual_cluster} may use {demand.gpus} more {model}, but only"
                f" {offered} are available: {wording.jobs(shielded)} have just begun, and may not be"
                " reclaimed from yet.",
                blocking={"jobs": shielded},
                needed=demand.gpus,
                available=offered,
                hint="The virtual cluster has a minimum run time before a reclaim.",
            )
        if self._outcome.view.guaranteed:
            of_its_cells = "of its cells " if self._has_cells(model) else ""
            nodes = self._broken_nodes(model) if broken else []
            return Reason(
                code="guarantee_short",
                tier=Tier.CAPACITY,
                message=f"Virtual cluster {job.virtual_cluster} may use {demand.gpus} more {model}, but only"
                f" {offered} {of_its_cells}are available: {broken} are broken or on nodes that accept no work"
                f"{_in_brackets(nodes)}.{self._not_lent(model)}",
                blocking={"nodes": nodes[:MOST_NODES]} if nodes else {},
                needed=demand.gpus,
                available=offered,
                hint="It starts when nodes come back or guaranteed jobs of other virtual clusters end.",
            )
        return Reason(
            code="no_idle_gpus",
            tier=Tier.CAPACITY,
            message=f"{offered} of {fleet.total} {model} are idle; this job needs {demand.gpus}."
            f"{self._not_lent(model)}",
            needed=demand.gpus,
            available=offered,
            hint=f"{broken} more {model} are broken or on nodes that take no work." if broken else "",
        )

    def _not_lent(self, model: str) -> str:
        """Return the sentence on nodes of a model that serving pools keep or have reclaimed, if any."""
        by_pool: dict[str, int] = {}
        for node in self._facts.cluster.fleets[model].nodes:
            if node.loan is not None and node.loan.state != LENT:
                by_pool[node.loan.pool] = by_pool.get(node.loan.pool, 0) + len(node.gpus)
        return "".join(
            f" {gpus} {model} are on nodes that serving pool {pool} does not lend."
            for pool, gpus in sorted(by_pool.items())
        )

    def _shielded(self, model: str) -> list[JobId]:
        """Return the jobs on GPUs of a model that may not be reclaimed yet."""
        found = [self._facts.running[each] for each in sorted(self._facts.shielded)]
        return [job for running in found if running.gpu_model == model for job in running.jobs]

    def _broken_nodes(self, model: str) -> list[str]:
        """Return the names of nodes that are missing, or have a GPU that must not be newly taken."""
        fleet, layout = self._facts.cluster.fleets[model], self._facts.layout
        broken = {
            node.name
            for node, gpus in zip(fleet.nodes, fleet.gpus, strict=True)
            if not all(map(self._facts.is_lasting if self._has_cells(model) else self._facts.is_usable, gpus))
        }
        if layout is not None:
            declared = {
                leaf.node
                for chain in layout.chains.values()
                if chain.gpu_model == model
                for leaf in chain.leaves
            }
            there = {node.name for node in fleet.nodes}
            # If a model is divided by cells, broken nodes in no cell affect no virtual cluster.
            broken = (broken & declared if declared else broken) | (declared - there)
        return sorted(broken)

    def _has_cells(self, model: str) -> bool:
        layout = self._facts.layout
        return layout is not None and model in layout.gpu_models

    def _fragmented(self, demand: Demand, offered: int) -> Reason:
        largest = max(need.gpus for need in demand.needs)
        each = wording.replicas(len(demand.needs), largest)
        view = self._outcome.view
        in_cells = view.guaranteed and any(map(self._has_cells, demand.models))
        where = f" in the cells of virtual cluster {view.name}" if in_cells else ""
        doomed = [] if not in_cells else self._doomed(demand)
        hardware = f" Only broken hardware is left for its other cells{_in_brackets(doomed)}."
        return Reason(
            code="fragmented",
            tier=Tier.CAPACITY,
            message=f"{wording.gpus(offered, demand.models)} are available{where}, but not as the job needs"
            f" them: {each}.{hardware if doomed else ''}",
            blocking={"nodes": doomed[:MOST_NODES]} if doomed else {},
            needed=demand.gpus,
            available=offered,
            hint="Smaller replicas fit into smaller gaps.",
        )

    def _doomed(self, demand: Demand) -> list[str]:
        """Return the broken nodes that keep the view from having all of its own cells."""
        fleets = self._outcome.view.capacity.cluster.fleets
        models = [model for model in demand.models if self._has_cells(model)]
        lost = [model for model in models if fleets[model].total_usable < fleets[model].total]
        return [node for model in lost for node in self._broken_nodes(model)]

    def _short_of_processors(self, demand: Demand) -> Reason:
        most = max(demand.needs, key=lambda need: (need.cpus, need.memory_bytes))
        which = "Nodes with enough available GPUs" if demand.gpus else "All nodes that it may use"
        return Reason(
            code="node_resources",
            tier=Tier.CAPACITY,
            message=f"{which} lack CPUs or memory: one replica needs"
            f" {wording.processors(most.cpus, most.memory_bytes)}.",
            hint="Ask for fewer CPUs or less memory per replica.",
        )

    def _scattered(self, job: Job, demand: Demand) -> Reason:
        assert job.topology is not None
        return Reason(
            code="topology",
            tier=Tier.TOPOLOGY,
            message=f"{needed_words(demand)} are available, but not within one"
            f" {job.topology.level}, as it requires.",
            blocking={"level": job.topology.level},
            needed=demand.gpus,
            hint=f"Make the topology level {job.topology.level} preferred instead of required.",
        )


def _in_brackets(nodes: Sequence[str]) -> str:
    return f" ({wording.listed(nodes)})" if nodes else ""
