"""Sia on whole rounds: worked examples in numbers of ours, since the paper's are figures only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.goodput.throughput import LEAST_SECONDS
from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import ADAPTIVE, FIXED_WORLD, Job, Snapshot, VirtualCluster
from scheduler.core.model.training import Goodput
from scheduler.core.policies.sia.configurations import counts_on, restart_factor
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import make_policy
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_node,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.virtual_loop import VirtualLoop

#: Seconds of a gradient of 64 samples; with free synchronisation, and with one that takes as long again.
FREE = (0.0, 0.01, LEAST_SECONDS, LEAST_SECONDS, LEAST_SECONDS, LEAST_SECONDS, 1.0)
DEAR = (0.0, 0.01, 1.28, 0.64, 0.64, 0.64, 1.0)


def vc(guaranteed: dict[str, int], **parameters: object) -> VirtualCluster:
    return make_virtual_cluster(guaranteed=guaranteed, policy="sia", policy_parameters=parameters)


def elastic(number: int, most: int, *parameters: tuple[str, tuple[float, ...]], **fields: object) -> Job:
    """A job of one replica that may have up to so many; it was measured with all of them."""
    goodput = Goodput(
        parameters=dict(parameters),  # type: ignore[arg-type]
        noise=(1.0, 100.0),
        initial_batch=64,
        max_batch=4096,
        max_local_batch=64,
        most_replicas=most,
    )
    values: dict[str, object] = {"elastic": (1, most), "elastic_mode": ADAPTIVE, "goodput": goodput}
    return make_job(number, 1, **{**values, **(fields if parameters else {**fields, "goodput": None})})  # type: ignore[arg-type]


def sizes(plan: Plan) -> dict[int, tuple[str, int]]:
    """The model and the GPUs of whoever starts, moves or is resized."""
    return {
        job: (action.placement.gpu_model, len(action.placement.gpus))
        for action in plan.actions
        if action.placement
        for job in action.jobs
    }


def test_gpus_go_where_they_are_of_use() -> None:
    """One job scales perfectly, the other hardly: of six GPUs the first has four, the other two."""
    scales, hardly = elastic(1, 4, ("V100", FREE)), elastic(2, 4, ("V100", DEAR))
    for jobs in ((scales, hardly), (replace(scales, id=hardly.id), replace(hardly, id=scales.id))):
        plan = decide(
            make_snapshot(nodes=[make_node(1, gpus=6)], jobs=jobs, virtual_clusters=[vc({"V100": 6})])
        )
        assert sizes(plan) == {jobs[0].id: ("V100", 4), jobs[1].id: ("V100", 2)}


def test_each_job_has_the_model_that_it_gains_most_by() -> None:
    """Both are fastest on a V100, one by 4 and one by 1.2 times: the first gets it."""
    slower = {"V100": (0.0, 0.01, *FREE[2:]), "P100": (0.0, 0.012, *FREE[2:])}
    much_slower = {"V100": (0.0, 0.01, *FREE[2:]), "P100": (0.0, 0.04, *FREE[2:])}
    jobs = [elastic(1, 4, *slower.items()), elastic(2, 4, *much_slower.items())]
    nodes = [make_node(1, gpus=4), make_node(2, gpus=4, gpu_model="P100")]
    plan = decide(make_snapshot(nodes=nodes, jobs=jobs, virtual_clusters=[vc({"V100": 4, "P100": 4})]))
    assert sizes(plan) == {1: ("P100", 4), 2: ("V100", 4)}


def test_a_model_on_which_nothing_was_measured_is_projected_from_one_on_which_it_was() -> None:
    job = elastic(1, 4, ("P100", FREE), throughput={"P100": 100.0, "V100": 300.0})
    nodes = [make_node(1, gpus=4), make_node(2, gpus=4, gpu_model="P100")]
    snapshot = make_snapshot(nodes=nodes, jobs=[job], virtual_clusters=[vc({"V100": 4, "P100": 4})])
    assert sizes(decide(snapshot)) == {1: ("V100", 4)}
    nowhere_else = replace(job, throughput={"P100": 100.0, "V100": 0.0})
    assert sizes(decide(replace(snapshot, jobs=(nowhere_else,)))) == {1: ("P100", 4)}


def test_a_rigid_gang_has_its_own_size_and_an_elastic_one_makes_room() -> None:
    grown = elastic(1, 8, ("V100", FREE))
    rigid = make_job(2, 1, replicas=4)
    running = [make_running(grown, [[100 + gpu] for gpu in range(8)], since=NOW - 9_000)]
    snapshot = make_snapshot(jobs=[grown, rigid], running=running, virtual_clusters=[vc({"V100": 8})])
    plan = decide(snapshot)
    assert sizes(plan) == {1: ("V100", 4), 2: ("V100", 4)}
    shrunk = next(action for action in plan.actions if action.kind is ActionKind.RESIZE)
    assert shrunk.placement is not None
    assert set(shrunk.placement.gpus) <= set(running[0].gpus)


def test_a_job_of_which_nothing_is_known_doubles_round_by_round() -> None:
    job = elastic(1, 8)
    snapshot = make_snapshot(jobs=[job], virtual_clusters=[vc({"V100": 8})], round_seconds=60.0)
    loop, seen = VirtualLoop(snapshot, {1: 1e9}), []
    for _ in range(12):
        loop.step()
        seen += [
            len(held.gpus) for held in loop.snapshot.running if held.phase == "held" and not held.stopping
        ]
    assert list(dict.fromkeys(seen)) == [1, 2, 4, 8]


def test_small_jobs_move_for_a_gang_that_would_fit() -> None:
    """Two nodes of four with two GPUs idle on each; a replica of four GPUs needs one of them whole."""
    small = [make_job(number, 2) for number in (1, 2)]
    large = make_job(3, 4)
    running = [make_running(small[0], [100, 101]), make_running(small[1], [200, 201])]
    snapshot = make_snapshot(
        nodes=make_cluster(2, gpus=4),
        jobs=[*small, large],
        running=running,
        virtual_clusters=[vc({"V100": 8})],
    )
    plan = decide(snapshot)
    assert sorted(action.kind for action in plan.actions) == [ActionKind.MOVE, ActionKind.START]


def test_who_comes_between_rounds_starts_at_once_on_what_is_idle() -> None:
    jobs = [elastic(1, 8), elastic(2, 8), make_job(3, 8)]
    snapshot = make_snapshot(
        jobs=jobs,
        running=[make_running(jobs[0], [100, 101])],
        virtual_clusters=[vc({"V100": 8})],
        memory={"research": {"policy": "sia", "at": NOW - 20}},
    )
    plan = decide(snapshot)
    assert sizes(plan) == {2: ("V100", 1)}
    assert plan.wake_at == NOW + 40
    assert "next_cycle" in [reason.code for reason in plan.reasons[jobs[2].id]]


def test_counts_are_powers_of_two_then_whole_nodes() -> None:
    measured = elastic(1, 64, ("V100", FREE))
    assert counts_on(measured, None, 8) == [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]
    assert counts_on(measured, None, 6) == [1, 2, 4, 6, 12, 18, 24, 30, 36, 42, 48, 54, 60]
    assert counts_on(elastic(1, 64), None, 8) == [1]
    assert counts_on(elastic(1, 64), make_running(1, [[100], [101], [102]]), 8) == [1, 2, 4]
    assert counts_on(make_job(1, 3), None, 8) == [3]
    fixed = make_job(1, 1, replicas=6, elastic=(1, 6), elastic_mode=FIXED_WORLD)
    assert counts_on(fixed, make_running(1, [[100], [101], [102]]), 8) == [1, 2]
    assert counts_on(make_job(1, 1, replicas=7, elastic=(3, 3)), None, 8) == [3]


def test_restarts_count_less_the_older_a_job_is() -> None:
    job = make_job(1, submitted_at=NOW - 270, attempts=3)
    assert restart_factor(job, NOW, 30.0) == pytest.approx((270 - 2 * 30) / 300)
    measured = replace(job, preemption_cost_seconds=90.0)
    assert restart_factor(measured, NOW, 0.0) == pytest.approx(90 / 360)
    assert restart_factor(measured, NOW, 30.0) == restart_factor(job, NOW, 0.0) == pytest.approx(0.7)
    assert restart_factor(replace(job, submitted_at=NOW), NOW, 30.0) == 0


def test_it_needs_a_power_that_is_not_0() -> None:
    with pytest.raises(UnknownPlugin, match="power must be between -10 and 1, and not 0"):
        make_policy("sia:power=0.0")


@pytest.mark.parametrize("penalty", [0.5, 1.0])
def test_waiting_costs_more_than_running(penalty: float) -> None:
    """With a penalty of 1 a job would gain nothing from its only GPU, and wait for ever beside idle ones."""
    with pytest.raises(UnknownPlugin, match="for a power below 0 it must be above 1"):
        make_policy(f"sia:penalty={penalty}")
    make_policy(f"sia:penalty={penalty},power=1.0")


def test_pinned_jobs_are_worked_around() -> None:
    """A job too young to be displaced keeps what it has; the others share what is left."""
    young, waiting = elastic(1, 8, ("V100", FREE)), elastic(2, 8, ("V100", FREE))
    snapshot: Snapshot = make_snapshot(
        jobs=[young, waiting, make_job(3, 1, replicas=2)],
        running=[make_running(young, [[100 + gpu] for gpu in range(4)], since=NOW - 10)],
        virtual_clusters=[replace(vc({"V100": 8}), min_run_seconds=600.0)],
    )
    assert sizes(decide(snapshot)) == {2: ("V100", 2), 3: ("V100", 2)}


def test_a_model_whose_nodes_are_too_small_is_no_reason_to_wait() -> None:
    """By counts eight GPUs of each model are idle; a replica of eight fits on a V100 node alone."""
    nodes = [make_node(number, gpus=4, gpu_model="P100") for number in (1, 3)]
    nodes.append(make_node(2, gpus=8))
    facts = make_snapshot(nodes=nodes, jobs=[make_job(1, 8)], virtual_clusters=[vc({"P100": 8, "V100": 8})])
    assert sizes(decide(facts)) == {1: ("V100", 8)}
