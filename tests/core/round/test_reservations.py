"""Nodes that are reserved: used by others before, kept for those who name the reservation while it lasts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.codec import dumps_plan, dumps_snapshot, loads_snapshot
from scheduler.core.model.errors import PlanError
from scheduler.core.model.plan import ActionKind, Plan, Reason
from scheduler.core.model.reservations import Reservation
from scheduler.core.model.snapshot import Job, JobId, Snapshot
from scheduler.core.round.checks.plan import check
from scheduler.core.round.decide import decide
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.workload import Truth
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster
from tests.core.round.test_cells_in_rounds import NODE, divided

HOUR = 3_600.0


def reserve(*numbers: int, begins: float = HOUR, lasts: float = HOUR, **fields: Any) -> Reservation:
    """For tenant vision, on nodes of these numbers, seconds from now on."""
    return Reservation(
        **{
            "name": "paper",
            "tenant": "vision",
            "nodes": tuple(f"node-{number:04d}" for number in numbers),
            "starts_at": NOW + begins,
            "ends_at": NOW + begins + lasts,
            **fields,
        }
    )


def world(
    jobs: Iterable[Job], *reservations: Reservation, nodes: int = 2, vc: Any = None, **fields: Any
) -> Snapshot:
    clusters = [vc or make_virtual_cluster(guaranteed={"V100": 8 * nodes})]
    return make_snapshot(
        nodes=make_cluster(nodes),
        jobs=list(jobs),
        virtual_clusters=clusters,
        reservations=reservations,
        **fields,
    )


def places(plan: Plan) -> dict[int, set[int]]:
    """The nodes of each job that is placed."""
    return {
        job: {gpu // 100 for gpu in action.placement.gpus}
        for action in plan.actions
        if action.placement is not None
        for job in action.jobs
    }


def reason(plan: Plan, job: int) -> Reason:
    return plan.reasons[JobId(job)][0]


class TestBefore:
    def test_guaranteed_jobs_start_there_if_they_will_have_ended(self) -> None:
        jobs = [make_job(1, 8, time_limit_seconds=HOUR + 1), make_job(2, 8, time_limit_seconds=HOUR)]
        plan = decide(world(jobs, reserve(1), nodes=2))
        assert places(plan) == {1: {2}, 2: {1}}
        plan = decide(world([jobs[0], make_job(2, 8)], reserve(1), nodes=2))
        assert places(plan) == {1: {2}}
        assert reason(plan, 2).code == "reserved"

    def test_a_job_without_a_limit_counts_with_the_default_of_its_virtual_cluster(self) -> None:
        vc = make_virtual_cluster(guaranteed={"V100": 8}, default_time_limit_seconds=HOUR)
        assert places(decide(world([make_job(1, 8)], reserve(1), nodes=1, vc=vc))) == {1: {1}}
        longer = replace(vc, default_time_limit_seconds=HOUR + 1)
        assert places(decide(world([make_job(1, 8)], reserve(1), nodes=1, vc=longer))) == {}

    def test_opportunistic_jobs_of_any_length_start_there(self) -> None:
        job = make_job(1, 8, guaranteed=False)
        assert places(decide(world([job], reserve(1), nodes=1))) == {1: {1}}

    def test_who_waits_reads_for_whom_and_from_when(self) -> None:
        job = make_job(1, 8, tenant="speech")
        found = reason(decide(world([job], reserve(1, user="ada"), nodes=1)), 1)
        assert found.code == "reserved"
        assert found.message == (
            "8 V100 are available, but reserved for user ada of tenant vision from 23:13:20 UTC on"
            " 14 November until 00:13:20 UTC on 15 November (reservation paper)."
        )
        assert found.blocking == {
            "reservations": ["paper"],
            "starts_at": NOW + HOUR,
            "until": NOW + 2 * HOUR,
        }
        assert "time limit" in found.hint

    @pytest.mark.parametrize("policy", ["fifo", "las", "srtf", "drf", "fair", "tiresias", "sia"])
    def test_what_runs_there_and_will_have_ended_goes_on(self, policy: str) -> None:
        job = make_job(1, 4, time_limit_seconds=HOUR)
        vc = make_virtual_cluster(guaranteed={"V100": 16}, policy=policy)
        runs = make_running(job, range(100, 104), since=NOW - 60)
        # If it were started now, it would be too late.
        assert decide(world([job], reserve(1, begins=HOUR - 30), vc=vc, running=[runs])).actions == ()

    def test_its_own_jobs_wait_for_it_to_begin(self) -> None:
        job = make_job(1, 8, reservation="paper", time_limit_seconds=60.0)
        plan = decide(world([job], reserve(1), nodes=2))
        assert places(plan) == {}
        assert reason(plan, 1).message == "Its reservation paper begins at 23:13:20 UTC on 14 November."

    def test_the_round_is_repeated_when_it_begins(self) -> None:
        plan = decide(world([make_job(1, 8, reservation="paper")], reserve(1)))
        assert plan.wake_at == NOW + HOUR


class TestInForce:
    def test_only_its_own_jobs_are_on_its_nodes(self) -> None:
        jobs = [
            make_job(1, 8, guaranteed=False),
            make_job(2, 8, time_limit_seconds=1.0, tenant="speech"),
            make_job(3, 8, reservation="paper"),
        ]
        plan = decide(world(jobs, reserve(1, begins=0), nodes=1))
        assert places(plan) == {3: {1}}
        assert plan.reasons.keys() == {1, 2}

    @pytest.mark.parametrize(
        ("fields", "may"),
        [
            ({"reservation": "paper"}, True),
            ({"reservation": "paper", "user": "bob"}, False),
            ({"reservation": "paper", "tenant": "speech"}, False),
            ({"reservation": "paper", "virtual_cluster": "products"}, False),
            ({"reservation": "another"}, False),
            ({}, False),
        ],
    )
    def test_it_is_for_its_tenant_user_and_virtual_cluster(self, fields: dict[str, Any], may: bool) -> None:
        job = make_job(1, 8, **{"user": "ada", **fields})
        reservation = reserve(1, begins=0, user="ada", virtual_cluster="research")
        clusters = [make_virtual_cluster(name, {"V100": 8}) for name in ("research", "products")]
        facts = replace(world([job], reservation, nodes=2), virtual_clusters=tuple(clusters))
        assert places(decide(facts)) == {1: {1} if may else {2}}

    def test_its_jobs_run_on_its_nodes_alone(self) -> None:
        jobs = [make_job(number, 8, reservation="paper") for number in (1, 2)]
        plan = decide(world(jobs, reserve(2, begins=0), nodes=2))
        assert places(plan) == {1: {2}}
        assert reason(plan, 2).message == (
            "8 V100 are available, but not on the nodes of its reservation paper."
        )

    def test_others_that_are_left_there_are_stopped_when_it_begins(self) -> None:
        jobs = [make_job(1, 4, guaranteed=False), make_job(2, 4, guaranteed=False)]
        running = [make_running(jobs[0], range(100, 104)), make_running(jobs[1], range(200, 204))]
        own = make_job(3, 8, reservation="paper")
        plan = decide(world([*jobs, own], reserve(1, begins=0), running=running))
        stopped = [action for action in plan.actions if action.kind is ActionKind.STOP]
        assert [(action.jobs, action.cause) for action in stopped] == [((1,), "preempted")]
        assert "(reservation paper)" in stopped[0].message

    def test_its_opportunistic_jobs_are_safe_from_the_guarantees_of_others(self) -> None:
        own = make_job(1, 8, reservation="paper", guaranteed=False)
        other = make_job(2, 8, tenant="speech")
        runs = [make_running(own, range(100, 108))]
        assert decide(world([own, other], reserve(1, begins=0), running=runs, nodes=1)).actions == ()
        # Without the reservation that is what becomes of it.
        assert decide(world([own, other], running=runs, nodes=1)).actions != ()

    def test_a_job_that_fits_nowhere_else_is_not_told_never(self) -> None:
        plan = decide(world([make_job(1, 8)], reserve(1, begins=0), nodes=1))
        assert reason(plan, 1).tier == "capacity"


class TestAfter:
    def test_it_means_nothing_any_more(self) -> None:
        over = reserve(1, begins=-2 * HOUR)
        jobs = [make_job(1, 8, reservation="paper"), make_job(2, 8, tenant="speech")]
        assert places(decide(world(jobs, over, nodes=2))).keys() == {1, 2}

    def test_what_runs_there_goes_on_as_an_ordinary_job(self) -> None:
        job = make_job(1, 8, reservation="paper")
        runs = [make_running(job, range(100, 108))]
        assert decide(world([job], reserve(1, begins=-2 * HOUR), running=runs)).actions == ()


class TestWithCells:
    def test_no_cell_of_others_is_bound_there(self) -> None:
        job = make_job(1, 8, time_limit_seconds=HOUR + 1)
        facts = divided({"research": {NODE: 2}}, [job], nodes=make_cluster(2))
        for number in (1, 2):
            plan = decide(replace(facts, reservations=(reserve(number),)))
            assert places(plan) == {1: {3 - number}}

    def test_both_reserved_leave_it_waiting(self) -> None:
        job = make_job(1, 8, time_limit_seconds=HOUR + 1)
        facts = divided({"research": {NODE: 2}}, [job], nodes=make_cluster(2))
        plan = decide(replace(facts, reservations=(reserve(1, 2),)))
        assert places(plan) == {}
        assert reason(plan, 1).code == "reserved"

    def test_its_own_jobs_have_cells_there(self) -> None:
        job = make_job(1, 8, reservation="paper")
        facts = divided({"research": {NODE: 2}}, [job], nodes=make_cluster(2))
        for number in (1, 2):
            plan = decide(replace(facts, reservations=(reserve(number, begins=0),)))
            assert places(plan) == {1: {number}}


def test_the_check_finds_a_plan_that_breaks_a_reservation() -> None:
    facts = world([make_job(1, 8)], nodes=1)
    plan = decide(facts)
    with pytest.raises(PlanError, match="paper, for others only"):
        check(replace(facts, reservations=(reserve(1, begins=0),)), plan)


def test_a_round_with_reservations_is_decided_again_bit_for_bit() -> None:
    jobs = [make_job(1, 8, reservation="paper"), make_job(2, 8), make_job(3, 4, guaranteed=False)]
    facts = world(jobs, reserve(1, begins=0), reserve(2, name="next"))
    again = loads_snapshot(dumps_snapshot(facts))
    assert again == facts
    assert dumps_plan(decide(again)) == dumps_plan(decide(facts))


@st.composite
def loads(draw: st.DrawFn) -> tuple[list[Job], dict[JobId, Truth], Reservation]:
    """Jobs of two tenants, of which some name the reservation; and how long they really run."""
    begins = draw(st.sampled_from((120.0, 300.0)))
    jobs, truths = [], {}
    for number in range(1, 1 + draw(st.integers(1, 8))):
        tenant = draw(st.sampled_from(("vision", "speech")))
        limit = draw(st.sampled_from((60.0, 200.0, 400.0)))
        jobs.append(
            make_job(
                number,
                draw(st.sampled_from((1, 4, 8))),
                replicas=draw(st.sampled_from((1, 1, 2))),
                tenant=tenant,
                guaranteed=draw(st.booleans()),
                time_limit_seconds=limit,
                reservation=draw(st.sampled_from(("", "paper"))),
            )
        )
        truths[JobId(number)] = Truth(work_seconds=limit * draw(st.sampled_from((0.5, 1.0))))
    numbers = draw(st.sampled_from(((1,), (1, 2), (3,))))
    return jobs, truths, reserve(*numbers, begins=begins, lasts=300.0)


@given(loads(), st.sampled_from(("fifo", "las", "srtf", "sjf")))
def test_in_time_too_no_other_job_is_ever_there(
    load: tuple[list[Job], dict[JobId, Truth], Reservation], policy: str
) -> None:
    jobs, truths, reservation = load
    vc = make_virtual_cluster(guaranteed={"V100": 16}, policy=policy)
    facts = world(jobs, reservation, nodes=3, vc=vc)
    numbers = {int(name[-4:]) for name in reservation.nodes}
    by_id = {job.id: job for job in jobs}

    def look(engine: Engine, outcomes: object, plan: Plan) -> None:
        for action in plan.actions:
            if action.placement is None or numbers.isdisjoint(gpu // 100 for gpu in action.placement.gpus):
                continue
            for number in action.jobs:
                job, own = by_id[number], reservation.is_for(by_id[number])
                if own:
                    assert engine.now >= reservation.starts_at
                elif engine.now < reservation.ends_at:
                    assert engine.now < reservation.starts_at
                    limit = job.time_limit_seconds or 0.0
                    assert not job.guaranteed or engine.now + limit <= reservation.starts_at
        if reservation.is_in_force(engine.now):
            gone = {allocation for action in plan.actions if (allocation := action.allocation) is not None}
            for running in engine.round_engine.facts.running.values():
                if numbers.isdisjoint(gpu // 100 for gpu in running.gpus) or running.stopping:
                    continue
                others = [job for job in running.jobs if not reservation.is_for(by_id[job])]
                assert not others or running.allocation in gone

    engine = Engine(facts, truths=truths, on_round=look)
    assert engine.run() == ""
