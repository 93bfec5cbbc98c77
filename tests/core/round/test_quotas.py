"""Quotas in CPUs and memory, and those of users: handed out in order, counted to the last byte, explained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.model.errors import PlanError
from scheduler.core.model.limits import UserLimits
from scheduler.core.model.plan import Plan, Reason
from scheduler.core.model.snapshot import FIXED_WORLD, Job, Running, Snapshot, Task, Tenant
from scheduler.core.round.checks.plan import check
from scheduler.core.round.decide import decide
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.counting import calls_in

GIB = 2**30


def stating(number: int, cpus: float, memory: int = 0, *, gpus: int = 0, **fields: Any) -> Job:
    """A job that states so many CPUs and bytes of memory."""
    replicas = fields.pop("replicas", 1)
    return make_job(
        number, tasks=[Task(replicas=replicas, gpus=gpus, cpus=cpus, memory_bytes=memory)], **fields
    )


def snapshot(*jobs: Job, running: tuple[Running, ...] = (), **limits: Any) -> Snapshot:
    """One node with 8 GPUs, 64 CPUs and 256 GiB; the tenant's limits are these."""
    return make_snapshot(
        nodes=[make_node(1, cpus=64.0, memory_bytes=256 * GIB)],
        jobs=jobs,
        running=running,
        virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 8})],
        tenants=[Tenant(name="vision", **limits)],
    )


def started(plan: Plan) -> set[int]:
    return {job for action in plan.actions if action.placement for job in action.jobs}


def reason_of(facts: Snapshot, job: int) -> Reason:
    (reason,) = decide(facts).reasons[job]  # type: ignore[index]
    return reason


class TestOfATenant:
    def test_caps_the_cpus_that_its_jobs_hold_at_once(self) -> None:
        facts = snapshot(stating(1, 8, gpus=1), stating(2, 10), stating(3, 2), quota_cpus=12.0)
        assert started(decide(facts)) == {1, 3}
        reason = reason_of(facts, 2)
        assert reason.code == "quota_resources"
        assert reason.message == (
            "Tenant vision has a quota of 12 CPUs; 8 CPUs are used by its jobs or reserved for jobs ahead,"
            " and this job needs 10 CPUs."
        )
        assert reason.blocking == {"tenant": "vision", "resource": "cpus", "limit": 12.0, "held": 8.0}

    def test_caps_memory_beside_gpus(self) -> None:
        jobs = [stating(number, 1, 40 * GIB, gpus=1) for number in (1, 2, 3)]
        facts = snapshot(*jobs, quota={"*": 3}, quota_memory_bytes=100 * GIB)
        assert started(decide(facts)) == {1, 2}
        assert reason_of(facts, 3).message == (
            "Tenant vision has a quota of 100 GiB of memory; 80 GiB of memory are used by its jobs or"
            " reserved for jobs ahead, and this job needs 40 GiB of memory."
        )
        assert reason_of(replace(facts, tenants=(Tenant(name="vision", quota={"*": 2}),)), 3).code == "quota"

    def test_tenths_of_cpus_add_up_exactly(self) -> None:
        jobs = [stating(number, 0.1) for number in range(1, 5)]
        assert started(decide(snapshot(*jobs, quota_cpus=0.3))) == {1, 2, 3}

    def test_what_runs_counts_and_goes_on_when_it_is_lowered(self) -> None:
        holder = stating(9, 20, gpus=1)
        facts = snapshot(holder, stating(1, 1), running=(make_running(holder, [100]),), quota_cpus=16.0)
        assert decide(facts).actions == ()
        assert reason_of(facts, 1).blocking["held"] == 20.0

    def test_what_is_being_stopped_counts_until_its_processes_are_gone(self) -> None:
        leaving, waiting = stating(9, 10, gpus=1, eligible_at=NOW + 60), stating(1, 8)
        stopping = make_running(leaving, [100], stopping=True)
        during = snapshot(leaving, waiting, running=(stopping,), quota_cpus=16.0)
        assert started(decide(during)) == set()
        assert started(decide(replace(during, running=()))) == {1}

    def test_a_job_that_leaves_them_to_the_platform_counts_as_none(self) -> None:
        facts = snapshot(stating(1, 8), make_job(2), quota_cpus=8.0, quota_memory_bytes=0)
        assert started(decide(facts)) == {1, 2}

    def test_an_elastic_gang_grows_as_far_as_they_are_left(self) -> None:
        gang = stating(1, 3, gpus=1, replicas=8, elastic=(2, 8))
        plan = decide(snapshot(gang, stating(2, 4), quota_cpus=16.0))
        gpus = {action.jobs[0]: len(action.placement.gpus) for action in plan.actions if action.placement}
        assert gpus == {1: 4, 2: 0}, "four replicas of three CPUs, beside the four of the other job"

    def test_a_fixed_world_has_all_its_memory_on_however_few_gpus(self) -> None:
        gang = stating(1, 1, 10 * GIB, gpus=1, replicas=4, elastic=(1, 4), elastic_mode=FIXED_WORLD)
        assert reason_of(snapshot(gang, quota_memory_bytes=39 * GIB), 1).code == "exceeds_quota_resources"
        assert started(decide(snapshot(gang, quota_memory_bytes=40 * GIB))) == {1}

    def test_more_than_it_may_ever_hold_is_refused_for_good(self) -> None:
        reason = reason_of(snapshot(stating(1, 6, replicas=3), quota_cpus=16.0), 1)
        assert (reason.code, reason.message, reason.hint) == (
            "exceeds_quota_resources",
            "Tenant vision may hold at most 16 CPUs at once; this job needs 18 CPUs.",
            "Ask for at most 16 CPUs in all, or an operator for more quota.",
        )

    def test_a_quota_of_none_is_no_advice_to_ask_for_none(self) -> None:
        reason = reason_of(snapshot(stating(1, 1), quota_cpus=0.0), 1)
        assert reason.message == "Tenant vision may hold at most 0 CPUs at once; this job needs 1 CPU."
        assert reason.hint == "Ask an operator for more quota."
        reason = reason_of(snapshot(make_job(1), quota={"*": 0}), 1)
        assert reason.message == "Tenant vision may hold at most 0 GPUs at once; this job needs 1."
        assert reason.hint == "Ask an operator for more quota."

    def test_a_job_without_gpus_does_not_wait_for_gpus_that_were_taken_from_the_quota(self) -> None:
        holder = make_job(9, 4)
        facts = snapshot(
            holder, stating(1, 4), running=(make_running(holder, range(100, 104)),), quota={"*": 2}
        )
        assert started(decide(facts)) == {1}


class TestOfAUser:
    def test_caps_what_its_own_jobs_hold_and_nobody_elses(self) -> None:
        jobs = [make_job(number, 2, user=user) for number, user in enumerate(("ada", "ada", "bob"), 1)]
        facts = snapshot(*jobs, users=(UserLimits(user="ada", gpus=3),))
        assert started(decide(facts)) == {1, 3}
        reason = reason_of(facts, 2)
        assert reason.code == "user_quota"
        assert reason.message == (
            "User ada has a quota of 3 GPUs in tenant vision; 2 GPUs are used by the user's jobs or reserved"
            " for jobs ahead, and this job needs 2 GPUs."
        )
        assert reason.blocking == {
            "tenant": "vision",
            "user": "ada",
            "resource": "gpus",
            "limit": 3,
            "held": 2.0,
        }

    def test_counts_on_the_tenants_too(self) -> None:
        jobs = [make_job(1, 2, user="bob"), make_job(2, 2, user="ada"), make_job(3, 1, user="ada")]
        facts = snapshot(*jobs, quota={"*": 3}, users=(UserLimits(user="ada", gpus=2),))
        assert started(decide(facts)) == {1, 3}
        assert reason_of(facts, 2).code == "quota"

    def test_a_gang_of_another_grows_though_the_user_has_no_room(self) -> None:
        """Its surplus would serve no job that waits."""
        gang = make_job(9, 1, user="bob", replicas=4, elastic=(1, 4))
        wide = make_job(1, 2, user="ada")
        (action,) = decide(snapshot(wide, gang, users=(UserLimits(user="ada", gpus=1),))).actions
        assert action.placement is not None
        assert len(action.placement.gpus) == 4

    def test_a_gang_that_no_limit_counts_grows_while_another_users_jobs_wait_for_theirs(self) -> None:
        gang = make_job(9, 1, user="bob", replicas=1, elastic=(1, 4))
        crowd = [make_job(number, 1, user="ada") for number in (1, 2)]
        plan = decide(snapshot(*crowd, gang, users=(UserLimits(user="ada", gpus=1),)))
        sizes = {action.jobs[0]: len(action.placement.gpus) for action in plan.actions if action.placement}
        assert sizes == {1: 1, 9: 4}

    def test_more_than_the_user_may_ever_hold_is_refused_for_good(self) -> None:
        limits = UserLimits(user="ada", gpus=2, cpus=4.0)
        refused = [make_job(1, 4, user="ada"), stating(2, 5, user="ada"), make_job(3, 4, user="bob")]
        plan = decide(snapshot(*refused, users=(limits,)))
        assert {job: reasons[0].code for job, reasons in plan.reasons.items()} == {
            1: "exceeds_user_quota",
            2: "exceeds_user_quota",
        }
        assert plan.reasons[refused[1].id][0].message == (
            "User ada may hold at most 4 CPUs at once in tenant vision; this job needs 5 CPUs."
        )

    def test_a_budget_that_is_used_up_holds_its_jobs_back_until_it_is_renewed(self) -> None:
        spent = UserLimits(user="ada", budget_spent=True, budget_renewed_at=NOW + 60)
        facts = snapshot(make_job(1, user="ada"), make_job(2, user="bob"), users=(spent,))
        assert started(decide(facts)) == {2}
        reason = reason_of(facts, 1)
        assert (reason.code, reason.blocking["user"]) == ("user_budget_spent", "ada")
        assert "tenant vision gives" in reason.message
        assert started(decide(replace(facts, now=NOW + 60))) == {1, 2}


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"quota_cpus": 7.0}, r"tenant vision would hold 8 \(cpus\), more than its quota 7"),
        ({"quota_memory_bytes": GIB}, r"would hold 2147483648 \(memory\)"),
        ({"users": (UserLimits(user="ada", gpus=0),)}, r"user ada of tenant vision would hold 1 \(\*\)"),
    ],
)
def test_a_plan_beyond_a_limit_is_refused(limits: dict[str, Any], words: str) -> None:
    facts = snapshot(stating(1, 8, 2 * GIB, gpus=1, user="ada"))
    plan = decide(facts)
    with pytest.raises(PlanError, match=words):
        check(replace(facts, tenants=(Tenant(name="vision", **limits),)), plan)


def test_a_round_takes_as_much_work_for_a_user_whatever_the_number_of_users_with_limits() -> None:
    def facts(users: int) -> Snapshot:
        jobs = [stating(number, 1, gpus=1, user=f"user-{number}") for number in range(1, users + 1)]
        limits = [UserLimits(user=job.user, gpus=1, cpus=2.0) for job in jobs]
        return snapshot(*jobs, users=tuple(limits), quota={"*": 4})

    few, many = (calls_in(lambda users=users: decide(facts(users))) for users in (100, 400))
    assert many < 5 * few
