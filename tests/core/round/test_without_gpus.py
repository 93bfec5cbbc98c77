"""Jobs that take CPUs and memory only: where they go, who gives way to whom, and why one waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Action, ActionKind, Placement, Plan
from scheduler.core.model.snapshot import Candidates, Job, Node, Running, Snapshot, Task
from scheduler.core.round.checks.plan import check
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import PLACERS
from tests.builders import (
    make_cluster,
    make_job,
    make_node,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)

GIB = 2**30


def preprocessing(number: int, cpus: float, *, replicas: int = 1, memory: int = 0, **fields: object) -> Job:
    tasks = [Task(replicas=replicas, gpus=0, cpus=cpus, memory_bytes=memory)]
    return make_job(number, tasks=tasks, **fields)  # type: ignore[arg-type]


def runs_on(job: Job, *nodes: int, gpu_model: str = "V100") -> Running:
    return make_running(job, [[]] * len(nodes), gpu_model=gpu_model, nodes=nodes)


def facts(jobs: Sequence[Job], nodes: Sequence[Node], running: Sequence[Running] = ()) -> Snapshot:
    guaranteed = {"V100": sum(len(node.gpus) for node in nodes)}
    return make_snapshot(
        nodes=nodes,
        jobs=jobs,
        running=running,
        virtual_clusters=[make_virtual_cluster(guaranteed=guaranteed)],
    )


def places(plan: Plan) -> dict[int, tuple[int, ...]]:
    """Return the nodes of those who are started."""
    return {action.jobs[0]: action.placement.nodes for action in plan.actions if action.placement is not None}


CPU_NODE = make_node(2, gpus=0, gpu_model="", cpus=32.0, memory_bytes=64 * GIB)
GPU_NODE = make_node(1, cpus=32.0, memory_bytes=64 * GIB)


def test_a_node_without_gpus_is_taken_first() -> None:
    plan = decide(
        facts([preprocessing(1, 16), preprocessing(2, 16), preprocessing(3, 16)], [GPU_NODE, CPU_NODE])
    )
    assert places(plan) == {1: (2,), 2: (2,), 3: (1,)}
    assert [action.placement.gpu_model for action in plan.actions if action.placement] == ["", "", "V100"]


def test_of_nodes_with_gpus_one_where_none_are_idle_is_taken_first() -> None:
    busy = make_job(9, 8)
    nodes = [replace(node, cpus=32.0) for node in make_cluster(2)]
    held = make_running(busy, [200 + number for number in range(8)])
    assert places(decide(facts([busy, preprocessing(1, 4)], nodes, [held]))) == {1: (2,)}


def test_a_gang_is_placed_whole_over_nodes_or_not_at_all() -> None:
    gang = preprocessing(1, 20, replicas=2)
    nodes = [replace(node, cpus=32.0) for node in make_cluster(2)]
    assert places(decide(facts([gang], nodes))) == {1: (1, 2)}
    plan = decide(facts([gang], nodes[:1]))
    assert plan.reasons[gang.id][0].code == "exceeds_packing"


def test_memory_alone_is_enough_to_ask_for_and_to_be_short_of() -> None:
    first, second = [preprocessing(number, 0, memory=40 * GIB) for number in (1, 2)]
    plan = decide(facts([first, second], [CPU_NODE]))
    assert places(plan) == {1: (2,)}
    (reason,) = plan.reasons[second.id]
    assert reason.code == "node_resources"
    assert reason.message.endswith("it may use lack CPUs or memory: one replica needs 40.0 GiB of memory.")


def test_gpus_are_given_out_before_cpus() -> None:
    """Though the job without GPUs came first."""
    training = make_job(2, tasks=[Task(replicas=1, gpus=8, cpus=30.0)])
    plan = decide(facts([preprocessing(1, 4), training], [GPU_NODE]))
    assert [action.jobs for action in plan.actions] == [(2,)]
    assert plan.queues["research"] == (1,)


def test_higher_priority_then_earlier_submission_is_served_first() -> None:
    jobs = [preprocessing(1, 20), preprocessing(2, 20), preprocessing(3, 20, priority=5)]
    plan = decide(facts(jobs, [CPU_NODE]))
    assert places(plan) == {3: (2,)}
    assert plan.queues["research"] == (1, 2)


def test_a_guaranteed_job_with_gpus_takes_cpus_back_from_an_opportunistic_one_without() -> None:
    training = make_job(2, tasks=[Task(replicas=1, gpus=1, cpus=20.0)])
    guest = preprocessing(1, 20, guaranteed=False)
    plan = decide(facts([guest, training], [GPU_NODE], [runs_on(guest, 1)]))
    stop = next(action for action in plan.actions if action.kind is ActionKind.STOP)
    assert (stop.jobs, stop.preempted_by) == ((1,), (2,))
    assert stop.message == (
        "The CPUs or memory of its node were reclaimed by guaranteed job 2 of virtual cluster research."
    )


def test_a_guaranteed_job_without_gpus_takes_them_back_too() -> None:
    training = make_job(1, tasks=[Task(replicas=1, gpus=1, cpus=20.0)], guaranteed=False)
    plan = decide(facts([training, preprocessing(2, 20)], [GPU_NODE], [make_running(training, [100])]))
    assert {action.kind: action.jobs for action in plan.actions} == {
        ActionKind.START: (2,),
        ActionKind.STOP: (1,),
    }


def test_who_gives_way_goes_on_where_there_is_room() -> None:
    training = make_job(2, tasks=[Task(replicas=1, gpus=1, cpus=20.0)])
    guest = preprocessing(1, 20, guaranteed=False)
    plan = decide(facts([guest, training], [GPU_NODE, CPU_NODE], [runs_on(guest, 1)]))
    moved = next(action for action in plan.actions if action.kind is ActionKind.MOVE)
    assert moved.jobs == (1,)
    assert moved.placement == Placement(gpu_model="", replicas=((),), nodes=(2,))


def test_a_guaranteed_one_is_not_stopped_for_gpus() -> None:
    training = make_job(2, tasks=[Task(replicas=1, gpus=1, cpus=20.0)])
    own = preprocessing(1, 20)
    plan = decide(facts([own, training], [GPU_NODE], [runs_on(own, 1)]))
    assert not plan.actions
    assert plan.reasons[training.id][0].code == "node_resources"


def test_it_stays_while_nothing_happens_and_ends_as_others_do() -> None:
    own = preprocessing(1, 20)
    there = runs_on(own, 2, gpu_model="")
    assert not decide(facts([own], [CPU_NODE], [there])).actions
    cancelled = decide(facts([replace(own, cancelling=True)], [CPU_NODE], [there]))
    late = decide(facts([replace(own, time_limit_seconds=60.0)], [CPU_NODE], [there]))
    for plan, cause in (cancelled, "cancelled"), (late, "time_limit"):
        assert [(action.kind, action.cause) for action in plan.actions] == [(ActionKind.STOP, cause)]


def test_nodes_that_take_no_work_and_those_ruled_out_are_left_alone() -> None:
    cordoned = replace(CPU_NODE, schedulable=False)
    assert places(decide(facts([preprocessing(1, 4)], [GPU_NODE, cordoned]))) == {1: (1,)}
    picky = preprocessing(1, 4, nodes=Candidates(avoid=(CPU_NODE.name,)))
    assert places(decide(facts([picky], [GPU_NODE, CPU_NODE]))) == {1: (1,)}
    of_models = preprocessing(1, 4, gpu_models=("V100",))
    assert places(decide(facts([of_models], [GPU_NODE, CPU_NODE]))) == {1: (1,)}


def test_a_promise_on_a_node_that_closes_is_lost() -> None:
    own = preprocessing(1, 20)
    there = replace(runs_on(own, 2, gpu_model=""), phase="planned")
    plan = decide(facts([own], [replace(CPU_NODE, schedulable=False), GPU_NODE], [there]))
    assert [(action.kind, action.placement and action.placement.nodes) for action in plan.actions] == [
        (ActionKind.MOVE, (1,))
    ]


def test_a_gang_may_have_replicas_with_and_without_gpus() -> None:
    tasks = [Task(replicas=1, gpus=4, cpus=4.0), Task(replicas=2, gpus=0, cpus=20.0)]
    nodes = [replace(node, cpus=32.0) for node in make_cluster(2)]
    plan = decide(facts([make_job(1, tasks=tasks)], nodes))
    (action,) = plan.actions
    assert action.placement is not None
    assert list(map(len, action.placement.replicas)) == [4, 0, 0]
    assert sorted(action.placement.nodes[1:]) == [1, 2]


@pytest.mark.parametrize("placer", PLACERS)
def test_every_placer_places_them_and_never_more_than_a_node_has(placer: str) -> None:
    nodes = [GPU_NODE, CPU_NODE, make_node(3, cpus=8.0, memory_bytes=16 * GIB)]
    jobs = [preprocessing(number, 10, memory=4 * GIB) for number in range(1, 10)]
    snapshot = facts([*jobs, make_job(10, tasks=[Task(replicas=1, gpus=2, cpus=8.0)])], nodes)
    clusters = [replace(vc, placer=placer) for vc in snapshot.virtual_clusters]
    plan = decide(replace(snapshot, virtual_clusters=tuple(clusters)))
    assert not plan.degraded
    # Three beside each other on the node without GPUs, and two beside the job that has some.
    assert 5 <= len(places(plan)) - 1 <= 6


def test_the_check_knows_a_node_that_is_given_away_twice_and_one_that_is_not_said() -> None:
    one, two = preprocessing(1, 20), preprocessing(2, 20)
    snapshot = facts([one, two], [CPU_NODE], [runs_on(one, 2, gpu_model="")])

    def plan(nodes: tuple[int, ...]) -> Plan:
        placement = Placement(gpu_model="", replicas=((),), nodes=nodes)  # type: ignore[arg-type]
        start = Action(kind=ActionKind.START, jobs=(two.id,), virtual_cluster="research", placement=placement)
        return Plan(round_number=1, actions=(start,))

    with pytest.raises(PlanError, match="40 CPUs of node node-0002 are given, which has 32"):
        check(snapshot, plan((2,)))
    with pytest.raises(PlanError, match="neither GPUs nor a node"):
        check(snapshot, plan(()))
    with pytest.raises(PlanError, match="node 7, which may not be used"):
        check(snapshot, plan((7,)))


def test_what_takes_nothing_is_refused() -> None:
    plan = decide(facts([preprocessing(1, 0)], [CPU_NODE]))
    assert plan.reasons[preprocessing(1, 0).id][0].code == "no_gpus_requested"


def test_a_job_that_waits_for_its_own_nodes_is_told_of_cpus_and_memory() -> None:
    held, waits = preprocessing(1, 20), preprocessing(2, 20, nodes=Candidates(only=(CPU_NODE.name,)))
    plan = decide(facts([held, waits], [GPU_NODE, CPU_NODE], [runs_on(held, 2, gpu_model="")]))
    (reason,) = plan.reasons[waits.id]
    assert reason.message == (
        f"CPUs and memory for it are available, but not on the nodes that it may use: only {CPU_NODE.name}."
    )


def test_who_waits_for_cpus_to_be_left_is_told_by_whom() -> None:
    guest, claimant = preprocessing(1, 20, guaranteed=False), preprocessing(2, 20)
    there = runs_on(guest, 2, gpu_model="")
    told = "CPUs and memory are promised to it; they are still being released by job 1."
    plan = decide(facts([guest, claimant], [CPU_NODE], [there]))
    assert [(reason.code, reason.message) for reason in plan.reasons[2]] == [("waiting_for_release", told)]
    promised = replace(runs_on(claimant, 2, gpu_model=""), phase="planned", allocation=7)
    later = decide(facts([guest, claimant], [CPU_NODE], [replace(there, stopping=True), promised]))
    assert not later.actions
    assert [reason.message for reason in later.reasons[2]] == [told]


def test_who_finds_room_beside_one_that_leaves_waits_for_nobody() -> None:
    leaving, comes = preprocessing(1, 8), preprocessing(2, 20)
    there = replace(runs_on(leaving, 2, gpu_model=""), stopping=True)
    plan = decide(facts([leaving, comes], [CPU_NODE], [there]))
    assert places(plan) == {2: (2,)}
    assert 2 not in plan.reasons
