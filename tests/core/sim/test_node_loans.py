"""Serving pools in virtual time: nodes come at night and go in the morning, and jobs shrink for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.model.snapshot import LENT, SERVING, Job, NodeId, NodeLoan, Snapshot
from scheduler.core.serving_pools.load_curve import DAY_SECONDS, curve_of
from scheduler.core.serving_pools.steering import ServingPool
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival, Truth
from tests.builders import make_job, make_node, make_snapshot, make_virtual_cluster

MIDNIGHT = 20_000.0 * DAY_SECONDS
HOUR = 3_600.0
POOL = ServingPool(name="chat", return_seconds=600.0, curve=curve_of({"08:00": 2, "20:00": 0}))


def world() -> Snapshot:
    """A node of the cluster's own and two of the pool, four GPUs each."""
    nodes = [
        make_node(1, gpus=4),
        *(make_node(number, gpus=4, loan=NodeLoan(pool="chat")) for number in (2, 3)),
    ]
    clusters = [make_virtual_cluster(guaranteed={"V100": 12}, policy="aryl", placer="aryl")]
    return make_snapshot(nodes=nodes, virtual_clusters=clusters, now=MIDNIGHT, round_seconds=0.0)


def arrival(job: Job, hours: float) -> Arrival:
    """A job that has so many hours of work at its own size."""
    known = replace(job, estimate_seconds=hours * HOUR, submitted_at=MIDNIGHT)
    return Arrival(job=known, truth=Truth(work_seconds=hours * HOUR))


def played(*arrivals: Arrival, costs: Costs | None = None) -> Engine:
    engine = Engine(world(), arrivals, Rules(costs=costs or Costs()), pools=[POOL])
    assert engine.run() == ""
    return engine


def states(engine: Engine) -> list[str]:
    return [node.loan.state for node in engine.round_engine.facts.frame.nodes if node.loan is not None]


def test_a_gang_grows_into_lent_nodes_by_night_and_shrinks_when_they_go_back() -> None:
    gang = make_job(1, 1, replicas=4, elastic=(4, 12))
    engine = played(arrival(gang, 34.0))
    ends = [(stay.end, len(stay.gpus), round((stay.ended_at - MIDNIGHT) / HOUR, 2)) for stay in engine.stays]
    # 12 GPUs until the pool asks its nodes back ten minutes before eight, then its own 4.
    assert ends[0] == ("resized", 12, pytest.approx(7.83, abs=0.01))
    assert [end for end, _, _ in ends] == ["resized", "finished"]
    assert [each.preempts for each in engine.node_loans.returns] == [(), ()]
    assert engine.progress[gang.id].preemptions == 0


def test_what_cannot_shrink_is_stopped_in_time_for_its_checkpoint() -> None:
    """And the pool has its nodes at the step."""
    rigid = make_job(1, 4, replicas=3)
    costs = Costs(checkpoint_seconds=60.0)
    engine = Engine(world(), [arrival(rigid, 9.0)], Rules(costs=costs), pools=[POOL])
    at_eight: list[list[str]] = []

    def until(engine: Engine) -> bool:
        if engine.now >= MIDNIGHT + 8 * HOUR and not at_eight:
            at_eight.append(states(engine))
        return False

    assert engine.run(until) == ""
    first, last = engine.stays
    assert (first.end, first.ended_at) == ("drained", MIDNIGHT + 8 * HOUR)
    assert at_eight == [[SERVING, SERVING]]
    # It goes on in the evening, when the nodes are lent again.
    assert last.started_at == MIDNIGHT + 20 * HOUR
    assert states(engine) == [LENT, LENT]


def test_a_run_ends_though_curves_go_on_and_a_job_waits_in_vain() -> None:
    held = replace(make_job(2, 4), held=True)
    engine = Engine(world(), [arrival(make_job(1, 4), 1.0), arrival(held, 1.0)], Rules(), pools=[POOL])
    assert "1 job waits for ever" in engine.run()


def test_a_node_that_is_named_is_lent_and_asked_back() -> None:
    engine = Engine(world(), [arrival(make_job(1, 4, replicas=2), 3.0)], Rules())
    engine.node_loans.lend([NodeId(2)])
    engine.run(until=lambda engine: True)
    assert states(engine) == [LENT, SERVING]
    engine.node_loans.ask_back([NodeId(2)], MIDNIGHT + HOUR)
    assert engine.run(until=lambda engine: engine.now > MIDNIGHT + HOUR)
    assert states(engine) == [SERVING, SERVING]
    assert [stay.end for stay in engine.stays] == ["drained"]
