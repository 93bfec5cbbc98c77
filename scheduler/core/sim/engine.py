"""The simulator: the same rounds as the live loop, in virtual time.

Only the source of facts and the way to carry out the plan differ from the live loop. Here events happen at
their instants (arrivals, ends, failures, released GPUs, scripted changes); a round follows at the next tick
of the clock after something happened, or when a policy announced another decision. No policy, placer or step
of a round knows that it is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from scheduler.core.building_blocks.computing import Timekeeper, untimed
from scheduler.core.fitting.demand import demand_of, least_gpus, shape_in
from scheduler.core.lending.in_force import Guarantees, active, own_of
from scheduler.core.model.loan_terms import Lending, Loan
from scheduler.core.model.plan import Plan, Tier
from scheduler.core.model.reservations import Reservation
from scheduler.core.model.snapshot import Job, JobId, Memory, Node, NodeId, Snapshot
from scheduler.core.round.engine import RoundEngine
from scheduler.core.round.guarantees.reliance import owned, relying_on
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.serving_pools.steering import ServingPool
from scheduler.core.sim.autoscaling import Autoscaler
from scheduler.core.sim.event_queue import EventQueue, nothing
from scheduler.core.sim.market import Market
from scheduler.core.sim.node_loans import NodeLoans
from scheduler.core.sim.node_use import NodeUse
from scheduler.core.sim.progress import Progress
from scheduler.core.sim.result import JobRecord, Sample, Stay
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.simulated_cluster import SimulatedCluster
from scheduler.core.sim.workload import Arrival, Truth

#: No policy or placer lets a job wait for longer while GPUs are idle.
_LONGEST_REST_SECONDS = 7 * 86_400.0


class ScriptedEvent(Protocol):
    """Something that happens at an instant, whatever the jobs do: a cancellation, a node that fails."""

    @property
    def at(self) -> float: ...

    def happen(self, engine: Engine) -> None: ...


class Engine:
    """A cluster with its jobs, moved from event to event.

    `facts` is the state at the beginning; its jobs need an entry in `truths`. The jobs of `arrivals` come
    later. Ids of jobs must be unique over both. `on_round` is called with every plan before the plan is
    carried out.
    """

    def __init__(
        self,
        facts: Snapshot,
        arrivals: Sequence[Arrival] = (),
        rules: Rules | None = None,
        *,
        truths: Mapping[JobId, Truth] | None = None,
        script: Sequence[ScriptedEvent] = (),
        pools: Sequence[ServingPool] = (),
        on_round: Callable[[Engine, Sequence[ViewOutcome], Plan], None] | None = None,
        stopwatch: Callable[[], float] = lambda: 0.0,
        timekeeper: Timekeeper = untimed,
    ) -> None:
        self._rules, self._timekeeper = rules or Rules(), timekeeper
        self.round_engine = RoundEngine(facts, moves=self._rules.moves, timekeeper=timekeeper)
        self.began_at = facts.now
        #: When the last event happened; void ends of attempts that ended differently do not count.
        self.happened_at = facts.now
        self.rounds = 0
        #: Wall-clock seconds of all decisions.
        self.decide_seconds = 0.0
        self.degraded: dict[str, str] = {}
        #: Jobs that this cluster can never run, with the reason.
        self.never: dict[JobId, str] = {}
        self._events = EventQueue(facts.now)
        self._cluster = SimulatedCluster(self.round_engine.facts, self._rules, self._events)
        self._events.on_passing = self._cluster.sampler.let_pass
        self.node_use = NodeUse(lambda: self.round_engine.facts, self._cluster.progress, self._events)
        self._memory: dict[str, Memory] = dict(facts.memory)
        #: The time since which nothing runs, happens or starts, and whether only an event can end that.
        self._rests_since, self._is_at_rest = math.inf, False
        self._newcomers: list[JobId] = []
        self._on_round, self._stopwatch = on_round, stopwatch
        self._market = None if facts.lending is None else Market(facts.lending)
        #: The loans in force in the present guarantees, and how often these have changed.
        self._in_force = () if facts.lending is None else active(facts.lending.loans, facts.now)
        self.loan_changes = 0
        self._note_loans(() if facts.lending is None else facts.lending.loans)
        #: Scheduled closings: (node, instant).
        self._closings: set[tuple[NodeId, float]] = set()
        self._note_closings(facts.nodes)
        self._note_reservations(facts.reservations)
        #: Nodes that serving pools lend and take back.
        self.node_loans = NodeLoans(self, pools, self._events)
        self._cluster.take_over(facts, truths or {})
        self._expect(sorted(arrivals, key=lambda arrival: (arrival.job.submitted_at, arrival.job.id)))
        for scripted in sorted(script, key=lambda scripted: scripted.at):
            self._events.schedule(scripted.at, partial(self._play, scripted))
        # After the arrivals: jobs that come at the beginning count in the first look.
        terms = self._rules.autoscaling
        self.autoscaler = None if terms is None else Autoscaler(self, terms, self._events)

    @property
    def now(self) -> float:
        """Virtual time."""
        return self._events.now

    @property
    def next_instant(self) -> float:
        """When the next known event happens; infinity when there is none."""
        return self._events.next_instant

    @property
    def progress(self) -> Mapping[JobId, Progress]:
        """The progress of every job that has arrived."""
        return self._cluster.progress

    @property
    def ended(self) -> int:
        """The number of jobs that have arrived and will not run any more."""
        return len(self.progress) - len(self.round_engine.facts.jobs)

    @property
    def rules(self) -> Rules:
        """The rules by which jobs run here."""
        return self._rules

    @property
    def samples(self) -> Sequence[Sample]:
        return self._cluster.sampler.samples

    @property
    def stays(self) -> Iterator[Stay]:
        """Every stay on GPUs, those that have not ended last."""
        return iter(self._cluster.stays)

    def records(self) -> Iterator[JobRecord]:
        """Yield the account of every job that has arrived, by id."""
        for job in sorted(self.progress):
            yield self.progress[job].record(self.now)

    # The clock

    def run(self, until: Callable[[Engine], bool] = lambda engine: False) -> str:
        """Run until all jobs have ended, nothing can happen any more, or `until` returns True after a round.

        Returns why jobs are left over; empty if none are.
        """
        self._advance(self.now)
        while True:
            wake = self._run_round()
            if until(self):
                return "it was told to end"
            if not self.round_engine.facts.jobs and not self._events.finite:
                return ""
            if wake is None or not self.round_engine.facts.jobs or self._is_at_rest:
                wake = math.inf
            # A policy that wants another round at once gets it at the next tick, so that time goes on.
            wake = max(wake, self.now + (self._round_seconds or 1.0))
            while (instant := self._events.next_instant) < wake and not self._advance(instant):
                pass
            if instant >= wake:
                if wake == math.inf:
                    left = len(self.round_engine.facts.jobs)
                    jobs = "1 job waits" if left == 1 else f"{left:,} jobs wait"
                    return f"nothing more can happen, and {jobs} for ever" if left else ""
                self._advance(wake)

    @property
    def _round_seconds(self) -> float:
        return self.round_engine.facts.frame.round_seconds

    def _advance(self, instant: float) -> bool:
        """Move to the first tick of the clock at or after that instant, and run the events up to it.

        Returns whether anything happened: void ends of attempts that ended differently do not count.
        """
        happened = self._events.advance_to(self._tick_from(instant))
        if happened:
            self.happened_at = self.now
            self._rests_since = math.inf
        self._cluster.tell()
        return happened

    def _tick_from(self, instant: float) -> float:
        if not self._round_seconds:
            return instant
        ticks = math.ceil((instant - self.began_at) / self._round_seconds - 1e-9)
        # An instant that is a tick except for rounding must still be reached.
        return max(self.now, instant, self.began_at + ticks * self._round_seconds)

    # A round

    def _run_round(self) -> float | None:
        """Decide a round and carry it out; return the instant at which another is useful without an event."""
        self.rounds += 1
        round_engine = self.round_engine
        round_engine.facts.turn_to(self.rounds, self.now, self._memory)
        began = self._stopwatch()
        outcomes = round_engine.outcomes()
        plan = round_engine.plan(outcomes)
        self.decide_seconds += self._stopwatch() - began
        self._note_rest(outcomes, plan)
        self._memory.update(plan.memory)
        self.degraded.update(plan.degraded)
        if self._on_round is not None:
            self._on_round(self, outcomes, plan)
        self._cluster.carry_out(plan)
        self.node_use.wake()
        self._dismiss_hopeless()
        self._cluster.sampler.sample(self.now, outcomes[-1].capacity)
        if plan.market:
            # Offers may be taken, and borrowed GPUs used, from the next round on.
            self._follow(plan)
            return self.now
        if plan.actions and self._waits_under_quota():
            # A waiting job counts against every model that it accepts, a running job only against its own: a
            # start may have made room for other jobs of its tenant.
            return self.now
        return plan.wake_at

    def _note_rest(self, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        """Record whether only an event can let a job run again, so that no round is needed before.

        This is so if nothing runs and no waiting job fits on the cluster. It is also so if nothing ran,
        happened or started for as long as any policy and any rule of the market waits, even if policies
        wanted further rounds.
        """
        # Offers that expire are made again and again; only a loan lets a job run.
        lends = any(action.kind == "take" for action in plan.market)
        if plan.actions or lends or self.round_engine.facts.running:
            self._rests_since, self._is_at_rest = math.inf, False
            return
        self._rests_since = min(self._rests_since, self.now)
        longest = _LONGEST_REST_SECONDS + (0.0 if self._market is None else self._market.longest_wait)
        self._is_at_rest = self.now > self._rests_since + longest or (
            self._market is None and not any(map(_may_start, (*outcomes, *self.round_engine.without_gpus)))
        )

    def _waits_under_quota(self) -> bool:
        """Whether a job of a tenant that has a quota waits."""
        facts = self.round_engine.facts
        return any(
            job not in facts.current
            for tenant in facts.tenants.values()
            if tenant.is_capped
            for job in facts.by_tenant.get(tenant.name, ())
        )

    def _dismiss_hopeless(self) -> None:
        """Dismiss jobs that came since the last round and can never run here."""
        for job in self._newcomers:
            reasons = self.round_engine.admission.held_back.get(job, ())
            hopeless = next((reason for reason in reasons if reason.tier is Tier.NEVER), None)
            if hopeless is not None:
                self.never[job] = hopeless.message
                self._cluster.dismiss(job, "never")
        self._newcomers.clear()

    # What happens

    def _expect(self, arrivals: Sequence[Arrival]) -> None:
        """Let jobs arrive at their instants, given in order."""
        events = (
            (arrival.job.submitted_at, partial(self.submit, arrival.job, arrival.truth))
            for arrival in arrivals
        )
        self._events.schedule_rising(events, len(arrivals))

    def submit(self, job: Job, truth: Truth) -> bool:
        """Let a job arrive."""
        self._newcomers.append(job.id)
        self.node_use.is_told = self.node_use.is_told or bool(truth.use)
        self._cluster.submit(job, truth)
        return True

    def cancel(self, job: JobId) -> None:
        """Cancel a job for its user; nothing happens when it has ended already."""
        self._cluster.cancel(job)

    def finish(self, job: JobId) -> None:
        """End a running job now, whatever work it has left; a waiting or stopping job goes on."""
        self._cluster.finish(job)

    def reconfigure(self, change: Callable[[Snapshot], Snapshot]) -> None:
        """Change nodes, tenants or virtual clusters; attempts on GPUs that are gone or broken are lost.

        The change applies to what virtual clusters own; loans are applied on top of that.
        """
        changed = change(owned(self.snapshot()))
        if self._market is not None:
            lending = self._market.at(self.now, self._round_seconds)
            changed, self._in_force = relying_on(changed, lending), active(lending.loans, self.now)
        healthy = {gpu.id for node in changed.nodes for gpu in node.gpus if gpu.healthy}
        self._cluster.lose(healthy, {node.id for node in changed.nodes})
        present = self.snapshot()
        facts = replace(changed, jobs=present.jobs, running=present.running)
        self.round_engine = RoundEngine(facts, moves=self._rules.moves, timekeeper=self._timekeeper)
        self._cluster.facts = self.round_engine.facts
        self._cluster.budgets.take_in(changed.tenants)
        self._note_closings(changed.nodes)
        self._note_reservations(changed.reservations)

    def _note_reservations(self, reservations: Iterable[Reservation]) -> None:
        """Let rounds follow when reservations begin and end."""
        for each in reservations:
            for instant in (each.starts_at, each.ends_at):
                if instant > self.now:
                    self._events.schedule(instant, nothing)

    def _note_closings(self, nodes: Iterable[Node]) -> None:
        """Take nodes out of service when they close."""
        for node in nodes:
            if node.closes_at is not None and (node.id, node.closes_at) not in self._closings:
                self._closings.add((node.id, node.closes_at))
                self._events.schedule(
                    max(self.now, node.closes_at), partial(self._close, node.id, node.closes_at)
                )

    def _close(self, number: NodeId, closes_at: float) -> bool:
        """Move the jobs that are left on a node elsewhere, unless the closing was revoked."""
        self._closings.discard((number, closes_at))
        nodes = {node.id: node for node in self.round_engine.facts.frame.nodes}
        if number not in nodes or nodes[number].closes_at != closes_at:
            return False
        self.close_nodes([number])
        return True

    def close_nodes(self, numbers: Collection[NodeId]) -> None:
        """Let nodes take no more work; jobs there write a checkpoint and go on elsewhere."""

        def closed(node: Node) -> Node:
            return replace(node, schedulable=False, closes_at=None) if node.id in numbers else node

        nodes = self.round_engine.facts.frame.nodes
        gpus = {gpu.id for node in nodes if node.id in numbers for gpu in node.gpus}
        self._cluster.empty(gpus, set(numbers))
        self.reconfigure(lambda facts: replace(facts, nodes=tuple([closed(node) for node in facts.nodes])))

    @property
    def market(self) -> Market:
        """The market between virtual clusters, opened on first use."""
        if self._market is None:
            self._market = Market(Lending())
        return self._market

    def trade(self, mutation: Callable[[Market, Guarantees, float], Loan | None]) -> None:
        """Apply a change to the market, given what virtual clusters own and the instant."""
        facts = owned(self.snapshot())
        own = Guarantees(gpus={vc.name: vc.guaranteed for vc in facts.virtual_clusters}, cells=facts.cells)
        loan = mutation(self.market, own, self.now)
        self._note_loans(() if loan is None else (loan,))
        self._relend()

    def _follow(self, plan: Plan) -> None:
        """Carry out what rules decided."""
        assert self._market is not None
        facts = self.round_engine.facts.frame
        assert facts.lending is not None
        made = self._market.carry_out(plan.market, own_of(facts.lending, facts.cells), self.now)
        self._note_loans(made)
        self._relend()

    def _note_loans(self, loans: Iterable[Loan]) -> None:
        """Let guarantees change hands when loans begin and end."""
        for loan in loans:
            for instant in (loan.starts_at, loan.ends_at):
                if instant > self.now:
                    self._events.schedule(instant, self._relend)

    def close_market(self) -> None:
        """Prevent new loans; existing ones end when they should."""
        if self._market is not None:
            self._market.close()
            self._relend()

    def _relend(self) -> bool:
        """Show the present market to rounds; guarantees are rebuilt only where they changed hands."""
        facts = self.round_engine.facts
        known, lending = facts.frame.lending, self.market.at(self.now, self._round_seconds)
        if known is not None and active(lending.loans, self.now) == self._in_force:
            lending = replace(lending, own_gpus=known.own_gpus, own_cells=known.own_cells)
            facts.frame = replace(facts.frame, lending=lending)
        else:
            self.loan_changes += 1
            self.reconfigure(lambda facts: facts)
        return True

    def _play(self, scripted: ScriptedEvent) -> bool:
        scripted.happen(self)
        return True

    def snapshot(self) -> Snapshot:
        """Return the facts as the next round would see them."""
        facts = self.round_engine.facts
        frame = replace(facts.frame, now=self.now, memory=dict(self._memory))
        jobs = list(facts.jobs.values())
        if frame.reservations:
            # A round computes by itself which reservations concern a job.
            jobs = [job if job.reserved is None else replace(job, reserved=None) for job in jobs]
        return replace(frame, jobs=tuple(jobs), running=tuple(facts.running.values()))


def _may_start(outcome: ViewOutcome) -> bool:
    """Return whether a waiting job of a view fits on what the view may use."""
    capacity, jobs = outcome.view.capacity, outcome.view.jobs.values()
    shapes = {shape_in(capacity.cluster, job): job for job in jobs}
    return any(
        capacity.find(demand_of(job, capacity.cluster, least_gpus(job))) is not None
        for job in shapes.values()
    )
