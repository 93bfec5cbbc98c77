"""Jobs whose guarantee lapsed, where GPUs are divided by counts; for cells see `test_cells_in_rounds`."""

from __future__ import annotations

import pytest

from scheduler.core.round.decide import decide
from scheduler.core.round.registry import POLICIES
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_node,
    make_part,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.round.test_round import action_of, kinds
from tests.core.test_properties import under


def test_of_jobs_for_which_too_little_is_guaranteed_those_of_higher_priority_keep_theirs() -> None:
    low, high = make_job(1, 4, priority=0), make_job(2, 4, priority=5)
    running = [
        make_running(low, range(100, 104), since=NOW - 90),
        make_running(high, range(104, 108), since=NOW - 10),
    ]
    vcs = [make_virtual_cluster(guaranteed={"V100": 4})]
    assert kinds(decide(make_snapshot(jobs=[low, high], running=running, virtual_clusters=vcs))) == {
        1: "regrade"
    }


def test_a_gang_keeps_its_guarantee_for_what_remains_of_its_hardware() -> None:
    """One of its two nodes has left the cluster, and its virtual cluster is guaranteed the other one."""
    gang, rival = make_job(1, 8, replicas=2, priority=10), make_job(2, 8)
    held = make_running(gang, [range(100, 108), range(200, 208)])
    plan = decide(make_snapshot(jobs=[gang, rival], running=[held]))
    assert plan.actions == ()
    assert plan.reasons[2][0].code == "vc_guarantee_in_use"


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize(("priority", "starts"), [(0, False), (5, False), (6, True)])
def test_who_lapsed_makes_room_for_higher_priorities_of_its_own_virtual_cluster_only(
    policy: str, priority: int, starts: bool
) -> None:
    """It has all eight GPUs, of which its virtual cluster is guaranteed four now."""
    lapsed, rival = make_job(1, 8, priority=5), make_job(2, 4, priority=priority)
    facts = make_snapshot(
        jobs=[lapsed, rival],
        running=[make_running(lapsed, range(100, 108), guaranteed=False)],
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 4})],
    )
    plan = decide(under(policy, facts))
    if starts:
        assert kinds(plan) == {1: "stop", 2: "start"}
        assert action_of(plan, 1).preempted_by == (2,)
        return
    assert plan.actions == ()
    reason = plan.reasons[2][0]
    assert (reason.code, reason.blocking) == ("held_by_lapsed", {"jobs": [1]})
    assert reason.message == (
        "Virtual cluster research has 4 V100 for it, but only on GPUs of job 1, whose guarantee has lapsed."
        " In their own virtual cluster they make room for higher priorities only."
    )


def test_who_lapsed_is_passed_by_and_makes_room_for_other_virtual_clusters() -> None:
    lapsed, others = make_job(1, 8, priority=5), make_job(2, 4, virtual_cluster="products")
    held = make_running(lapsed, range(100, 108), guaranteed=False)
    guest = make_job(3, 8, guaranteed=False)
    vcs = [make_virtual_cluster(guaranteed={"V100": 4}), make_virtual_cluster("products")]
    plan = decide(make_snapshot(jobs=[lapsed, others], running=[held], virtual_clusters=vcs))
    assert kinds(plan) == {1: "stop", 2: "start"}, "others take what is theirs"
    elsewhere = make_snapshot(
        nodes=make_cluster(2),
        jobs=[lapsed, guest, make_job(4, 4)],
        running=[held, make_running(guest, range(200, 208))],
        virtual_clusters=vcs,
    )
    assert kinds(decide(elsewhere)) == {3: "stop", 4: "start"}, "who only borrows makes room for everyone"


def test_of_jobs_alike_those_that_lapsed_makes_room_for_are_told_apart() -> None:
    """The one of low priority is asked for first, and does not speak for the other."""
    lapsed = make_job(1, 8, priority=5)
    low, high = make_job(2, 4, priority=0), make_job(3, 4, priority=6)
    facts = make_snapshot(
        jobs=[lapsed, low, high],
        running=[make_running(lapsed, range(100, 108), guaranteed=False)],
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 4})],
    )
    assert kinds(decide(under("las", facts))) == {1: "stop", 3: "start"}


def test_a_gpu_of_which_several_have_parts_counts_once() -> None:
    # Six quarters are on two GPUs: with two guaranteed nobody lapses, with one the two on the second GPU do.
    jobs = [make_part(number, 0.25) for number in range(1, 7)]
    running = [make_running(job, [100 + (job.id > 4)], since=NOW - 600 + job.id) for job in jobs]

    def regraded(guaranteed: int) -> dict[int, bool]:
        plan = decide(
            make_snapshot(
                nodes=[make_node(1, gpus=4)],
                jobs=jobs,
                running=running,
                virtual_clusters=[make_virtual_cluster(guaranteed={"V100": guaranteed})],
            )
        )
        return {action.jobs[0]: action.guaranteed for action in plan.actions}

    assert regraded(2) == {}
    assert regraded(1) == {5: False, 6: False}
