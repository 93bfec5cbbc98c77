"""Nodes on which a job failed for their hardware's sake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.round.test_cells_in_rounds import GPU, NODE, divided, nodes_of, the


def test_a_job_goes_where_it_did_not_fail_and_rather_waits_than_goes_back() -> None:
    jobs = [make_job(1, 4, avoid=(1,)), make_job(2, 8, avoid=(1,)), make_job(3, 4)]
    facts = make_snapshot(
        nodes=make_cluster(2), jobs=jobs, virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})]
    )
    plan = decide(facts)
    placed = {
        action.jobs[0]: {gpu // 100 for gpu in action.placement.gpus}
        for action in plan.actions
        if action.placement is not None
    }
    # Eight GPUs are left on node 1 or scattered, and job 2 waits for the other node.
    assert placed[jobs[0].id] == {2}
    assert jobs[1].id in plan.reasons
    assert placed[jobs[2].id] <= {1, 2}


def test_it_may_take_the_place_of_others_only_on_other_nodes() -> None:
    there = [make_job(number, 8, guaranteed=False) for number in (1, 2)]
    job = make_job(3, 8, avoid=(1,))
    facts = make_snapshot(
        nodes=make_cluster(2),
        jobs=[*there, job],
        running=[make_running(one, range(100 * one.id, 100 * one.id + 8), guaranteed=False) for one in there],
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})],
    )
    stopped = {action.jobs[0] for action in decide(facts).actions if action.kind == "stop"}
    assert stopped == {2}


class TestClosing:
    """A node that closes at a deadline takes what will have ended by then."""

    def test_short_jobs_start_there_and_long_ones_elsewhere_or_wait(self) -> None:
        nodes = make_cluster(2)
        nodes = (replace(nodes[0], closes_at=NOW + 600), nodes[1])
        jobs = [make_job(1, 8, outlasts=(1,)), make_job(2, 8, outlasts=(1,)), make_job(3, 8)]
        plan = decide(
            make_snapshot(
                nodes=nodes,
                jobs=jobs,
                virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})],
            )
        )
        placed = {action.jobs[0]: nodes_of(action) for action in plan.actions}
        assert placed == {1: {2}, 3: {1}}
        assert plan.reasons[jobs[1].id][0].code != "no_containers"

    @pytest.mark.parametrize("policy", ["fifo", "las", "srtf", "drf"])
    def test_what_runs_there_goes_on(self, policy: str) -> None:
        nodes = make_cluster(2)
        nodes = (replace(nodes[0], closes_at=NOW + 600), nodes[1])
        job = make_job(1, 4, outlasts=(1,))
        vc = make_virtual_cluster(guaranteed={"V100": 16}, policy=policy)
        facts = make_snapshot(
            nodes=nodes, jobs=[job], running=[make_running(job, range(100, 104))], virtual_clusters=[vc]
        )
        assert decide(facts).actions == ()

    def test_no_cell_is_bound_to_one(self) -> None:
        nodes = make_cluster(2)
        nodes = (replace(nodes[0], closes_at=NOW + 600), nodes[1])
        facts = divided({"research": {NODE: 1}}, [make_job(1, 8)], nodes=nodes)
        assert nodes_of(the(decide(facts), ActionKind.START)) == {2}


class TestCells:
    """In cells a job is kept away from a node as long as something else is to be had for its cell."""

    def placed(self, plan: Plan) -> dict[int, set[int]]:
        return {action.jobs[0]: nodes_of(action) for action in plan.actions if action.placement is not None}

    def test_a_cell_is_bound_to_other_hardware(self) -> None:
        facts = divided({"research": {NODE: 1}}, [make_job(1, 8, avoid=(1,))])
        assert self.placed(decide(facts)) == {1: {2}}

    def test_of_cells_that_are_bound_another_is_taken(self) -> None:
        there: list[Job] = [make_job(1, 1), make_job(2, 1)]
        running = [make_running(there[0], [100]), make_running(there[1], [200])]
        for avoid, expected in (((1,), {2}), ((2,), {1})):
            job = make_job(3, 4, avoid=avoid)
            facts = divided({"research": {NODE: 2}}, [*there, job], running)
            assert self.placed(decide(facts)) == {3: expected}

    def test_it_disturbs_borrowers_rather_than_go_there(self) -> None:
        guest = make_job(1, 8, guaranteed=False)
        facts = divided(
            {"research": {NODE: 1}, "products": {NODE: 1}},
            [guest, make_job(2, 8, avoid=(1,))],
            [make_running(guest, range(200, 208))],
        )
        assert self.placed(decide(facts)) == {1: {1}, 2: {2}}

    def test_what_is_promised_outranks_it(self) -> None:
        theirs = make_job(1, 8, virtual_cluster="products")
        facts = divided(
            {"research": {NODE: 1}, "products": {NODE: 1}},
            [theirs, make_job(2, 8, avoid=(1,))],
            [make_running(theirs, range(200, 208))],
        )
        assert self.placed(decide(facts)) == {2: {1}}

    def test_of_a_gang_what_has_another_place_gets_it(self) -> None:
        facts = divided(
            {"research": {GPU: 2}}, [make_job(1, 1, replicas=2, avoid=(1, 3))], nodes=make_cluster(3)
        )
        assert self.placed(decide(facts)) == {1: {2}}
