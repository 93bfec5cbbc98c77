"""Elastic gangs beyond what their virtual cluster is guaranteed: who grows, and who gives back to whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.cells.compiling import compiled
from scheduler.core.fairness.division import account_of
from scheduler.core.model.plan import Action, ActionKind, Plan
from scheduler.core.model.snapshot import FIXED_WORLD, Snapshot, Task, Tenant, Topology
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.worlds_in_cells import hardware_of, in_cells, owning

#: Of eight GPUs each is guaranteed two.
CLUSTERS = [make_virtual_cluster("research", {"V100": 2}), make_virtual_cluster("vision", {"V100": 2})]
GANG = make_job(1, replicas=2, elastic=(1, 8), submitted_at=NOW - 1_000)
#: It has two GPUs by its guarantee and four beyond it.
GROWN = replace(
    make_running(GANG, [[gpu] for gpu in range(100, 106)], since=NOW - 1_000), opportunistic_gpus=4
)


def facts(*jobs: Any, running: Any = (GROWN,), gang: Any = GANG, **fields: Any) -> Snapshot:
    return make_snapshot(
        nodes=[make_node(1, gpus=8)],
        virtual_clusters=CLUSTERS,
        jobs=[gang, *jobs],
        running=list(running),
        **fields,
    )


def only(plan: Plan) -> Action:
    (action,) = plan.actions
    return action


def resized(plan: Plan) -> dict[int, tuple[int, int]]:
    """Return by job its GPUs, and how many of them are beyond its guarantee."""
    return {
        action.jobs[0]: (len(action.placement.gpus), action.opportunistic_gpus)
        for action in plan.actions
        if action.kind is ActionKind.RESIZE and action.placement is not None
    }


def started(plan: Plan) -> list[int]:
    return [action.jobs[0] for action in plan.actions if action.kind is ActionKind.START]


def test_a_gang_grows_beyond_its_guarantee_into_all_that_is_idle_and_keeps_what_it_has() -> None:
    running = make_running(GANG, [[100], [101]], since=NOW - 1_000)
    action = only(decide(facts(running=[running])))
    assert (action.kind, action.guaranteed, action.opportunistic_gpus) == (ActionKind.RESIZE, True, 6)
    assert action.placement is not None
    assert action.placement.replicas[:2] == running.replicas
    assert "6 GPUs beyond the guarantee of virtual cluster research were idle" in action.message


def test_who_was_started_a_moment_ago_grows_when_it_has_settled() -> None:
    running = make_running(GANG, [[100], [101]], since=NOW - 100)
    plan = decide(facts(running=[running]))
    assert (plan.actions, plan.wake_at) == ((), NOW + 200)


def test_nobody_grows_while_somebody_waits_in_its_virtual_cluster_or_for_spare_gpus() -> None:
    running = make_running(GANG, [[100], [101]], since=NOW - 1_000)
    assert resized(decide(facts(make_job(2, 2), running=[running]))) == {}
    assert resized(decide(facts(make_job(2, 7, guaranteed=False), running=[running]))) == {}
    # Of another virtual cluster whose guarantee is used up, GPUs beyond it are no use to a rigid job.
    others = make_job(2, 4, virtual_cluster="vision")
    assert resized(decide(facts(others, running=[running]))) == {1: (8, 6)}


def test_a_guarantee_takes_back_by_a_resize_and_kills_nobody() -> None:
    # Two are idle; four are needed.
    big = [make_virtual_cluster("research", {"V100": 2}), make_virtual_cluster("vision", {"V100": 4})]
    snapshot = replace(facts(make_job(2, 4, virtual_cluster="vision")), virtual_clusters=tuple(big))
    plan = decide(snapshot)
    assert started(plan) == [2]
    assert resized(plan) == {1: (2, 0)}
    shrunk = next(action for action in plan.actions if action.kind is ActionKind.RESIZE)
    assert shrunk.placement is not None
    assert shrunk.placement.replicas == GROWN.replicas[:2]
    assert shrunk.preempted_by == (2,)
    assert "2 of its 4 GPUs were reclaimed by guaranteed job 2 of virtual cluster vision" in shrunk.message
    assert not [action for action in plan.actions if action.kind is ActionKind.STOP]


@pytest.mark.parametrize("state", [{"broken": [0]}, {"schedulable": False}], ids=str)
def test_a_gang_stops_that_cannot_begin_again_with_its_guaranteed_gpus_alone(state: dict[str, Any]) -> None:
    """A resize to GPUs that take no work is no legal plan: each round ended with that."""
    running = replace(GROWN, replicas=((100,), (101,), (200,), (201,), (202,), (203,)))
    big = [make_virtual_cluster("research", {"V100": 2}), make_virtual_cluster("vision", {"V100": 4})]
    # Two are idle on the other node; four are needed, on one node.
    nodes = (make_node(1, gpus=2, **state), make_node(2, gpus=6))
    snapshot = facts(make_job(2, 4, virtual_cluster="vision"), running=[running])
    plan = decide(replace(snapshot, nodes=nodes, virtual_clusters=tuple(big)))
    assert (started(plan), resized(plan)) == ([2], {})
    (stopped,) = [action for action in plan.actions if action.kind is ActionKind.STOP]
    assert (stopped.jobs, stopped.preempted_by) == ((1,), (2,))


def test_a_guarantee_rather_takes_what_is_idle() -> None:
    plan = decide(facts(make_job(2, 2, virtual_cluster="vision")))
    assert (started(plan), resized(plan)) == ([2], {})


def test_its_own_virtual_cluster_has_its_guarantee_too() -> None:
    """What is beyond counts against no guarantee: one more GPU is covered by it, and two are not."""
    one = replace(GROWN, replicas=GROWN.replicas[:1] + GROWN.replicas[2:], opportunistic_gpus=4)
    plan = decide(facts(make_job(2, 1), running=[one]))
    assert (started(plan), resized(plan)) == ([2], {})
    assert started(decide(facts(make_job(2, 2), running=[one]))) == []


def test_an_opportunistic_job_that_waits_has_it_back_and_starts_when_it_is_free() -> None:
    waiting = make_job(2, 4, guaranteed=False)
    plan = decide(facts(waiting))
    assert (started(plan), resized(plan)) == ([], {1: (2, 0)})
    # None that would not fit even then takes anything back.
    assert decide(facts(make_job(2, 7, guaranteed=False))).actions == ()


def test_what_is_beyond_is_opportunistic_in_all_accounts() -> None:
    standing = account_of(facts(), {}).divisions["research"].standings[GANG.tenant]
    own = standing.own["V100"]
    assert (standing.received, standing.borrowed) == ({"V100": 2}, 2 - own + 4)


def test_a_quota_bounds_what_a_gang_has_in_all() -> None:
    running = make_running(GANG, [[100], [101]], since=NOW - 1_000)
    tenants = (Tenant(name=GANG.tenant, quota={"V100": 5}),)
    assert resized(decide(facts(running=[running], tenants=tenants))) == {1: (5, 3)}
    # Four beyond count as well: nothing is left for a second job.
    tenants = (Tenant(name=GANG.tenant, quota={"V100": 6}),)
    plan = decide(facts(make_job(2, 1, guaranteed=False), tenants=tenants))
    assert plan.reasons[2][0].tier == "quota"


def grown(snapshot: Snapshot) -> tuple[int, int]:
    """Return what the gang has after a round: its GPUs, and those beyond the guarantee."""
    return resized(decide(snapshot))[1]


def in_cells_of(owned: dict[str, dict[str, int]], snapshot: Snapshot) -> Snapshot:
    return in_cells(snapshot, owning(hardware_of(snapshot.nodes), owned))


SWITCHES = {"research": {"V100-8-SWITCH": 1}, "vision": {"V100-8-SOCKET": 1}}


def test_in_cells_a_gang_grows_beyond_them_and_gives_back_to_cells_of_others() -> None:
    running = make_running(GANG, [[100], [101]], since=NOW - 1_000)
    plan = decide(in_cells_of(SWITCHES, facts(running=[running])))
    assert resized(plan) == {1: (8, 6)}
    # What it has beyond its switch is in the way of a socket that is owed to another.
    snapshot = in_cells_of(SWITCHES, facts(make_job(2, 4, virtual_cluster="vision")))
    plan = decide(replace(snapshot, memory=plan.memory))
    assert (started(plan), resized(plan)) == ([2], {1: (2, 0)})
    assert not [action for action in plan.actions if action.kind is ActionKind.STOP]
    shrunk = next(action for action in plan.actions if action.kind is ActionKind.RESIZE)
    assert shrunk.placement is not None
    assert shrunk.placement.replicas == GROWN.replicas[:2]


def test_what_is_beyond_is_in_no_cell_and_the_rest_keeps_its_own() -> None:
    snapshot = in_cells_of(SWITCHES, facts())
    plan = decide(snapshot)
    ((chain, level, _),) = plan.memory["cells"]["bound"]["research"]
    assert (chain, level) == ("V100-8-NODE", 1)
    assert resized(plan) == {1: (8, 6)}


def test_where_cells_have_room_for_another_replica_its_own_view_gives_it() -> None:
    running = make_running(GANG, [[100], [101]], since=NOW - 1_000)
    roomy = {"research": {"V100-8-SOCKET": 1}}
    assert grown(in_cells_of(roomy, facts(running=[running]))) == (4, 0)


def test_a_gang_of_a_pinned_cell_stays_inside() -> None:
    pinned = replace(GANG, pinned_cell="own", elastic=(1, 8))
    running = make_running(pinned, [[100], [101]], since=NOW - 1_000)
    snapshot = facts(gang=pinned, running=[running])
    hardware = hardware_of(snapshot.nodes)
    switch = compiled(hardware).chains["V100-8-NODE"].address(1, 0)
    cells = owning(hardware, {"research": {}}, research={"own": switch})
    assert decide(in_cells(snapshot, cells)).actions == ()


def test_a_fixed_world_grows_to_sizes_that_divide_it_and_its_base_keeps_the_memory_it_needs() -> None:
    world = make_job(
        1,
        tasks=(Task(replicas=6, gpus=1, memory_bytes=10),),
        elastic=(1, 6),
        elastic_mode=FIXED_WORLD,
        submitted_at=NOW - 1_000,
    )
    running = make_running(world, [[100], [101]], since=NOW - 1_000)
    assert grown(facts(gang=world, running=[running])) == (6, 4)
    five = tuple(Tenant(name=world.tenant, quota={"V100": count}) for count in (5,))
    assert grown(facts(gang=world, running=[running], tenants=five)) == (3, 1)
    # Two devices have three replicas each, 60 bytes in all, and a third beside them two.
    node = make_node(1, gpus=8, memory_bytes=79)
    assert decide(replace(facts(gang=world, running=[running]), nodes=(node,))).actions == ()
    node = make_node(1, gpus=8, memory_bytes=80)
    assert grown(replace(facts(gang=world, running=[running]), nodes=(node,))) == (3, 1)


def test_a_gang_that_must_be_near_together_grows_around_where_it_is() -> None:
    running = make_running(GANG, [[100], [101]], since=NOW - 1_000)
    nodes = (make_node(1, gpus=8), make_node(2, gpus=8), make_node(3, gpus=8, rack="rack-2"))
    for level, gpus in (("socket", 4), ("node", 8), ("rack", 16)):
        near = replace(GANG, topology=Topology(level=level, required=True), elastic=(1, 24))
        snapshot = replace(facts(gang=near, running=[running]), nodes=nodes)
        assert grown(snapshot) == (gpus, gpus - 2)
        (action,) = decide(snapshot).actions
        assert action.placement is not None
        assert set(action.placement.gpus) <= {*range(100, 108), *range(200, 208)}
    # Its switch is full already.
    near = replace(GANG, topology=Topology(level="switch", required=True))
    assert decide(facts(gang=near, running=[running])).actions == ()
