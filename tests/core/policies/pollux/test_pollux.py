"""Pollux through decide(): cycles, new jobs, sizes, nodes, and jobs that are not elastic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import ADAPTIVE, FIXED_WORLD, Job, JobId, Node, Running, Snapshot, Task
from scheduler.core.model.training import Goodput
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

#: On a V100: 64 samples in 0.18 s, and little time to synchronise.
SCALES = Goodput(
    parameters={"V100": (0.05, 0.002, 0.02, 0.001, 0.01, 0.001, 1.5)},
    noise=(0.05, 1.0),
    initial_batch=64,
    max_batch=4096,
    max_local_batch=256,
    most_replicas=4,
)
#: As long as computing, whatever it computes: more GPUs are of little use to it.
SYNCHRONISES = replace(SCALES, parameters={"V100": (0.05, 0.002, 0.9, 0.1, 0.4, 0.1, 1.0)}, max_batch=128)


def elastic(number: int, most: int = 8, **fields: Any) -> Job:
    """One replica of one GPU, up to `most`; submitted an hour and more ago."""
    return make_job(number, 1, elastic=(1, most), elastic_mode=ADAPTIVE, **fields)


def world(*jobs: Job, running: tuple[Running, ...] = (), nodes: int = 2, **fields: Any) -> Snapshot:
    """Nodes of four GPUs, all guaranteed to one virtual cluster under pollux."""
    parameters = fields.pop("parameters", {})
    vc = make_virtual_cluster(guaranteed={"V100": 4 * nodes}, policy="pollux", policy_parameters=parameters)
    return make_snapshot(
        nodes=make_cluster(nodes, gpus=4), jobs=jobs, running=running, virtual_clusters=[vc], **fields
    )


def sizes(snapshot: Snapshot, plan: Plan | None = None) -> dict[int, int]:
    """GPUs of each job after the round."""
    plan = decide(snapshot) if plan is None else plan
    assert not plan.degraded
    found = {int(held.jobs[0]): len(held.gpus) for held in snapshot.running}
    for action in plan.actions:
        found[int(action.jobs[0])] = 0 if action.placement is None else len(action.placement.gpus)
    return found


def test_a_job_of_which_nothing_was_measured_has_one_gpu_then_twice_as_many_as_ever() -> None:
    loop = VirtualLoop(world(elastic(1), round_seconds=60.0), {1: 1e9})
    seen = []
    for _ in range(8):
        loop.step()
        seen.append(len(loop.snapshot.running[-1].gpus))
    assert list(dict.fromkeys(seen)) == [1, 2, 4, 8]


def test_what_was_measured_says_how_far_it_may_grow() -> None:
    assert sizes(world(elastic(1, 16, goodput=SCALES), nodes=4)) == {1: 8}


@pytest.mark.parametrize("search", ["greedy", "genetic"])
@pytest.mark.parametrize(
    "nodes",
    [
        (make_node(1, gpus=4), make_node(2, gpus=4, broken=(3,)), make_node(3, gpus=4)),
        (make_node(1, gpus=4), make_node(2, gpus=4, schedulable=False), make_node(3, gpus=4)),
    ],
    ids=["a broken GPU", "a cordoned node"],
)
def test_a_gang_on_gpus_that_can_no_longer_be_handed_out_stays_and_the_others_are_served(
    nodes: tuple[Node, ...], search: str
) -> None:
    """It used to stop its whole virtual cluster for as long as it ran."""
    gang = elastic(1, replicas=8)
    held = make_running(gang, [[number] for number in (*range(100, 104), *range(200, 204))], since=NOW - 60)
    facts = world(gang, elastic(2), running=(held,), parameters={"search": search}, nodes=3)
    assert sizes(replace(facts, nodes=nodes)) == {1: 8, 2: 1}


def test_a_job_too_large_for_the_nodes_of_its_preferred_model_runs_on_another() -> None:
    job = make_job(1, tasks=(Task(replicas=1, gpus=1, cpus=40.0),), throughput={"P100": 10.0, "V100": 5.0})
    nodes = (make_node(1, gpu_model="P100", cpus=32.0), make_node(2, gpu_model="V100", cpus=64.0))
    cluster = make_virtual_cluster(guaranteed={"P100": 8, "V100": 8}, policy="pollux")
    # Every round is a cycle, so no round in between starts what the search left.
    facts = make_snapshot(nodes=nodes, jobs=[job], virtual_clusters=[cluster], round_seconds=60.0)
    assert sizes(facts) == {1: 1}


def test_gpus_go_where_they_are_of_use() -> None:
    found = sizes(world(elastic(1, goodput=SCALES), elastic(2, goodput=SYNCHRONISES)))
    assert found[1] > 4 > found[2] >= 1


def test_who_scales_badly_is_starved_by_throughput_alone_but_not_by_the_harmonic_mean() -> None:
    jobs = [elastic(number, goodput=SYNCHRONISES if number > 4 else SCALES) for number in range(1, 9)]
    assert min(sizes(world(*jobs, parameters={"power": -1})).values()) == 1


def test_everyone_is_considered_anew_only_when_a_cycle_is_over() -> None:
    snapshot = world(elastic(1, goodput=SCALES))
    plan = decide(snapshot)
    assert plan.wake_at == NOW + 60
    running = make_running(1, [[100], [101]], since=NOW)
    later = replace(snapshot, running=(running,), memory=plan.memory)
    for seconds, kinds in ((30.0, []), (59.0, []), (60.0, [ActionKind.RESIZE])):
        plan = decide(replace(later, now=NOW + seconds))
        assert [action.kind for action in plan.actions] == kinds


def test_a_job_that_comes_between_cycles_starts_at_once_with_the_fewest_gpus() -> None:
    memory = {"research": {"policy": "pollux", "at": NOW - 10}}
    running = make_running(1, [[100], [200]])
    plan = decide(
        world(
            elastic(1, goodput=SCALES),
            elastic(2, goodput=SCALES),
            make_job(3, 4),
            running=(running,),
            memory=memory,
        )
    )
    [start] = plan.actions
    assert (start.kind, start.jobs, start.placement and len(start.placement.gpus)) == (
        ActionKind.START,
        (2,),
        1,
    )
    assert plan.reasons[JobId(3)][-1].code == "next_cycle"
    assert plan.wake_at == NOW + 50


def test_a_gang_of_fixed_size_runs_beside_elastic_ones() -> None:
    found = sizes(world(elastic(1, goodput=SCALES), make_job(2, 1, replicas=3)))
    assert found == {1: 5, 2: 3}


def test_it_keeps_its_size_while_others_come_and_go() -> None:
    rigid = make_job(2, 1, replicas=3)
    running = make_running(rigid, [[100], [101], [102]])
    found = sizes(world(rigid, elastic(1, goodput=SCALES), elastic(3, goodput=SCALES), running=(running,)))
    assert found[2] == 3
    assert sum(found.values()) == 8


def test_a_fixed_world_gets_numbers_that_divide_it() -> None:
    job = make_job(1, 1, replicas=6, elastic=(1, 6), elastic_mode=FIXED_WORLD)
    running = make_running(job, [[100], [101], [102]])
    holder = make_job(2, 1, replicas=3)
    held = make_running(holder, [[103], [200], [201]])
    assert sizes(world(job, holder, running=(running, held))) == {1: 3, 2: 3}


def test_a_gang_that_shrinks_keeps_gpus_that_it_has() -> None:
    job = elastic(1, goodput=SCALES)
    running = make_running(job, [[gpu] for gpu in (100, 101, 102, 103, 200, 201, 202, 203)])
    plan = decide(world(job, elastic(2, goodput=SCALES), running=(running,)))
    [resize] = [action for action in plan.actions if action.jobs == (job.id,)]
    assert resize.kind is ActionKind.RESIZE
    assert resize.placement is not None
    assert set(resize.placement.gpus) < set(running.gpus)


def test_gangs_over_nodes_keep_off_each_others_nodes() -> None:
    jobs = [elastic(number, 16, goodput=replace(SCALES, most_replicas=8)) for number in (1, 2, 3)]
    plan = decide(world(*jobs, nodes=4))
    nodes = [
        {gpu // 100 for gpu in action.placement.gpus}
        for action in plan.actions
        if action.placement is not None
    ]
    spread = [each for each in nodes if len(each) > 1]
    assert sum(map(len, spread)) == len(set().union(*spread))


def test_an_allocation_that_is_as_good_as_any_is_kept() -> None:
    jobs = [elastic(number, goodput=SCALES) for number in (1, 2)]
    held = [
        make_running(1, [[gpu] for gpu in (200, 201, 202, 203)]),
        make_running(2, [[gpu] for gpu in (100, 101, 102, 103)]),
    ]
    assert decide(world(*jobs, running=tuple(held))).actions == ()


def test_cpus_that_are_short_keep_a_gang_as_it_is() -> None:
    """There are GPUs for eight replicas, and CPUs for five."""
    job = elastic(1, goodput=SCALES)
    job = replace(job, tasks=(replace(job.tasks[0], cpus=12.0),))
    snapshot = world(job, running=(make_running(job, [[100], [101]]),))
    snapshot = replace(snapshot, nodes=tuple(replace(node, cpus=30.0) for node in snapshot.nodes))
    assert sizes(snapshot) == {1: 2}


def test_each_model_is_decided_by_itself() -> None:
    snapshot = world(*[elastic(number, 4, gpu_models=("V100", "P100")) for number in range(1, 13)])
    nodes = (*snapshot.nodes, *make_cluster(2, gpus=4, gpu_model="P100", first=3))
    vc = replace(snapshot.virtual_clusters[0], guaranteed={"V100": 8, "P100": 8})
    found = sizes(replace(snapshot, nodes=nodes, virtual_clusters=(vc,)))
    assert found == dict.fromkeys(range(1, 13), 1)


def test_higher_priority_comes_first() -> None:
    jobs = [elastic(number, priority=5 if number > 8 else 0) for number in range(1, 13)]
    found = sizes(world(*jobs))
    assert {number for number in found if number > 8} == {9, 10, 11, 12}
    assert len(found) == 8


def test_the_genetic_search_decides_too_and_remembers_a_little() -> None:
    parameters = {"search": "genetic", "generations": 20, "population": 20}
    snapshot = world(elastic(1, goodput=SCALES), elastic(2, goodput=SYNCHRONISES), parameters=parameters)
    plan = decide(snapshot)
    found = sizes(snapshot, plan)
    assert found[1] > found[2] >= 1
    assert len(plan.memory["research"]["population"]["V100"]) <= 10
    again = decide(replace(snapshot, now=NOW + 60, memory=plan.memory))
    assert not again.degraded


def test_goodput_that_makes_no_sense_counts_as_none() -> None:
    nonsense = replace(SCALES, parameters={"V100": (float("inf"),) * 7})
    assert sizes(world(elastic(1, goodput=nonsense), nodes=1))[1] >= 1


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"power": 2}, "power must be between -100 and 1"),
        ({"cycle_seconds": 0}, "cycle_seconds must be above 0"),
        ({"search": "luck"}, "choose greedy or genetic"),
        ({"most_nodes": 0}, "must be at least 1"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(Exception, match=problem):
        make_policy("pollux", parameters)
