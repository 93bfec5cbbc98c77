"""A round with nodes of serving pools: not lent, lent, and going back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.model.plan import Action, ActionKind
from scheduler.core.model.snapshot import (
    FIXED_WORLD,
    LENT,
    RETURNING,
    Job,
    Node,
    NodeLoan,
    Running,
    Snapshot,
    Task,
)
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster

LOAN = NodeLoan(pool="chat", state=LENT)
BACK = replace(LOAN, state=RETURNING, return_by=NOW + 300, stops_at=NOW + 240)


def world(jobs: list[Job], running: list[Running], loan: NodeLoan, **fields: object) -> Snapshot:
    """Node 1 is the cluster's own, node 2 is of the pool chat; four GPUs each."""
    nodes: list[Node] = [make_node(1, gpus=4), make_node(2, gpus=4, loan=loan)]
    clusters = [make_virtual_cluster(guaranteed={"V100": 8}, **fields)]
    return make_snapshot(nodes=nodes, jobs=jobs, running=running, virtual_clusters=clusters)


def only(snapshot: Snapshot) -> Action:
    (action,) = decide(snapshot).actions
    return action


def test_nothing_starts_on_a_node_that_is_not_lent_and_the_reason_says_so() -> None:
    waiting = make_job(1, 4, replicas=2)
    plan = decide(world([waiting], [], NodeLoan(pool="chat")))
    assert plan.actions == ()
    assert "4 V100 are on nodes that serving pool chat does not lend" in plan.reasons[1][0].message
    assert only(world([waiting], [], LOAN)).kind is ActionKind.START


def test_a_return_with_only_flexible_workers_preempts_nobody() -> None:
    """The worked example: the gang goes on with what it has elsewhere, at once and where it is."""
    gang = make_job(1, 1, replicas=4, elastic=(2, 8))
    held = make_running(gang, [[100], [101], [102], [200], [201]])
    action = only(world([gang], [held], BACK))
    assert action.kind is ActionKind.RESIZE
    assert action.placement is not None
    assert action.placement.replicas == ((100,), (101,), (102,))
    assert action.message.startswith("Node node-0002 returns to its serving pool chat by ")


@pytest.mark.parametrize(
    ("node_bytes", "others", "waiting", "shrinks"),
    [(400, 0, 0, True), (399, 0, 0, False), (450, 1, 0, True), (449, 1, 0, False), (449, 0, 1, False)],
)
def test_a_fixed_world_shrinks_only_where_there_is_memory_for_all_its_replicas(
    node_bytes: int, others: int, waiting: int, shrinks: bool
) -> None:
    """Four replicas of 100 B each share two devices; who is there, or starts there now, has 50 B."""
    four = (Task(replicas=4, gpus=1, memory_bytes=100),)
    gang = make_job(1, tasks=four, elastic=(2, 4), elastic_mode=FIXED_WORLD)
    other = make_job(2, tasks=(Task(replicas=1, gpus=1, memory_bytes=50),))
    snapshot = world(
        [gang, other][: 1 + others + waiting],
        [make_running(gang, [[100], [101], [200], [201]]), *[make_running(other, [102])] * others],
        BACK,
    )
    own, lent = snapshot.nodes
    snapshot = replace(snapshot, nodes=(replace(own, memory_bytes=node_bytes), lent))
    resizes = [action for action in decide(snapshot).actions if action.jobs == (1,)]
    assert bool(resizes) == shrinks
    if shrinks:
        assert resizes[0].placement is not None
        assert resizes[0].placement.replicas == ((100,), (101,))
    elif not waiting:
        stops = decide(replace(snapshot, now=NOW + 240)).actions
        assert [action.kind for action in stops if action.jobs == (1,)] == [ActionKind.STOP]


def test_a_base_demand_stays_until_it_has_to_be_stopped_to_be_gone_in_time() -> None:
    gang = make_job(1, 1, replicas=4)
    held = make_running(gang, [[200], [201], [202], [203]])
    before = world([gang], [held], BACK)
    assert decide(before).actions == ()
    action = only(replace(before, now=NOW + 240))
    assert (action.kind, action.cause) == (ActionKind.STOP, "drained")
    assert "the job is queued again" in action.message
    plan = decide(replace(before, now=NOW + 240))
    assert plan.reasons[1][0].code == "node_returns"


def test_an_elastic_gang_all_of_which_is_on_the_node_stops_too() -> None:
    gang = make_job(1, 1, replicas=3, elastic=(2, 3))
    held = make_running(gang, [[200], [201], [202]])
    assert decide(world([gang], [held], BACK)).actions == ()
    late = replace(world([gang], [held], BACK), now=NOW + 241)
    assert only(late).kind is ActionKind.STOP


def test_a_late_round_still_shrinks_rather_than_stops() -> None:
    gang = make_job(1, 1, replicas=4, elastic=(2, 8))
    held = make_running(gang, [[100], [101], [200]])
    late = replace(world([gang], [held], BACK), now=NOW + 1_000)
    assert only(late).kind is ActionKind.RESIZE


def test_limits_on_what_policies_preempt_do_not_hold_up_a_return() -> None:
    gang = make_job(1, 1, replicas=4, elastic=(2, 8))
    held = make_running(gang, [[100], [101], [200]], since=NOW - 1)
    assert only(world([gang], [held], BACK, min_run_seconds=3_600.0)).kind is ActionKind.RESIZE


def test_nothing_new_is_started_on_a_node_that_returns() -> None:
    first, second = make_job(1, 1, replicas=4), make_job(2, 1, replicas=4)
    held = make_running(first, [[100], [101], [102], [103]])
    assert decide(world([first, second], [held], BACK)).actions == ()


def test_a_promise_of_gpus_of_a_node_that_returns_is_taken_back() -> None:
    job = make_job(1, 4)
    promised = make_running(job, range(200, 204), phase="planned")
    action = only(world([job], [promised], BACK))
    assert action.kind is not ActionKind.START
    assert action.placement is None or {gpu // 100 for gpu in action.placement.gpus} == {1}
