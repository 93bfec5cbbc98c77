"""Minimum run times, the budget of a round and the back-off, on clusters small enough to see through."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from scheduler.core.building_blocks.policy import View
from scheduler.core.model.plan import Action, ActionKind, Decision, Plan
from scheduler.core.model.snapshot import JobId, Memory, Snapshot
from scheduler.core.round.decide import decide
from scheduler.core.round.preemption_limits.backoff import after_preemption
from scheduler.core.round.registry import POLICIES
from tests.builders import NOW, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.sim.worlds import arrival, cluster, simulate


def rivals(since: float = NOW - 50, **fields: object) -> Snapshot:
    """Two jobs have all of a node, and an urgent one comes that needs as much as one of them."""
    jobs = [make_job(1, 4), make_job(2, 4), make_job(3, 4, priority=9)]
    running = [
        make_running(jobs[0], range(100, 104), since=since - 100),
        make_running(jobs[1], range(104, 108), since=since),
    ]
    vc = make_virtual_cluster(policy="srtf", min_run_seconds=100.0)
    return replace(make_snapshot(jobs=jobs, running=running, virtual_clusters=[vc]), **fields)  # type: ignore[arg-type]


def stops(plan: Plan) -> list[tuple[JobId, ...]]:
    return [action.jobs for action in plan.actions if action.kind is ActionKind.STOP]


class TestMinimumRun:
    def test_who_has_run_long_enough_goes_in_the_place_of_who_has_not(self) -> None:
        free = rivals(virtual_clusters=(make_virtual_cluster(policy="srtf"),))
        assert stops(decide(free)) == [(2,)]
        assert stops(decide(rivals())) == [(1,)]

    def test_where_all_are_too_young_the_urgent_job_waits_and_knows_until_when(self) -> None:
        plan = decide(rivals(since=NOW + 60))
        assert plan.actions == ()
        reason = next(reason for reason in plan.reasons[JobId(3)] if reason.code == "minimum_run")
        assert reason.blocking["until"] == plan.wake_at == NOW + 60
        assert [action.kind for action in decide(rivals(since=NOW + 60, now=NOW + 60)).actions] == [
            ActionKind.START,
            ActionKind.STOP,
        ]

    def test_a_gang_that_would_need_a_young_and_an_old_one_takes_neither(self) -> None:
        facts = rivals()
        plan = decide(replace(facts, jobs=(*facts.jobs[:2], make_job(3, 8, priority=9))))
        assert plan.actions == ()


class TestReclaiming:
    @staticmethod
    def decided(**fields: float) -> Plan:
        """A guaranteed job comes back for GPUs on which another virtual cluster's has just begun."""
        lender = make_virtual_cluster("research")
        borrower = make_virtual_cluster("products", {}, min_run_seconds=100.0, **fields)
        jobs = [make_job(1, 8), make_job(2, 8, virtual_cluster="products", guaranteed=False)]
        running = [make_running(jobs[1], range(100, 108), since=NOW - 50)]
        return decide(make_snapshot(jobs=jobs, running=running, virtual_clusters=[borrower, lender]))

    def test_guarantees_return_at_once(self) -> None:
        assert stops(self.decided()) == [(2,)]

    def test_unless_the_borrower_may_run_for_a_while_first(self) -> None:
        plan = self.decided(reclaim_min_run_seconds=60.0)
        assert plan.actions == ()
        assert plan.reasons[JobId(1)][0].code == "reclaim_later"
        assert plan.wake_at == NOW + 10
        assert stops(self.decided(reclaim_min_run_seconds=50.0)) == [(2,)]


class TestBudget:
    @pytest.mark.parametrize(("most", "stopped"), [(None, 3), (2, 2), (1, 1), (0, 0)])
    def test_no_more_jobs_leave_in_a_round_than_may(self, most: int | None, stopped: int) -> None:
        jobs = [make_job(number, 2) for number in (1, 2, 3, 4)]
        urgent = [make_job(number, 2, priority=20 - number) for number in (5, 6, 7)]
        running = [make_running(job, [98 + 2 * job.id, 99 + 2 * job.id]) for job in jobs]
        vc = make_virtual_cluster(policy="srtf")
        plan = decide(
            make_snapshot(
                jobs=[*jobs, *urgent], running=running, virtual_clusters=[vc], preemptions_per_round=most
            )
        )
        started = [action.jobs for action in plan.actions if action.kind is ActionKind.START]
        assert len(stops(plan)) == stopped
        # The most urgent ones come first.
        assert started == [(5,), (6,), (7,)][:stopped]
        for job in urgent[stopped:]:
            assert plan.reasons[job.id][0].code in ("preemption_budget", "vc_guarantee_in_use")
            assert "preemption_budget" in {reason.code for reason in plan.reasons[job.id]}

    def test_a_gang_is_not_half_made_room_for(self) -> None:
        jobs = [make_job(number, 2) for number in (1, 2, 3, 4)]
        gang = make_job(5, 8, priority=9)
        running = [make_running(job, [98 + 2 * job.id, 99 + 2 * job.id]) for job in jobs]
        vc = make_virtual_cluster(policy="srtf")
        facts = make_snapshot(jobs=[*jobs, gang], running=running, virtual_clusters=[vc])
        assert decide(replace(facts, preemptions_per_round=3)).actions == ()
        assert len(stops(decide(replace(facts, preemptions_per_round=4)))) == 4

    def test_what_is_guaranteed_comes_back_whatever_the_budget(self) -> None:
        jobs = [make_job(1, 8), make_job(2, 8, guaranteed=False)]
        running = [make_running(jobs[1], range(100, 108))]
        plan = decide(make_snapshot(jobs=jobs, running=running, preemptions_per_round=0))
        assert stops(plan) == [(2,)]


class TestBackOff:
    def test_it_doubles_up_to_a_bound_and_ends_with_a_run_that_was_long_enough(self) -> None:
        runs, waits = 0, []
        for _ in range(5):
            runs, seconds = self.after(runs, 99.0)
            waits.append(seconds)
        assert (runs, waits) == (5, [30.0, 60.0, 120.0, 200.0, 200.0])
        assert self.after(runs, 100.0) == (0, 0.0)
        assert self.after(10_000, 0.0) == (10_001, 200.0)

    @staticmethod
    def after(short_runs: int, ran_seconds: float) -> tuple[int, float]:
        return after_preemption(
            short_runs, ran_seconds=ran_seconds, least_seconds=100.0, first_wait=30.0, longest_wait=200.0
        )

    def test_who_borrows_waits_and_who_is_guaranteed_does_not(self) -> None:
        jobs = [make_job(1, guaranteed=False), make_job(2)]
        plan = decide(
            make_snapshot(jobs=[replace(job, short_runs=2, may_borrow_at=NOW + 60) for job in jobs])
        )
        assert [action.jobs for action in plan.actions] == [(2,)]
        assert [reason.code for reason in plan.reasons[JobId(1)]] == ["preempted_early"]
        assert "2 times in a row" in plan.reasons[JobId(1)][0].message

    def test_the_simulator_lets_jobs_back_off(self) -> None:
        """An opportunistic job is evicted by each of three guaranteed ones that come soon after it began."""
        vc = make_virtual_cluster("research", {"V100": 8}, policy="fifo", min_run_seconds=100.0)
        arrivals = [arrival(1, 0.0, 1_000.0, gpus=8, guaranteed=False)]
        arrivals += [arrival(number, 100.0 * number, 10.0, gpus=8) for number in (2, 3)]
        engine = simulate(replace(cluster(), virtual_clusters=(vc,)), arrivals)
        stays = [(stay.started_at, stay.end) for stay in engine.stays if stay.job == 1]
        # It ran for 200 s first, which is enough; then for 90 s, which is not, and waits for 30 s.
        assert stays == [(0.0, "preempted"), (210.0, "preempted"), (330.0, "finished")]


def test_a_promise_is_no_run_that_could_be_too_short() -> None:
    """Who was promised GPUs and has not begun may lose the promise."""
    facts = rivals()
    promised = [replace(running, phase="planned") for running in facts.running]
    plan = decide(replace(facts, running=tuple(promised)))
    assert isinstance(plan.actions[0], Action)
    assert {action.kind for action in plan.actions} == {ActionKind.START, ActionKind.STOP}


@dataclass
class Swaps:
    """A policy that sends job 2 away from job 1 and lets job 3 come in its place."""

    def allocate(self, view: View, memory: Memory) -> Decision:
        return Decision(
            grants=(),
            keep_running=True,
            joins={JobId(1): (JobId(3),)},
            leaves={JobId(2): "Job 3 goes better with job 1."},
            queue=(JobId(3),),
        )


class TestLeaving:
    @pytest.mark.parametrize(
        ("fields", "limits"),
        [({"min_run_seconds": 100.0}, {}), ({}, {"preemptions_per_round": 0})],
        ids=["too young", "no more may be displaced"],
    )
    def test_nobody_takes_the_place_of_who_may_not_be_sent_away(
        self, monkeypatch: pytest.MonkeyPatch, fields: dict[str, float], limits: dict[str, int]
    ) -> None:
        monkeypatch.setitem(POLICIES, "swaps", Swaps)
        jobs = [make_job(1), make_job(2), make_job(3)]
        together = replace(make_running(jobs[0], [100], since=NOW - 50), jobs=(JobId(1), JobId(2)))
        facts = make_snapshot(
            jobs=jobs,
            running=[together],
            virtual_clusters=[make_virtual_cluster(policy="swaps", **fields)],
            **limits,
        )
        assert decide(facts).actions == ()
        free = replace(
            facts,
            virtual_clusters=(make_virtual_cluster(policy="swaps"),),
            preemptions_per_round=None,
        )
        assert stops(decide(free)) == [(2,)]
