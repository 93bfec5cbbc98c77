"""Nodes come and go by what jobs make of them: never too few, never too many, and only empty ones leave."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.model.training import Goodput
from scheduler.core.sim.autoscaling import nodes_needed, utility
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Autoscaling, Rules
from scheduler.core.sim.workload import Arrival
from tests.builders import make_job, make_node
from tests.core.sim.worlds import arrival, cluster

#: Synchronising costs nothing, and gradients are without noise: batches beyond the initial one are worth less
#: in proportion, so more GPUs bring nothing at all.
STUBBORN = Goodput(
    parameters={"V100": (1e-8, 0.01, 1e-8, 1e-8, 1e-8, 1e-8, 1.0)},
    noise=(1.0, 0.0),
    initial_batch=64,
    max_batch=64 * 16,
    min_local_batch=64,
    max_local_batch=64,
    most_replicas=16,
)
FOUR = [4, 4, 4, 4]


def world(nodes: int = 4, policy: str = "fifo") -> Snapshot:
    return cluster(
        4 * nodes, policy=policy, nodes=[make_node(number, gpus=4) for number in range(1, nodes + 1)]
    )


def played(arrivals: Sequence[Arrival], terms: Autoscaling, *, nodes: int = 4, **costs: float) -> Engine:
    """Run to the end; whoever is on a node that has left, or whose nodes are too few or many, fails it."""

    def look(engine: Engine, *_: object) -> None:
        scaler = engine.autoscaler
        assert scaler is not None
        assert terms.min_nodes <= nodes - len(scaler.closed) <= (terms.max_nodes or nodes)
        out = {
            gpu.id
            for node in engine.round_engine.facts.frame.nodes
            if node.id in scaler.out
            for gpu in node.gpus
        }
        assert not any(out.intersection(held.gpus) for held in engine.round_engine.facts.running.values())

    engine = Engine(world(nodes), arrivals, Rules(costs=Costs(**costs), autoscaling=terms), on_round=look)
    assert engine.run() == ""
    assert not engine.degraded
    assert not engine.never
    return engine


def needed(jobs: Sequence[Job], serving: int = 4, rooms: Sequence[int] = FOUR, **terms: float) -> int:
    return nodes_needed(Autoscaling(**terms), rooms, serving, jobs, {})  # type: ignore[arg-type]


def test_utility_is_the_speedups_over_one_gpu_by_the_gpus() -> None:
    jobs = [make_job(1, 4), make_job(2, 1, replicas=2)]
    assert utility([4, 4], jobs, {}) == pytest.approx(6 / 8)
    # Without measurements one GPU at first: nobody knows yet what it makes of two.
    assert utility([4, 4], [make_job(1, 1, elastic=(1, 8))], {}) == pytest.approx(2 / 8, abs=1 / 8)
    stubborn = make_job(1, 1, elastic=(1, 8), elastic_mode="adaptive", goodput=STUBBORN)
    assert utility([4], [stubborn], {}) == pytest.approx(1 / 4)
    assert utility([4, 4], [stubborn], {}) == pytest.approx(1 / 8)
    assert utility([4, 4], [], {}) == 0.0


def test_the_number_of_nodes_is_that_whose_utility_is_nearest_to_the_middle() -> None:
    jobs = [make_job(number, 1) for number in range(1, 5)]
    # Utilities of one to four nodes: 1, 1/2, 1/3 and 1/4.
    assert needed(jobs) == 2
    assert needed(jobs, low_utility=0.2, high_utility=0.46) == 4  # Within bounds: nothing changes.
    assert needed(jobs, serving=1, low_utility=0.2, high_utility=0.46) == 3
    assert needed(jobs, low_utility=0.9, high_utility=1.0) == 1


def test_no_fewer_nodes_than_bounds_and_the_largest_job_allow_and_no_more_than_there_are() -> None:
    one, many = [make_job(1, 1)], [make_job(number, 4) for number in range(1, 9)]
    assert needed(one) == 1
    assert needed(one, min_nodes=3) == 3
    assert needed([]) == 1
    assert needed([], min_nodes=2) == 2
    assert needed(many, serving=1) == 4
    assert needed(many, serving=1, max_nodes=2) == 2
    # Three replicas of three GPUs need three nodes of four; what fits on no number of nodes needs none.
    assert needed([make_job(1, 3, replicas=3)], low_utility=0.8, high_utility=1.0) == 3
    assert needed([make_job(1, 8)]) == 1


def test_a_quiet_cluster_shrinks_and_grows_for_a_crowd() -> None:
    """And is smaller at the same ends: nobody waits for a node that is not there."""
    crowd = [arrival(number, 1_000.0, 400.0) for number in range(2, 18)]
    terms = Autoscaling(every_seconds=100.0)
    engine = played([arrival(1, 0.0, 3_000.0), *crowd], terms)
    fixed = Engine(world(), [arrival(1, 0.0, 3_000.0), *crowd], Rules())
    assert fixed.run() == ""
    assert engine.now == fixed.now == 3_000.0
    # One node until 1,000 s, then four of them until the first look after the crowd has gone.
    assert 4 * engine.now - engine.autoscaler.out_seconds(engine.now) == pytest.approx(  # type: ignore[union-attr]
        3_000.0 + 3 * 400.0, abs=3 * 100.0
    )
    assert [stay.end for stay in engine.stays] == ["finished"] * 17


def test_a_node_leaves_only_when_the_jobs_there_have_written_their_checkpoints() -> None:
    """Eight jobs of half a node each; when six have ended, three nodes leave."""
    jobs = [arrival(number, 0.0, 200.0 if number > 2 else 5_000.0, gpus=2) for number in range(1, 9)]
    terms = Autoscaling(every_seconds=300.0, low_utility=0.6, high_utility=1.0)
    engine = played(jobs, terms, checkpoint_seconds=60.0)
    ended = {stay.job: stay for stay in engine.stays}
    assert all(stay.end in ("finished", "drained") for stay in engine.stays)
    assert {ended[job].end for job in ended} == {"finished"}
    assert engine.autoscaler is not None
    assert len(engine.autoscaler.out) == 3


def test_who_must_leave_goes_on_elsewhere_and_its_node_counts_until_it_is_empty() -> None:
    """Two jobs fill half a node each, on two nodes; there is room for both on one."""
    facts = world(2)
    apart = [
        arrival(1, 0.0, 1_000.0, gpus=2),
        arrival(2, 0.0, 50.0, gpus=2),
        arrival(3, 0.0, 1_000.0, gpus=2),
    ]
    terms = Autoscaling(every_seconds=100.0, low_utility=0.6, high_utility=1.0)
    rules = Rules(costs=Costs(checkpoint_seconds=30.0), autoscaling=terms)
    engine = Engine(facts, apart, rules)
    assert engine.run() == ""
    moved = [stay for stay in engine.stays if stay.end == "drained"]
    assert [(stay.job, stay.started_at, stay.ended_at) for stay in moved] == [(3, 0.0, 130.0)]
    assert engine.autoscaler is not None
    # It goes on at once where the second was; its node was paid for until its checkpoint was written.
    assert engine.now == 1_030.0
    assert engine.autoscaler.out_seconds(engine.now) == engine.now - 130.0


def test_a_gang_that_is_larger_than_what_is_in_service_waits_for_the_next_look() -> None:
    gang = arrival(2, 50.0, 100.0, gpus=4, replicas=3)
    engine = played([arrival(1, 0.0, 900.0), gang], Autoscaling(every_seconds=200.0))
    assert engine.progress[gang.job.id].ended_at == 300.0


def test_a_run_ends_though_looks_go_on_and_a_job_waits_in_vain() -> None:
    held = arrival(2, 0.0, 100.0, held=True)
    engine = Engine(world(), [arrival(1, 0.0, 100.0), held], Rules(autoscaling=Autoscaling()))
    assert "1 job waits for ever" in engine.run()


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ({"min_nodes": 0}, "min_nodes is 0"),
        ({"min_nodes": 3, "max_nodes": 2}, "at most max_nodes, 2"),
        ({"low_utility": 0.7}, "the first must be above 0 and below the second"),
        ({"high_utility": 1.5}, "at most 1"),
        ({"every_seconds": 0.0}, "every_seconds is 0.0"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Autoscaling(**terms)  # type: ignore[arg-type]
