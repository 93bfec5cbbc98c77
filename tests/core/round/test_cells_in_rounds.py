"""Worked examples of rounds on a cluster that is divided by cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.plan import Action, ActionKind, Plan, Reason
from scheduler.core.model.snapshot import Job, Node, Running, Snapshot, Topology
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import POLICIES
from tests.builders import (
    make_cluster,
    make_job,
    make_node,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.test_properties import under
from tests.core.worlds_in_cells import hardware_of, in_cells, owning

NODE, SOCKET, SWITCH, GPU = "V100-8-NODE", "V100-8-SOCKET", "V100-8-SWITCH", "V100"


def divided(
    owned: Mapping[str, Mapping[str, int]],
    jobs: Sequence[Job] = (),
    running: Sequence[Running] = (),
    nodes: Sequence[Node] = make_cluster(2),
    **fields: Any,
) -> Snapshot:
    clusters = [make_virtual_cluster(vc, {}) for vc in owned]
    facts = make_snapshot(nodes=nodes, jobs=jobs, running=running, virtual_clusters=clusters, **fields)
    return in_cells(facts, owning(hardware_of(nodes), owned))


def the(plan: Plan, kind: ActionKind) -> Action:
    (action,) = [action for action in plan.actions if action.kind is kind]
    return action


def nodes_of(action: Action) -> set[int]:
    assert action.placement is not None
    return {gpu // 100 for gpu in action.placement.gpus}


def why(plan: Plan, job: int) -> Reason:
    return next(reasons[0] for number, reasons in plan.reasons.items() if number == job)


class TestBinding:
    def test_a_cell_is_bound_where_it_disturbs_nobody(self) -> None:
        guest = make_job(1, 2, guaranteed=False)
        facts = divided({"research": {NODE: 1}}, [guest, make_job(2, 8)], [make_running(guest, [100, 101])])
        plan = decide(facts)
        assert nodes_of(the(plan, ActionKind.START)) == {2}
        assert plan.memory["cells"]["bound"] == {"research": [[NODE, 3, 1]]}

    def test_where_it_must_disturb_the_fewest_gpus_are_reclaimed_and_the_victim_is_told(self) -> None:
        many, few = make_job(1, 4, guaranteed=False), make_job(2, 2, guaranteed=False)
        facts = divided(
            {"research": {NODE: 1}, "products": {NODE: 1}},
            [many, few, make_job(3, 8)],
            [make_running(many, [100, 101, 102, 103]), make_running(few, [200, 201])],
        )
        plan = decide(facts)
        move = the(plan, ActionKind.MOVE)
        assert (move.jobs, move.preempted_by) == ((2,), (3,))
        assert (
            move.message == "2 of its 2 GPUs were reclaimed by guaranteed job 3 of virtual cluster research."
        )

    def test_a_cell_in_use_stays_where_it_is_and_the_rest_of_it_is_its_owners(self) -> None:
        mine = make_job(1, 1)
        facts = divided({"research": {NODE: 1}, "products": {NODE: 1}}, [mine], [make_running(mine, [203])])
        others = make_job(2, 8, virtual_cluster="products")
        first = decide(replace(facts, jobs=(mine, others)))
        assert nodes_of(the(first, ActionKind.START)) == {1}
        second = decide(replace(facts, jobs=(mine, make_job(3, 4)), memory=first.memory))
        assert nodes_of(the(second, ActionKind.START)) == {2}

    def test_small_cells_are_split_off_so_that_large_ones_stay_whole(self) -> None:
        facts = divided(
            {"research": {GPU: 4, SWITCH: 1}, "products": {NODE: 1}},
            [make_job(number, 1) for number in range(1, 5)]
            + [make_job(5, 2), make_job(6, 8, virtual_cluster="products")],
        )
        plan = decide(facts)
        assert len(plan.actions) == 6
        (large,) = [action for action in plan.actions if action.jobs == (6,)]
        assert not any(nodes_of(large) & nodes_of(each) for each in plan.actions if each is not large)

    def test_opportunistic_jobs_run_in_the_idle_cells_of_others(self) -> None:
        facts = divided({"research": {}, "products": {NODE: 2}}, [make_job(1, 8, guaranteed=False)])
        assert not the(decide(facts), ActionKind.START).guaranteed

    def test_what_was_remembered_may_be_lost_without_harm(self) -> None:
        mine, theirs = make_job(1, 2), make_job(2, 8, virtual_cluster="products")
        facts = divided(
            {"research": {SWITCH: 1}, "products": {NODE: 1}},
            [mine, theirs],
            [make_running(mine, [106, 107])],
            memory={"cells": {"bound": {"nobody": [["V100", 9, 9]], "research": [[NODE, 3, 77]]}}},
        )
        plan = decide(facts)
        assert nodes_of(the(plan, ActionKind.START)) == {2}
        assert plan.memory["cells"]["bound"]["research"] == [[NODE, 1, 3]]


class TestFailures:
    def test_a_failure_is_not_felt_while_sound_cells_are_left(self) -> None:
        nodes = [make_node(1, schedulable=False), make_node(2), make_node(3)]
        facts = divided({"research": {NODE: 2}}, [make_job(1, 8), make_job(2, 8)], nodes=nodes)
        assert len(decide(facts).actions) == 2

    def test_who_is_short_is_told_and_served_once_it_is_healed(self) -> None:
        nodes = [make_node(1, broken=range(8)), make_node(2)]
        facts = divided({"research": {NODE: 2}}, [make_job(1, 8), make_job(2, 8)], nodes=nodes)
        plan = decide(facts)
        assert the(plan, ActionKind.START).jobs == (1,)
        reason = why(plan, 2)
        assert reason.code == "guarantee_short"
        assert reason.message.endswith(
            "only 0 of its cells are available: 8 are broken or on nodes that accept no work (node-0001)."
        )
        assert reason.blocking == {"nodes": ["node-0001"]}
        assert len(decide(replace(facts, nodes=(make_node(1), make_node(2)))).actions) == 2

    @pytest.mark.parametrize(("first", "second"), [("products", "research"), ("research", "products")])
    def test_whose_own_share_is_healthy_is_not_kept_waiting_for_one_who_does_not_ask(
        self, first: str, second: str
    ) -> None:
        """Three nodes are left of four, of which each owns two."""
        nodes = [make_node(1, broken=range(8)), *make_cluster(4)[1:]]
        asking = [make_job(number, 8, virtual_cluster=first) for number in (1, 2)]
        facts = divided({"products": {NODE: 2}, "research": {NODE: 2}}, asking, nodes=nodes)
        plan = decide(facts)
        assert [action.kind for action in plan.actions] == [ActionKind.START] * 2
        placed = [action.placement for action in plan.actions]
        running = [make_running(job, where.gpus) for job, where in zip(asking, placed, strict=True) if where]
        late = [make_job(number, 8, virtual_cluster=second) for number in (3, 4)]
        jobs, memory = (*asking, *late), plan.memory
        plan = decide(replace(facts, jobs=jobs, running=tuple(running), memory=memory))
        assert the(plan, ActionKind.START).jobs == (3,)
        reason = why(plan, 4)
        assert (reason.code, reason.blocking) == ("guarantee_short", {"nodes": ["node-0001"]})
        wide = make_job(5, 8, replicas=2, virtual_cluster=second)
        plan = decide(replace(facts, jobs=(*asking, wide), running=tuple(running), memory=memory))
        assert why(plan, 5).blocking == {"nodes": ["node-0001"]}

    def test_who_comes_later_in_a_round_sees_what_is_left_of_the_healthy_hardware(self) -> None:
        """Both ask at once for all they own: what is broken is the second one's, in the same round."""
        nodes = [make_node(1, broken=range(8)), *make_cluster(4)[1:]]
        jobs = [
            make_job(number, 8, virtual_cluster=vc)
            for number, vc in enumerate(("products", "products", "research", "research"), start=1)
        ]
        plan = decide(divided({"products": {NODE: 2}, "research": {NODE: 2}}, jobs, nodes=nodes))
        assert sorted(action.jobs for action in plan.actions) == [(1,), (2,), (3,)]
        assert why(plan, 4).code == "guarantee_short"

    def test_what_is_left_of_a_broken_node_serves_opportunistic_jobs(self) -> None:
        nodes = [make_node(1, broken=[0])]
        facts = divided(
            {"research": {NODE: 1}}, [make_job(1, 4), make_job(2, 4, guaranteed=False)], nodes=nodes
        )
        assert the(decide(facts), ActionKind.START).jobs == (2,)

    def test_a_node_that_was_declared_and_is_not_there_counts_as_broken(self) -> None:
        facts = divided({"research": {NODE: 2}}, [make_job(1, 8), make_job(2, 8)])
        assert the(decide(replace(facts, nodes=facts.nodes[:1])), ActionKind.START).jobs == (1,)


class TestReconfiguration:
    def test_a_job_whose_cell_vanished_runs_on_as_opportunistic(self) -> None:
        mine = make_job(1, 4)
        facts = divided(
            {"research": {}, "products": {NODE: 1}}, [mine], [make_running(mine, [100, 101, 102, 103])]
        )
        plan = decide(facts)
        action = the(plan, ActionKind.REGRADE)
        assert (action.guaranteed, action.cause) == (False, "cells_lost")
        assert (
            action.message
            == "Virtual cluster research has no cell where it runs: it runs on as opportunistic."
        )

    def test_and_gives_way_to_those_who_are_guaranteed(self) -> None:
        mine, theirs = make_job(1, 8), make_job(2, 8, virtual_cluster="products")
        facts = divided(
            {"research": {}, "products": {NODE: 1}},
            [mine, theirs],
            [make_running(mine, range(100, 108))],
            nodes=make_cluster(1),
        )
        plan = decide(facts)
        assert the(plan, ActionKind.STOP).preempted_by == (2,)
        assert the(plan, ActionKind.START).jobs == (2,)

    def test_its_guarantee_returns_with_the_cell(self) -> None:
        mine = make_job(1, 4)
        lapsed = make_running(mine, [100, 101, 102, 103], guaranteed=False)
        action = the(decide(divided({"research": {SOCKET: 1}}, [mine], [lapsed])), ActionKind.REGRADE)
        assert (action.guaranteed, action.cause) == (True, "cells_back")

    def test_a_gang_keeps_its_guarantee_for_what_remains_of_its_hardware(self) -> None:
        """One of its two nodes leaves the specification, so that nobody can be owed that one."""
        gang = make_job(1, 8, replicas=2, priority=10)
        rival = make_job(2, 8, priority=0)
        theirs = make_job(3, 8, virtual_cluster="products")
        facts = divided(
            {"research": {NODE: 1}, "products": {NODE: 1}},
            [gang, rival, theirs],
            [make_running(gang, [range(100, 108), range(300, 308)])],
        )
        facts = replace(facts, nodes=(*facts.nodes, make_node(3)))
        plan = decide(facts)
        assert the(plan, ActionKind.START).jobs == (3,), "nobody is stopped for the job of less priority"
        assert len(plan.actions) == 1
        assert plan.memory["cells"]["bound"]["research"] == [[NODE, 3, 0]]
        assert why(plan, 2).code == "vc_guarantee_in_use"
        for policy in sorted(POLICIES):
            after = decide(under(policy, replace(facts, jobs=(gang, theirs), memory=plan.memory)))
            assert (after.degraded, [action.jobs for action in after.actions]) == ({}, [(3,)]), policy

    def test_without_any_of_its_hardware_it_lapses(self) -> None:
        mine = make_job(1, 8)
        facts = divided({"research": {NODE: 1}}, [mine], [make_running(mine, range(300, 308))])
        plan = decide(replace(facts, nodes=(*facts.nodes, make_node(3))))
        assert the(plan, ActionKind.REGRADE).cause == "cells_lost"

    def test_of_jobs_for_which_there_are_too_few_cells_those_of_higher_priority_keep_theirs(self) -> None:
        low, high = make_job(1, 8, priority=0), make_job(2, 8, priority=5)
        facts = divided(
            {"research": {NODE: 1}},
            [low, high],
            [make_running(low, range(100, 108)), make_running(high, range(200, 208))],
        )
        assert the(decide(facts), ActionKind.REGRADE).jobs == (1,)

    def test_a_lapsed_job_makes_room_for_higher_priorities_of_its_own_virtual_cluster_only(self) -> None:
        """It has two nodes and its virtual cluster owns one of them now; there is no other hardware."""
        gang = make_job(1, 8, replicas=2, priority=5)
        lapsed = make_running(gang, [range(100, 108), range(200, 208)], guaranteed=False)
        for priority, starts in ((0, False), (5, False), (6, True)):
            rival = make_job(2, 8, priority=priority)
            plan = decide(divided({"research": {NODE: 1}}, [gang, rival], [lapsed]))
            assert bool(plan.actions) is starts, priority
            if not starts:
                reason = why(plan, 2)
                assert (reason.code, reason.blocking) == ("held_by_lapsed", {"jobs": [1]})
                assert "only on GPUs of job 1, whose guarantee has lapsed" in reason.message
            else:
                assert the(plan, ActionKind.STOP).preempted_by == (2,)
        others = make_job(2, 8, virtual_cluster="products")
        facts = divided({"research": {}, "products": {NODE: 1}}, [gang, others], [lapsed])
        assert the(decide(facts), ActionKind.STOP).preempted_by == (2,), "others take what is theirs"
        rival = make_job(2, 8)
        facts = divided({"research": {NODE: 1}}, [gang, rival], [lapsed], nodes=make_cluster(3))
        assert nodes_of(the(decide(facts), ActionKind.START)) == {3}, "elsewhere it starts"


class TestPinnedCells:
    specification = owning(
        hardware_of(make_cluster(2)), {"research": {NODE: 1}}, research={"demo": "node-0001"}
    )

    def facts(self, *jobs: Job, running: Sequence[Running] = ()) -> Snapshot:
        facts = make_snapshot(
            nodes=make_cluster(2),
            jobs=jobs,
            running=running,
            virtual_clusters=[make_virtual_cluster("research", {})],
        )
        return in_cells(facts, self.specification)

    def test_who_names_one_runs_there_and_nobody_else(self) -> None:
        facts = self.facts(make_job(1, 8), make_job(2, 8), make_job(3, 8, pinned_cell="demo"))
        for policy in sorted(POLICIES):
            plan = decide(under(policy, facts))
            placed = {action.jobs: nodes_of(action) for action in plan.actions}
            assert len(placed) == 2, policy
            assert (placed.pop((3,)), list(placed.values())) == ({1}, [{2}]), policy
            (waiting,) = plan.reasons
            assert plan.reasons[waiting], policy

    def test_it_waits_for_its_cell_though_others_are_free(self) -> None:
        first, second = make_job(1, 5, pinned_cell="demo"), make_job(2, 4, pinned_cell="demo")
        plan = decide(self.facts(first, second, running=[make_running(first, range(100, 105))]))
        assert not plan.actions
        assert why(plan, 2).code == "fragmented"

    def test_opportunistic_jobs_use_it_until_it_is_asked_for(self) -> None:
        guest = make_job(1, 8, guaranteed=False)
        there = make_running(guest, range(100, 108))
        assert not decide(self.facts(guest, running=[there])).actions
        plan = decide(self.facts(guest, make_job(2, 2, pinned_cell="demo"), running=[there]))
        assert the(plan, ActionKind.START).jobs == (2,)
        assert the(plan, ActionKind.MOVE).preempted_by == (2,)

    def test_what_can_never_be_had_is_told(self) -> None:
        unknown = make_job(1, 8, pinned_cell="another")
        reason = why(decide(self.facts(unknown)), 1)
        assert (reason.code, reason.hint) == ("unknown_pinned_cell", "Name demo, or none.")
        assert reason.message == "The pinned cell another of virtual cluster research does not exist."
        large = make_job(1, 8, replicas=2, pinned_cell="demo")
        assert why(decide(self.facts(large)), 1).code == "exceeds_cells"
        apart = make_job(1, 8, replicas=2)
        assert why(decide(self.facts(apart)), 1).code == "exceeds_cells", "the other node is pinned"

    def test_who_runs_where_a_cell_is_pinned_now_lapses(self) -> None:
        mine = make_job(1, 8)
        plan = decide(
            replace(
                self.facts(mine, running=[make_running(mine, range(100, 108))]),
                cells=owning(hardware_of(make_cluster(2)), {"research": {}}, research={"demo": "node-0001"}),
            )
        )
        assert the(plan, ActionKind.REGRADE).cause == "cells_lost"


class TestReasons:
    def test_cells_that_cannot_be_joined_never_hold_a_larger_replica(self) -> None:
        plan = decide(divided({"research": {GPU: 4}}, [make_job(1, 2)]))
        assert why(plan, 1).code == "exceeds_cells"
        assert "has 1 GPU on one node; one replica needs 2" in why(plan, 1).message

    def test_nor_a_gang_that_must_stay_together(self) -> None:
        near = Topology(level="node", required=True)
        plan = decide(divided({"research": {SWITCH: 2}}, [make_job(1, 2, replicas=2, topology=near)]))
        assert (
            why(plan, 1).message
            == "No V100 cell of virtual cluster research promises 4 GPUs within one node."
        )

    def test_nor_gangs_of_shapes_that_do_not_add_up(self) -> None:
        plan = decide(
            divided({"research": {SOCKET: 2}}, [make_job(1, 3, replicas=2), make_job(2, 1, replicas=8)])
        )
        assert the(plan, ActionKind.START)
        plan = decide(divided({"research": {SOCKET: 2, GPU: 4}}, [make_job(1, 3, replicas=4)]))
        assert "(4 V100 and 2 V100-8-SOCKET) never hold 4 replicas" in why(plan, 1).message

    def test_a_cell_comes_with_its_share_of_the_node(self) -> None:
        nodes = [make_node(number, cpus=64.0) for number in (1, 2)]
        job = make_job(1, 1, tasks=(replace(make_job(1).tasks[0], cpus=9.0),))
        plan = decide(divided({"research": {GPU: 8}}, [job], nodes=nodes))
        assert why(plan, 1).message == (
            "A cell comes with its GPUs' share of the node, for 1 GPU 8 CPUs; one replica needs 9 CPUs."
        )

    def test_what_one_node_does_not_state_the_others_promise_all_the_same(self) -> None:
        """A cell may be bound to any of them: of a node that states nothing all was expected."""
        gib = 2**30
        nodes = [make_node(1, cpus=64.0, storage_bandwidth=8.0 * gib), make_node(2)]
        hungry = make_job(1, 1, tasks=(replace(make_job(1).tasks[0], cpus=9.0),))
        reads = make_job(2, 1, data=DataSet(name="faces", size_bytes=gib, bandwidth=2.0 * gib))
        plan = decide(divided({"research": {GPU: 8}}, [hungry, reads], nodes=nodes))
        assert "for 1 GPU 8 CPUs" in why(plan, 1).message
        assert why(plan, 2).message == (
            "A cell comes with its GPUs' share of the node's storage; the V100 cells of virtual cluster"
            " research deliver at most 1 GiB/s, and one replica reads 2 GiB/s."
        )

    def test_a_guaranteed_job_without_gpus_has_no_place_in_them(self) -> None:
        task = replace(make_job(1).tasks[0], gpus=0, cpus=1.0)
        plan = decide(divided({"research": {SOCKET: 1}}, [make_job(1, tasks=(task,))]))
        assert why(plan, 1).code == "no_cpu_tasks_in_cells"
        assert "each cell is made of GPUs; this guaranteed job asks for no GPU." in why(plan, 1).message

    def test_nobody_uses_up_the_cpus_of_the_cell_next_to_it(self) -> None:
        nodes = [make_node(1, cpus=64.0)]
        task = make_job(1, 4).tasks[0]
        greedy = make_job(1, tasks=(replace(task, gpus=1, cpus=8.0),))
        another = make_job(2, tasks=(replace(task, gpus=1, cpus=30.0),), guaranteed=False)
        theirs = make_job(3, tasks=(replace(task, cpus=32.0),), virtual_cluster="products")
        facts = divided(
            {"research": {SOCKET: 1}, "products": {SOCKET: 1}},
            [greedy, another, theirs],
            [make_running(greedy, [100]), make_running(another, [101])],
            nodes=nodes,
        )
        plan = decide(facts)
        assert the(plan, ActionKind.START).jobs == (3,)
        assert the(plan, ActionKind.STOP).jobs == (2,)
