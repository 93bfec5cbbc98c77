"""Successive rounds on the same facts; the cost of each depends on what changed since the last.

`decide()` runs one round of a new engine. The simulator keeps its engine: it puts events into `facts` and
asks for the next round. A property test checks that both give the same plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from scheduler.core.building_blocks.computing import Compute, Timekeeper, run_inline, untimed
from scheduler.core.building_blocks.policy import View
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.claims import Claims
from scheduler.core.fitting.holding import Part
from scheduler.core.model.changing import changed
from scheduler.core.model.loan_terms import MARKET
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import AllocationId, Snapshot, VirtualCluster
from scheduler.core.round.admit import Admission
from scheduler.core.round.auxiliary import auxiliary_shares
from scheduler.core.round.beyond_guarantees import Growth, beyond_guarantees
from scheduler.core.round.diff import diff
from scheduler.core.round.facts import Facts
from scheduler.core.round.guarantees.binding import CELLS, Binding
from scheduler.core.round.guarantees.lapse import Lapse
from scheduler.core.round.joining import joined
from scheduler.core.round.long_waits import LONG_WAITS, LongWaits
from scheduler.core.round.market_step import step_market
from scheduler.core.round.overcommitment import ended_by, lent_parts
from scheduler.core.round.preemption_limits.displacing import PreemptionLimits
from scheduler.core.round.preemption_limits.downgrading import Downgrade, downgrades, kept_on
from scheduler.core.round.preemption_limits.shielding import Shielding
from scheduler.core.round.registry import only_starts
from scheduler.core.round.reservations import Reservations
from scheduler.core.round.reserve import Reservation
from scheduler.core.round.run_view import Plugins, ViewOutcome
from scheduler.core.round.standing import stands_until
from scheduler.core.round.whereabouts import Whereabouts
from scheduler.core.round.without_gpus import WithoutGpus


class RoundEngine:
    """The facts, and the indexes that the steps of a round keep over them.

    `overran`: the reasons of views whose policy is already known to take too long. Without `moves` a running
    job keeps its GPUs or is preempted, as in published simulators.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        compute: Compute = run_inline,
        overran: Mapping[str, str] | None = None,
        *,
        moves: bool = True,
        timekeeper: Timekeeper = untimed,
    ) -> None:
        self._moves = moves
        self.facts = Facts(snapshot)
        self._reservations = Reservations(self.facts)
        self.admission = Admission(self.facts, only_starts)
        self.binding = Binding(self.facts, self.admission) if self.facts.layout else None
        self._lapse = Lapse(self.facts, self.admission)
        self._shielding = Shielding(self.facts, self.admission)
        self._long_waits = LongWaits(self.facts, self.admission)
        self._reservation = Reservation(self.facts, self.admission, self.binding)
        self.attempt(compute, overran, timekeeper)
        self._survey = Survey(self.facts, self.admission)
        self._downgraded: Mapping[AllocationId, Downgrade] = {}
        self._growth: Growth | None = None
        self._plugins: dict[str, Plugins] = {}
        frame = self.facts.frame
        self._spare_plugins = Plugins(
            policy=frame.spare_policy,
            policy_parameters=frame.spare_policy_parameters,
            placer=frame.spare_placer,
            placer_parameters=frame.spare_placer_parameters,
        )
        self._beside = WithoutGpus(self.facts, self.admission)

    def attempt(self, compute: Compute, overran: Mapping[str, str] | None, timekeeper: Timekeeper) -> None:
        """Set how later rounds compute, which views overran, and the timekeeper."""
        self._reservation.compute = compute
        self._overran = overran or {}
        self._timekeeper = timekeeper

    @property
    def without_gpus(self) -> Sequence[ViewOutcome]:
        """The outcomes of this round for jobs without GPUs, by virtual cluster."""
        return self._beside.outcomes

    def outcomes(self) -> Sequence[ViewOutcome]:
        """Admit, reserve, allocate and place: serve the guaranteed views in turn, then the spare one."""
        cluster = self._refreshed()
        limits = PreemptionLimits(self.facts, moves=self._moves)
        whereabouts = Whereabouts(self.facts)
        outcomes = []
        candidates: list[Downgrade] = []
        for vc in self._reservation.order():
            view = self._reservation.guaranteed(vc, cluster, self._lapse.lapsed(vc.name))
            outcome = self._run_view(whereabouts.shown_to(view), self._plugins_of(vc), limits)
            found = downgrades(self.facts, outcome)
            candidates.extend(found.values())
            if self.binding is None:
                cluster = outcome.capacity
            else:
                placements, cluster, unbound = self.binding.realised(
                    view, outcome.decision, outcome.placements, outcome.capacity, cluster, found, whereabouts
                )
                outcome = changed(outcome, placements=placements, unbound=unbound)
            outcome, cluster = joined(self.facts, self.admission.partings, outcome, cluster)
            whereabouts.take_in(outcome.decision, outcome.placements)
            outcomes.append(outcome)
        self._downgraded = {}
        if candidates:
            self._downgraded, cluster = kept_on(self.facts, candidates, cluster)
        cluster = self._beside.guaranteed(cluster)
        lent = self._lent(cluster)
        view = self._reservation.spare(cluster.lending(lent) if lent else cluster)
        spare = self._run_view(whereabouts.shown_to(view), self._spare_plugins, limits)
        spare, left = joined(self.facts, self.admission.partings, spare, spare.capacity)
        if lent:
            # Growth beyond a guarantee would not be given back when a prediction fails.
            left = left.lending_no_more(lent)
        outcomes.append(spare if left is spare.capacity else changed(spare, capacity=left))
        self._growth = beyond_guarantees(self.facts, self.admission, outcomes)
        idle = self._growth.capacity
        idle = self._beside.opportunistic(idle.lending(lent) if lent else idle)
        if idle is not left:
            outcomes[-1] = changed(outcomes[-1], capacity=idle)
        return outcomes

    def _lent(self, cluster: Capacity) -> list[tuple[str, Part]]:
        """Return what opportunistic jobs may have in addition to what guaranteed views leave."""
        if not self.facts.frame.peaks:
            return []
        gone = ended_by(cluster.dropped) | self.admission.endings.keys() | self._downgraded.keys()
        return lent_parts(self.facts, gone | self._reservation.orphaned)

    def _plugins_of(self, vc: VirtualCluster) -> Plugins:
        """Return the policy and the placer of a virtual cluster, the same objects in every round."""
        if vc.name not in self._plugins:
            self._plugins[vc.name] = Plugins(
                policy=vc.policy,
                policy_parameters=vc.policy_parameters,
                placer=vc.placer,
                placer_parameters=vc.placer_parameters,
            )
        return self._plugins[vc.name]

    def views(self) -> dict[str, View]:
        """Return what each virtual cluster could use if it were the first to be served."""
        cluster = self._refreshed()
        return {
            vc.name: self._reservation.guaranteed(vc, cluster, self._lapse.lapsed(vc.name))
            for vc in self._reservation.order()
        }

    def _refreshed(self) -> Capacity:
        """Read what changed; return what the whole cluster offers before any view was served."""
        facts = self.facts
        facts.find_stale()
        self._reservations.refresh()
        jobs = self.admission.refresh()
        jobs |= self._lapse.refresh(facts.changed_allocations)
        if self.binding is not None:
            regraded, seen_anew = self.binding.refresh(facts.changed_allocations)
            jobs |= regraded
            facts.changed_allocations.update(seen_anew)
        self._shielding.refresh(facts.changed_allocations)
        self._reservation.refresh(jobs, facts.changed_allocations)
        self._long_waits.refresh(jobs)
        facts.cluster.shapes.by_priority = self._lapse.any_lapsed
        cluster = self._survey.refresh(facts.changed_allocations)
        facts.changed_jobs.clear()
        facts.changed_allocations.clear()
        return cluster

    def _run_view(self, view: View, plugins: Plugins, limits: PreemptionLimits) -> ViewOutcome:
        memory = self.facts.frame.memory.get(view.name, {})
        overran = self._overran.get(view.name, "")
        with self._timekeeper(view.name):
            return self._long_waits.run_view(
                view, plugins, lambda each: limits.run_view(each, plugins, memory, overran=overran)
            )

    def stands_until(self, outcomes: Sequence[ViewOutcome], plan: Plan) -> float:
        """Return the instant until which the plan of these outcomes stands without an event."""
        return stands_until(self.facts, self.admission, outcomes, self.without_gpus, self._long_waits, plan)

    def plan(self, outcomes: Sequence[ViewOutcome]) -> Plan:
        """Diff: return the plan of the round, without the reasons of waiting jobs."""
        wakes = [outcome.decision.wake_at for outcome in outcomes if outcome.decision.wake_at is not None]
        memory = {
            outcome.view.name: outcome.decision.memory for outcome in outcomes if outcome.decision.memory
        }
        if self.binding is not None:
            memory[CELLS] = self.binding.memory()
        step = step_market(self.facts, self.binding, outcomes)
        ledger = {
            outcome.view.name: outcome.decision.ledger for outcome in outcomes if outcome.decision.ledger
        }
        shielded_until = self._shielding.ends_at
        if shielded_until is not None:
            wakes.append(shielded_until)
        if step.wake_at is not None:
            wakes.append(step.wake_at)
        growth = self._growth.actions if self._growth is not None else ()
        if self._growth is not None and self._growth.wake_at is not None:
            wakes.append(self._growth.wake_at)
        if self._long_waits.wake_at is not None:
            wakes.append(self._long_waits.wake_at)
        if (served := self._long_waits.memory()) is not None:
            memory[LONG_WAITS] = served
        if self.admission.wake_at is not None:
            wakes.append(self.admission.wake_at)
        if self._reservations.wake_at is not None:
            wakes.append(self._reservations.wake_at)
        if step.memory:
            memory[MARKET] = step.memory
        if step.ledger:
            ledger[MARKET] = step.ledger
        decided = [*self.without_gpus, *outcomes]
        actions = diff(
            self.facts, self.admission, self._reservation.orphaned, decided, self._downgraded, growth
        )
        return Plan(
            round_number=self.facts.frame.round_number,
            actions=actions,
            memory=memory,
            wake_at=min(wakes, default=None),
            degraded={outcome.view.name: outcome.failure for outcome in decided if outcome.failure},
            overran=tuple([outcome.view.name for outcome in outcomes if outcome.overran]),
            ledger=ledger,
            market=step.actions,
            shares=auxiliary_shares(self.facts, outcomes, actions),
        )


# What the whole cluster offers before any view was served.


class Survey:
    """The claims of all allocations on the cluster."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        self._facts, self._admission = facts, admission
        self._claims = Claims(facts.cluster)

    def refresh(self, allocations: Collection[AllocationId]) -> Capacity:
        """Update the allocations that changed; return what the cluster offers now."""
        facts = self._facts
        for allocation in sorted(allocations):
            self._claims.drop(allocation)
            self._claims.drop(AllocationId(-allocation))
            running = facts.running.get(allocation)
            if running is None or allocation in facts.stale:
                continue
            ends = running.stopping or allocation in self._admission.endings
            # A dropped nomination frees nothing: its GPUs still have their holder.
            if not (ends and running.is_nominated):
                self._claims.put(allocation, facts.holdings[allocation], leaves=ends)
                if allocation in facts.surpluses:
                    surplus = facts.surpluses[allocation]
                    self._claims.put(AllocationId(-allocation), surplus, leaves=ends)
        claims = self._claims
        return Capacity(facts.cluster, claims.layers(), claims.evictable, claims.evictable_by_size)
