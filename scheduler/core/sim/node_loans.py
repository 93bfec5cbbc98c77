"""Nodes that serving pools lend and take back, in virtual time; live, operators and scheduled tasks do it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from scheduler.core.model.snapshot import LENT, RETURNING, SERVING, Node, NodeId, NodeLoan, Snapshot
from scheduler.core.round.engine import RoundEngine
from scheduler.core.serving_pools.load_curve import DAY_SECONDS
from scheduler.core.serving_pools.returning import NodeReturn, nodes_to_return
from scheduler.core.serving_pools.steering import ServingPool, next_look, steer
from scheduler.core.sim.event_queue import EventQueue, nothing
from scheduler.core.sim.rules import Rules


class Loaned(Protocol):
    """The parts of the simulated cluster that lending and taking back need."""

    round_engine: RoundEngine

    @property
    def rules(self) -> Rules: ...

    def reconfigure(self, change: Callable[[Snapshot], Snapshot]) -> None: ...

    def snapshot(self) -> Snapshot: ...


class NodeLoans:
    """Steers serving pools by their load curves, and lends or reclaims named nodes.

    A node's jobs are stopped before its pool gets it back: earlier by the longest of their checkpoints plus a
    round, which is the longest time until the jobs are sent the stop. A node that is returning at the
    beginning already has both instants.
    """

    def __init__(self, cluster: Loaned, pools: Sequence[ServingPool], events: EventQueue) -> None:
        self._cluster, self._events = cluster, events
        self._round_seconds = cluster.round_engine.facts.frame.round_seconds
        #: The effects of every return, in the order in which nodes were reclaimed.
        self.returns: list[NodeReturn] = []
        #: When a job last ran.
        self._last_use = events.now
        for node in cluster.round_engine.facts.frame.nodes:
            if node.loan is not None and node.loan.state == RETURNING:
                for instant, event in ((node.loan.stops_at, nothing), (node.loan.return_by, self._take)):
                    if instant is not None:
                        events.schedule(max(instant, events.now), event)
        for pool in pools:
            events.schedule(events.now, partial(self._look, pool), repeats=True)
            for node_id, until in sorted(pool.lent_until.items()):
                ends_at = max(until - pool.return_seconds, events.now)
                events.schedule(ends_at, partial(self._end_loan, node_id, until))

    def lend(self, nodes: Collection[NodeId]) -> None:
        """Lend whole nodes; nodes that were returning stay lent."""
        self._put(nodes, lambda loan: replace(loan, state=LENT, return_by=None, stops_at=None))

    def ask_back(self, nodes: Collection[NodeId], return_by: float) -> None:
        """Return nodes to their pools by that instant."""
        facts = self._cluster.round_engine.facts
        stops_at: dict[NodeId, float] = {}
        for node in facts.frame.nodes:
            if node.id in nodes and node.loan is not None and node.loan.state == LENT:
                ahead = self._checkpoint_seconds(node) + self._round_seconds
                stops_at[node.id] = max(return_by - ahead, self._events.now)
        self._put(
            stops_at,
            lambda loan: replace(loan, state=RETURNING, return_by=return_by),
            stops_at,
        )
        for instant in stops_at.values():
            self._events.schedule(instant, nothing)
        self._events.schedule(max(return_by, self._events.now), self._take)

    def _end_loan(self, node: NodeId, until: float) -> bool:
        self.ask_back([node], max(until, self._events.now))
        return True

    def choose(self, pool: str, count: int) -> list[NodeId]:
        """Return the nodes of a pool that are cheapest to return, and record the jobs concerned."""
        facts = self._cluster.round_engine.facts
        chosen = nodes_to_return(facts.frame.nodes, pool, count, facts.jobs.values(), facts.running.values())
        self.returns += chosen
        return [each.node for each in chosen]

    def _checkpoint_seconds(self, node: Node) -> float:
        facts = self._cluster.round_engine.facts
        gpus = {gpu.id for gpu in node.gpus}
        there = [held for held in facts.running.values() if not gpus.isdisjoint(held.gpus)]
        jobs = [facts.jobs[job] for held in there for job in held.jobs if job in facts.jobs]
        return max([self._cluster.rules.costs.of(job).checkpoint_seconds for job in jobs], default=0.0)

    def _look(self, pool: ServingPool) -> bool:
        """Steer a pool, and schedule the next check."""
        facts, now = self._cluster.round_engine.facts, self._events.now
        if facts.running:
            self._last_use = now
        # Curves never end, so stop once no job is left or the waiting jobs will never start.
        is_over = not self._events.finite and (not facts.jobs or now - self._last_use > 2 * DAY_SECONDS)
        if is_over:
            return False
        if (at := next_look(pool, now)) is not None:
            self._events.schedule(at, partial(self._look, pool), repeats=True)
        steering = steer(pool, facts.frame.nodes, now)
        if steering.lend:
            self.lend(steering.lend)
        if steering.ask_back:
            self.ask_back(self.choose(pool.name, steering.ask_back), steering.return_by)
        return bool(steering.lend or steering.ask_back)

    def _take(self, pause_seconds: float = 0.0) -> bool:
        """Return empty nodes to their pools, and the others once they are empty."""
        facts, now = self._cluster.round_engine.facts, self._events.now
        held = {gpu for running in facts.running.values() for gpu in running.gpus}
        due = [
            node
            for node in facts.frame.nodes
            if node.loan is not None and node.loan.return_by is not None and node.loan.return_by <= now
        ]
        empty = [node.id for node in due if not any(gpu.id in held for gpu in node.gpus)]
        self._put(empty, lambda loan: replace(loan, state=SERVING, return_by=None, stops_at=None))
        if len(empty) < len(due):
            # A job that leaves at this instant may do so after this event; so check again soon.
            self._events.schedule(now + pause_seconds, partial(self._take, 1.0))
        return bool(empty)

    def _put(
        self,
        nodes: Collection[NodeId],
        change: Callable[[NodeLoan], NodeLoan],
        stops_at: dict[NodeId, float] | None = None,
    ) -> None:
        if not nodes:
            return

        def changed(node: Node) -> Node:
            if node.loan is None or node.id not in nodes:
                return node
            loan = change(node.loan)
            return replace(node, loan=replace(loan, stops_at=stops_at[node.id]) if stops_at else loan)

        self._cluster.reconfigure(
            lambda facts: replace(facts, nodes=tuple([changed(node) for node in facts.nodes]))
        )
