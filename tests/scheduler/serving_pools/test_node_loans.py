"""Nodes of serving pools on real rows: lent, asked back, shrunk, stopped and given back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from scheduler.agents.serving_pools.services import (
    node_ask_back,
    node_join,
    node_lend,
    pool_ask_back,
    pool_change,
    watch_serving_pools,
)
from scheduler.core.model.lifecycle import StopCause
from scheduler.jobs.attempts.services.lifecycle import attempt_stop, part_exited, part_running
from scheduler.models import Attempt, Event, Explanation, Job, Node, Round, ServingPool
from scheduler.models.selectors.nodes import gpu_models
from scheduler.rounds.run import run_round
from scheduler.virtual_clusters.cells.services import cells_check, cells_proposal
from scheduler.virtual_clusters.services import VirtualClusterSettings, virtual_cluster_set
from scheduler.wiring.clock import database_now
from tenants.errors import Conflict, Invalid, QuotaExceeded
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_cells,
    make_job,
    make_node,
    make_tenant,
    make_vc,
)

pytestmark = pytest.mark.django_db
OPERATOR = "user olga"


@pytest.fixture
def pool() -> ServingPool:
    return ServingPool.objects.create(name="chat", return_seconds=300)


def lent(pool: ServingPool, name: str, **columns: Any) -> Node:
    return make_node(name, gpus=4, serving_pool=pool, loan_state="lent", **columns)


def elastic(gpus: int, least: int, **spec: Any) -> Job:
    tenant = make_tenant()
    vc = make_vc(members=[tenant], guaranteed={"V100": 16})
    job = make_job(tenant=tenant, virtual_cluster=vc, replicas=gpus, **spec)
    job.shape["min_gpus"] = least
    job.save()
    return job


def ended(attempt: Attempt) -> None:
    """The agents of all its nodes report that its processes are gone."""
    for part in attempt.parts.all():
        part_exited(part, at=database_now(), exit_code=143, category="", message="", actor="node")


def kinds(**which: object) -> list[str]:
    return list(Event.objects.filter(**which).order_by("id").values_list("kind", flat=True))


def test_nothing_starts_on_a_node_that_is_not_lent(pool: ServingPool) -> None:
    node = make_node("serve", gpus=4)
    node_join(node=node, pool=pool, actor=OPERATOR)
    job = elastic(2, 2)
    run_round()
    assert not job.attempts.exists()
    reason, *_ = Explanation.objects.get(job=job).reasons
    assert "4 V100 are on nodes that serving pool chat does not lend" in reason["message"]
    node_lend(node=node, actor=OPERATOR, why="a quiet week")
    run_round()
    assert job.attempts.get().parts.get().node == node
    assert kinds(node_id=node.id) == ["node.joined_pool", "node.lent"]


def test_a_return_with_flexible_workers_alone_shrinks_the_job_and_preempts_nobody(pool: ServingPool) -> None:
    own, node = make_node("own", gpus=2), lent(pool, "serve")
    job = elastic(4, 2)
    attempt = make_attempt(job, [*gpus_of(own), *gpus_of(node)[:2]])
    node_ask_back(node=node, actor=OPERATOR, why="a busy evening")
    assert (
        "Node serve returns to its serving pool chat by"
        in Event.objects.get(kind="attempt.node_returns", job_id=job.id).message
    )
    run_round()
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_cause) == ("stopping", "resized")
    after = job.attempts.get(state="planned")
    assert after.allocation.replicas == [[gpu.id] for gpu in gpus_of(own)]
    resized = Event.objects.get(kind="job.resized", job_id=job.id)
    assert resized.message.startswith("Resized from 4 to 2 GPUs: Node serve returns to its serving pool chat")
    # Its processes there are not gone yet: neither is the node.
    watch_serving_pools()
    node.refresh_from_db()
    assert node.loan_state == "returning"
    ended(attempt)
    after.refresh_from_db()
    assert after.state == "starting"
    watch_serving_pools()
    node.refresh_from_db()
    assert (node.loan_state, node.return_by) == ("serving", None)
    assert kinds(node_id=node.id) == ["node.asked_back", "node.given_back"]


def test_a_base_demand_is_stopped_so_that_its_grace_ends_by_the_deadline(pool: ServingPool) -> None:
    node = lent(pool, "serve")
    job = elastic(4, 4)
    attempt = make_attempt(job, gpus_of(node))
    grace = job.spec["checkpoint"]["grace_seconds"]
    by = database_now() + timedelta(hours=1)
    node_ask_back(node=node, actor=OPERATOR, by=by)
    node.refresh_from_db()
    assert node.return_stops_at is not None
    assert by - node.return_stops_at >= timedelta(seconds=grace)
    run_round()
    attempt.refresh_from_db()
    assert attempt.state == "running"
    Node.objects.filter(id=node.id).update(return_stops_at=database_now())
    run_round()
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_cause) == ("stopping", "drained")
    assert "the job is queued again" in attempt.stop_message
    ended(attempt)
    job.refresh_from_db()
    assert job.state == "queued"
    run_round()
    assert job.attempts.count() == 1


def test_rounds_with_a_return_are_decided_again_alike(pool: ServingPool) -> None:
    node = lent(pool, "serve")
    make_attempt(elastic(2, 1), [*gpus_of(make_node(gpus=1)), *gpus_of(node)[:1]])
    node_ask_back(node=node, actor=OPERATOR)
    number = run_round()
    assert Round.objects.get(number=number).state == "applied"


def test_a_return_is_called_off_by_lending_again(pool: ServingPool) -> None:
    node = lent(pool, "serve")
    node_ask_back(node=node, actor=OPERATOR)
    node_lend(node=node, actor=OPERATOR)
    node.refresh_from_db()
    assert (node.loan_state, node.return_by, node.return_stops_at) == ("lent", None, None)


def test_a_loan_for_a_time_is_asked_back_so_early_that_the_pool_has_the_node_then(pool: ServingPool) -> None:
    until = database_now() + timedelta(seconds=400)
    node = lent(pool, "serve", lent_until=until)
    make_attempt(elastic(4, 4), gpus_of(node))
    watch_serving_pools()
    node.refresh_from_db()
    assert node.loan_state == "lent"
    Node.objects.update(lent_until=until - timedelta(seconds=150))
    watch_serving_pools()
    node.refresh_from_db()
    assert (node.loan_state, node.return_by) == ("returning", until - timedelta(seconds=150))


def test_of_several_nodes_those_go_back_whose_return_costs_least(pool: ServingPool) -> None:
    busy, free, flexible = (lent(pool, name) for name in ("busy", "free", "flexible"))
    rigid, grown = elastic(4, 4), elastic(4, 2)
    make_attempt(rigid, gpus_of(busy))
    make_attempt(grown, [*gpus_of(make_node(gpus=2)), *gpus_of(flexible)[:2]])
    asked = pool_ask_back(pool=pool, count=2, actor=OPERATOR)
    assert [(each.node.name, list(each.preempts), list(each.shrinks)) for each in asked] == [
        ("free", [], []),
        ("flexible", [], [grown.id]),
    ]
    free.refresh_from_db()
    assert free.loan_state == "returning"


def test_a_load_curve_lends_and_asks_back(pool: ServingPool) -> None:
    for name in ("a", "b", "c"):
        make_node(name, gpus=4, serving_pool=pool, loan_state="serving")

    def states() -> list[str]:
        return list(Node.objects.order_by("name").values_list("loan_state", flat=True))

    pool_change(pool, {"nodes_needed": {"00:00": 1}})
    watch_serving_pools()
    assert states() == ["lent", "lent", "serving"]
    pool_change(pool, {"nodes_needed": {"00:00": 2}})
    make_attempt(elastic(4, 4), gpus_of(Node.objects.get(name="a")))
    watch_serving_pools()
    assert states() == ["lent", "returning", "serving"]
    watch_serving_pools()
    assert states() == ["lent", "serving", "serving"]
    assert set(Event.objects.filter(kind="node.lent").values_list("actor", flat=True)) == {"load curve"}
    with pytest.raises(Conflict, match="load curve of serving pool chat decides"):
        node_ask_back(node=Node.objects.get(name="a"), actor=OPERATOR)
    with pytest.raises(Conflict, match="load curve of serving pool chat decides"):
        pool_ask_back(pool=ServingPool.objects.get(), count=1, actor=OPERATOR)


def test_a_node_goes_back_though_a_job_was_cancelled_that_was_to_start_there(pool: ServingPool) -> None:
    node = lent(pool, "serve")
    running = make_attempt(elastic(4, 4), gpus_of(node))
    next_one = make_attempt(elastic(4, 4), gpus_of(node), state="planned", phase="planned")
    node_ask_back(node=node, actor=OPERATOR)
    attempt_stop(next_one, cause=StopCause.CANCELLED, actor=OPERATOR)
    ended(running)
    watch_serving_pools()
    node.refresh_from_db()
    assert (node.loan_state, next_one.parts.get().state) == ("serving", "exited")


def test_what_makes_no_sense_is_refused(pool: ServingPool) -> None:
    with pytest.raises(Conflict, match="belongs to no serving pool"):
        node_lend(node=make_node("own"), actor=OPERATOR)
    with pytest.raises(Conflict, match="is not lent"):
        node_ask_back(node=make_node(serving_pool=pool, loan_state="serving"), actor=OPERATOR)
    with pytest.raises(Invalid, match="'noon' is not a time of day"):
        pool_change(pool, {"nodes_needed": {"noon": 1}})
    with pytest.raises(IntegrityError), transaction.atomic():
        Node.objects.filter(name="own").update(loan_state="lent")


def test_a_node_of_the_cells_joins_no_pool(pool: ServingPool) -> None:
    node = make_node("v100-a1", gpus=4)
    make_cells(
        {
            "types": {"V100-NODE": {"of": "V100", "count": 4, "node": True}},
            "physical": [{"type": "V100-NODE", "nodes": [node.name]}],
            "virtual_clusters": {make_vc().name: {"cells": {"V100-NODE": 1}}},
        }
    )
    with pytest.raises(Conflict, match="is part of the cells"):
        node_join(node=node, pool=pool, actor=OPERATOR)


def test_a_node_in_use_is_lent_when_it_joins_and_its_cluster_s_own_when_it_leaves(pool: ServingPool) -> None:
    node = make_node("busy", gpus=1)
    attempt = make_attempt(make_job(), gpus_of(node))
    part_running(attempt.parts.get(), at=datetime.now(UTC))
    node_join(node=node, pool=pool, actor=OPERATOR)
    node.refresh_from_db()
    assert node.loan_state == "lent"
    node_join(node=node, pool=None, actor=OPERATOR)
    node.refresh_from_db()
    assert (node.loan_state, node.serving_pool) == ("", None)


def test_what_may_be_asked_back_is_guaranteed_to_nobody(pool: ServingPool) -> None:
    """Four own GPUs, four of a pool: six are not promised, and no node leaves that is relied upon."""
    own = make_node("own", gpus=4)
    lent(pool, "serve")
    vc = make_vc("research", guaranteed={"V100": 4})
    settings = VirtualClusterSettings(name=vc.name)

    def promise(gpus: int) -> None:
        desired = replace(settings, guaranteed={"V100": gpus} if gpus else {})
        virtual_cluster_set(virtual_cluster=vc, desired=desired, actor=OPERATOR)

    with pytest.raises(QuotaExceeded) as refused:
        promise(6)
    (error,) = refused.value.fields
    assert (error.field, error.expected) == ("guaranteed.V100", "at most 4")
    assert "the cluster has 4 (4 more are of serving pools, which may ask them back)" in error.problem
    with pytest.raises(Conflict) as kept:
        node_join(node=own, pool=pool, actor=OPERATOR)
    assert [each.field for each in kept.value.fields] == ["pool"]
    assert "4 V100 are guaranteed (virtual clusters: research)" in str(kept.value)
    (model,) = gpu_models()
    assert (model["gpus"], model["serving_gpus"]) == (8, 4)
    # What was promised before nodes went may stay, and is not raised.
    vc.guarantees.update(gpus=6)
    promise(6)
    with pytest.raises(QuotaExceeded):
        promise(7)
    promise(0)
    node_join(node=own, pool=pool, actor=OPERATOR)


def test_a_node_of_a_pool_is_declared_in_no_cell(pool: ServingPool) -> None:
    lent(pool, "serve")
    document = {
        "types": {"V100-NODE": {"of": "V100", "count": 4, "node": True}},
        "physical": [{"type": "V100-NODE", "nodes": ["serve"]}],
        "virtual_clusters": {},
    }
    (problem,) = cells_check(document).problems
    assert (problem.field, "is of serving pool chat" in problem.problem) == ("physical[0].nodes[0]", True)
    assert cells_proposal().physical == ()
