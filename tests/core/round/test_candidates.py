"""Nodes on which alone a job may be started, as its user names them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.world import World
from scheduler.core.fitting.candidates import allowed_in, allowed_nodes, bindable_nodes
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.demand import demand_of
from scheduler.core.fitting.feasible import never_fits
from scheduler.core.fitting.packing import Layer
from scheduler.core.model.bits import members
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import Candidates, Job, NodeId, NodeLoan, Snapshot, Tenant
from scheduler.core.round.checks.plan import check
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
from tests.core.round.test_cells_in_rounds import GPU, NODE, SOCKET, divided, nodes_of, why
from tests.core.round.test_rounds_in_cells import repeatable
from tests.core.test_properties import under
from tests.core.worlds_in_cells import divided as worlds
from tests.core.worlds_in_cells import hardware_of

ONE, TWO, THREE = (f"node-{number:04d}" for number in (1, 2, 3))


def names() -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from([ONE, TWO, THREE, "node-0005", "gone"]), max_size=3).map(tuple)


def only(*names: str) -> Candidates:
    return Candidates(only=names)


def avoiding(*names: str) -> Candidates:
    return Candidates(avoid=names)


def by_counts(*jobs: Job, nodes: int = 3, **fields: object) -> Snapshot:
    vc = make_virtual_cluster(guaranteed={"V100": 8 * nodes})
    return make_snapshot(nodes=make_cluster(nodes), jobs=jobs, virtual_clusters=[vc], **fields)


def placed(plan: Plan) -> dict[int, set[int]]:
    return {action.jobs[0]: nodes_of(action) for action in plan.actions if action.placement is not None}


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_by_counts_it_runs_there_and_nowhere_else(policy: str) -> None:
    jobs = [make_job(1, 8, nodes=only(TWO)), make_job(2, 8, nodes=avoiding(ONE, TWO), guaranteed=False)]
    plan = decide(under(policy, by_counts(*jobs)))
    assert placed(plan) == {1: {2}, 2: {3}}


def test_what_waits_for_its_nodes_says_which() -> None:
    there = make_job(1, 8)
    facts = by_counts(there, make_job(2, 8, nodes=only(ONE)), running=[make_running(there, range(100, 108))])
    reason = why(decide(facts), 2)
    assert reason.code == "candidate_nodes"
    assert reason.message == f"8 V100 are available, but not on the nodes that it may use: only {ONE}."
    assert reason.blocking == {"nodes": [ONE]}


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"schedulable": False}, "is cordoned or lost"),
        ({"loan": NodeLoan(pool="chat")}, "serves for its serving pool chat, which does not lend it"),
        (
            {"loan": NodeLoan(pool="chat", state="returning", return_by=900.0, stops_at=800.0)},
            "returns to its serving pool chat",
        ),
    ],
)
def test_what_waits_for_a_node_that_takes_no_work_says_why_it_takes_none(
    changes: dict[str, Any], state: str
) -> None:
    facts = by_counts(make_job(1, 8, nodes=only(ONE)))
    first, *others = facts.nodes
    reason = why(decide(replace(facts, nodes=(replace(first, **changes), *others))), 1)
    assert reason.code == "candidate_nodes"
    assert reason.message.endswith(f"Nothing new starts on some of these: {ONE} {state}.")
    assert reason.hint.startswith("It can start there when such a node takes work again.")


@pytest.mark.parametrize(("used", "code"), [(0, "exceeds_quota"), (2, "quota")])
def test_a_quota_of_the_model_of_its_nodes_is_named(used: int, code: str) -> None:
    """Four V100 on its node, and a quota of two, or of four of which two are in use; P100 would do else."""
    held = make_job(9, 2, gpu_models=("V100",))
    facts = make_snapshot(
        nodes=[*make_cluster(1), make_node(2, gpu_model="P100")],
        jobs=[make_job(1, 4, nodes=only(ONE)), *([held] if used else [])],
        running=[make_running(held, range(100, 102))] if used else [],
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 8, "P100": 8})],
        tenants=[Tenant(name="vision", quota={"V100": 2 + used})],
    )
    assert why(decide(facts), 1).code == code


def test_it_reclaims_what_borrowers_hold_there_and_nothing_else() -> None:
    guests = [make_job(number, 8, guaranteed=False) for number in (1, 2)]
    running = [make_running(one, range(100 * one.id, 100 * one.id + 8)) for one in guests]
    facts = by_counts(*guests, make_job(3, 8, nodes=only(TWO)), nodes=2, running=running)
    assert {action.jobs[0] for action in decide(facts).actions if action.kind == "stop"} == {2}


class TestCells:
    def test_a_cell_is_bound_there(self) -> None:
        for candidates in (only(TWO), avoiding(ONE)):
            facts = divided({"research": {NODE: 1}}, [make_job(1, 8, nodes=candidates)])
            assert placed(decide(facts)) == {1: {2}}

    def test_a_must_outranks_what_is_better_avoided(self) -> None:
        job = make_job(1, 8, nodes=only(ONE, TWO), avoid=(2,), outlasts=(1,))
        assert placed(decide(divided({"research": {NODE: 1}}, [job]))) == {1: {1}}

    def test_of_cells_that_are_bound_the_one_there_is_taken(self) -> None:
        there = [make_job(1, 1), make_job(2, 1)]
        running = [make_running(there[0], [100]), make_running(there[1], [200])]
        for name, number in ((ONE, 1), (TWO, 2)):
            facts = divided({"research": {NODE: 2}}, [*there, make_job(3, 4, nodes=only(name))], running)
            assert placed(decide(facts)) == {3: {number}}

    @pytest.mark.parametrize("policy", sorted(POLICIES))
    def test_while_others_hold_the_node_it_waits_and_its_cell_serves_the_next(self, policy: str) -> None:
        theirs = make_job(1, 8, virtual_cluster="products")
        jobs = [theirs, make_job(2, 8, nodes=only(TWO)), make_job(3, 8)]
        running = [make_running(theirs, range(200, 208))]
        facts = under(policy, divided({"research": {NODE: 1}, "products": {NODE: 1}}, jobs, running))
        plan = decide(facts)
        assert placed(plan) == {3: {1}}
        reason = why(plan, 2)
        assert reason.code in {"candidate_nodes", "vc_guarantee_in_use"}

    def test_a_gang_that_needs_more_nodes_than_it_may_use_does_not_take_the_cells(self) -> None:
        job = make_job(1, 8, replicas=2, nodes=only(TWO))
        facts = divided({"research": {NODE: 2}}, [job, make_job(2, 8)])
        plan = decide(facts)
        assert set(placed(plan)) == {2}
        assert why(plan, 1).code == "exceeds_candidates"

    def test_a_gang_is_spread_over_small_cells_of_its_nodes(self) -> None:
        job = make_job(1, 1, replicas=2, nodes=only(TWO))
        assert placed(decide(divided({"research": {GPU: 2}}, [job]))) == {1: {2}}

    def test_borrowers_keep_to_theirs_too(self) -> None:
        job = make_job(1, 8, guaranteed=False, nodes=only(TWO))
        assert placed(decide(divided({"research": {NODE: 1}}, [job]))) == {1: {2}}

    @repeatable
    @given(worlds(), st.sampled_from(sorted(POLICIES)), st.data())
    def test_in_any_world_nobody_is_started_elsewhere(
        self, facts: Snapshot, policy: str, data: st.DataObject
    ) -> None:
        """The check at the end of every round would raise."""
        known = [node.name for node in facts.nodes]
        names = st.lists(st.sampled_from([*known, "gone"]), max_size=2, unique=True)
        jobs = [
            replace(job, nodes=Candidates(only=tuple(data.draw(names)), avoid=tuple(data.draw(names))))
            for job in facts.jobs
        ]
        decide(under(policy, replace(facts, jobs=tuple(jobs))))


class TestNever:
    def test_too_few_gpus_on_the_nodes_that_it_names(self) -> None:
        reason = never_fits(make_job(1, 8, replicas=2, nodes=only(THREE)), by_counts())
        assert reason is not None
        assert reason.code == "exceeds_candidates"
        assert (
            reason.message
            == f"On the nodes that it may use (only {THREE}), there are 8 V100 for it; it needs 16."
        )
        assert reason.hint == f"It would fit with {ONE} as well."

    def test_nodes_that_are_not_there(self) -> None:
        reason = never_fits(make_job(1, nodes=only("gone")), by_counts())
        assert reason is not None
        assert (reason.available, reason.hint) == (0, f"It would fit with {ONE} as well.")

    def test_all_that_would_do_are_avoided(self) -> None:
        reason = never_fits(make_job(1, 5, replicas=2, nodes=avoiding(ONE, TWO)), by_counts())
        assert reason is not None
        assert f"all but {ONE} and {TWO}" in reason.message

    def test_nodes_where_no_cell_can_be_bound(self) -> None:
        facts = divided({"research": {NODE: 1}, "products": {}}, [])
        assert never_fits(make_job(1, 8, nodes=only(TWO)), facts) is None
        reason = never_fits(make_job(1, 8, nodes=only("gone")), facts)
        assert reason is not None
        assert reason.code == "exceeds_candidates"


class TestNodeSets:
    """What is looked up by name is what each node says when it is asked."""

    @given(
        st.lists(st.builds(Candidates, only=names(), avoid=names()), max_size=3),
        st.sets(st.integers(1, 5)),
    )
    def test_the_set_has_just_the_nodes_that_all_allow(
        self, candidates: list[Candidates], avoid: set[int]
    ) -> None:
        cluster = Cluster(make_cluster(5), make_snapshot().levels)
        nodes = cluster.fleets["V100"].nodes
        demand = replace(
            demand_of(make_job(1), cluster), candidates=tuple(candidates), avoid=frozenset(map(NodeId, avoid))
        )
        allowed = [all(each.allow(node.name) for each in candidates) for node in nodes]
        expected = {n for n, node in enumerate(nodes) if allowed[n] and node.id not in avoid}
        assert set(members(allowed_nodes(cluster, "V100", demand))) == expected
        (chain,) = compiled(hardware_of(nodes)).chains.values()
        found = allowed_in(chain, candidates)
        assert set(range(5) if found is None else members(found)) == {n for n in range(5) if allowed[n]}

    @given(st.lists(st.integers(0, 15), min_size=1, max_size=6), st.integers(0, 63))
    def test_a_layer_on_some_nodes_offers_what_these_do(self, masks: list[int], nodes: int) -> None:
        processors = [float(mask) for mask in masks]
        layer = Layer(list(masks), processors, processors, largest_node=4)
        nodes &= (1 << len(masks)) - 1
        some = layer.on(nodes)
        left = [mask if nodes >> node & 1 else 0 for node, mask in enumerate(masks)]
        same = Layer(left, [float(mask) for mask in left], [float(mask) for mask in left], largest_node=4)
        assert [getattr(some, name) for name in Layer.__slots__] == [
            getattr(same, name) for name in Layer.__slots__
        ]
        assert layer.masks == masks

    def test_to_ask_what_can_be_bound_changes_nothing(self) -> None:
        facts = divided({"research": {NODE: 1, SOCKET: 1}, "products": {GPU: 3}}, nodes=make_cluster(3))
        assert facts.cells is not None
        world = World(compiled(facts.cells))

        def asked() -> list[set[NodeId]]:
            return [
                bindable_nodes(world, vc, [candidates])
                for vc in ("research", "products")
                for candidates in (only(TWO), avoiding(TWO), only(ONE, THREE), only("gone"))
            ]

        first = asked()
        assert first == asked()
        assert list(map(len, first)) == [1, 2, 2, 0, 3, 3, 3, 0]


def test_the_check_of_plans_finds_who_is_elsewhere() -> None:
    facts = by_counts(make_job(1, 8))
    plan = decide(facts)
    (node,) = placed(plan)[1]
    forbidden = replace(facts.jobs[0], nodes=avoiding(f"node-{node:04d}"))
    with pytest.raises(PlanError, match="where it is not to run"):
        check(replace(facts, jobs=(forbidden,)), plan)
