"""Forecasts of clusters so small that every instant can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.model.limits import Budget
from scheduler.core.model.loan_terms import BorrowRule, Lending, LendRule, Lot, RuleId
from scheduler.core.model.reservations import Reservation
from scheduler.core.model.snapshot import Candidates, Job, JobId, Snapshot, Tenant, Trial
from scheduler.core.round.guarantees.reliance import relying_on
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.forecast import Bounds, Forecast, forecast, waiting_jobs
from scheduler.core.sim.run_times import Assumption, RunTimes, Source
from scheduler.core.sim.workload import Arrival, Truth
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_node,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.worlds import snapshots
from tests.core.worlds_in_cells import hardware_of, in_cells, owning
from tests.effort import examples

HOUR = 3_600.0


def starts(made: Forecast) -> dict[int, tuple[float | None, float | None, float | None]]:
    """By job: seconds from now of the earliest, the expected and the latest start."""

    def from_now(at: float | None) -> float | None:
        return None if at is None else at - NOW

    return {
        job: (from_now(told.earliest), from_now(told.starts_at), from_now(told.latest))
        for job, told in made.predictions.items()
    }


class TestInstants:
    """Job 1 has all 8 GPUs for an hour and is expected to end after 50 minutes; it began 10 minutes ago."""

    first = make_job(1, 8, time_limit_seconds=HOUR, estimate_seconds=3_000.0)

    def test_the_next_starts_when_the_one_that_runs_is_expected_to_end(self) -> None:
        facts = make_snapshot(
            jobs=[self.first, make_job(2, 8, time_limit_seconds=HOUR)],
            running=[make_running(self.first, range(100, 108))],
        )
        # Late: 3,600 - 600. Expected: 3,000 - 600. Early: with nothing known of its kind, one of ten ends
        # within a tenth of what is left of its limit: 0.1 × 3,000.
        assert starts(forecast(facts)) == {2: (300.0, 2_400.0, 3_000.0)}

    def test_those_behind_it_start_after_it(self) -> None:
        second = make_job(2, 8, time_limit_seconds=HOUR, estimate_seconds=1_000.0)
        third = make_job(3, 8, time_limit_seconds=HOUR)
        facts = make_snapshot(
            jobs=[self.first, second, third], running=[make_running(self.first, range(100, 108))]
        )
        made = forecast(facts)
        # Early: 300, and a tenth of the second's limit; late: its whole limit.
        assert starts(made)[3] == (300.0 + 360.0, 2_400.0 + 1_000.0, 3_000.0 + HOUR)
        assert [told.position for told in made.predictions.values()] == [1, 2]

    def test_a_job_that_fits_beside_starts_now(self) -> None:
        half = make_job(1, 4, time_limit_seconds=HOUR)
        facts = make_snapshot(
            jobs=[half, make_job(2, 4, time_limit_seconds=60.0)],
            running=[make_running(half, range(100, 104))],
        )
        made = forecast(facts)
        assert starts(made) == {2: (0.0, 0.0, 0.0)}
        assert made.predictions[JobId(2)].position is None

    def test_a_job_with_a_time_limit_may_be_stopping(self) -> None:
        facts = make_snapshot(
            jobs=[self.first, make_job(2, 8, time_limit_seconds=HOUR)],
            running=[make_running(self.first, range(100, 108), stopping=True)],
        )
        assert starts(forecast(facts)).keys() == {2}

    def test_starts_are_ticks_of_the_clock(self) -> None:
        odd = make_job(1, 8, time_limit_seconds=607.0)
        facts = make_snapshot(jobs=[odd, make_job(2)], running=[make_running(odd, range(100, 108))])
        assert starts(forecast(facts))[2][2] == 10.0

    def test_a_job_in_back_off_starts_when_it_ends(self) -> None:
        facts = make_snapshot(jobs=[make_job(1, eligible_at=NOW + 120)])
        assert starts(forecast(facts)) == {1: (120.0, 120.0, 120.0)}

    def test_a_job_that_waits_for_its_reservation_starts_when_that_begins(self) -> None:
        """Whoever else wants the node. Rounds are almost an hour apart by then, and no start is before it."""
        own = make_job(2, 8, time_limit_seconds=HOUR, estimate_seconds=HOUR, reservation="paper")
        reserved = Reservation(
            name="paper",
            tenant=own.tenant,
            nodes=("node-0001",),
            starts_at=NOW + 10 * HOUR + 3,
            ends_at=NOW + 20 * HOUR,
        )
        others = [
            make_job(number, 8, time_limit_seconds=600.0, estimate_seconds=600.0) for number in range(3, 63)
        ]
        facts = make_snapshot(
            nodes=make_cluster(1),
            jobs=[own, replace(own, id=JobId(63)), *others],
            reservations=[reserved],
        )
        made = forecast(facts, bounds=Bounds(exact_rounds=4, rounds_to_double=4))
        assert made.exact_until < reserved.starts_at
        at = [made.predictions[JobId(number)].starts_at for number in (2, 63)]
        assert at[0] == pytest.approx(reserved.starts_at, abs=HOUR)
        assert at[0] is not None
        assert at[0] >= reserved.starts_at
        assert at[1] == pytest.approx(reserved.starts_at + 2 * HOUR, abs=HOUR)

    @pytest.mark.parametrize("by_cells", [False, True])
    def test_one_that_names_its_nodes_waits_for_these(self, by_cells: bool) -> None:
        """Node 2 comes free after half an hour, node 1 after an hour: what names it lets the next pass."""
        there = [
            make_job(number, 8, time_limit_seconds=seconds, estimate_seconds=seconds)
            for number, seconds in ((1, HOUR), (2, HOUR / 2))
        ]
        waiting = [
            make_job(3, 8, time_limit_seconds=HOUR, nodes=Candidates(only=("node-0001",))),
            make_job(4, 8, time_limit_seconds=HOUR, nodes=Candidates(avoid=("node-0001",))),
        ]
        running = [make_running(job, range(100 * job.id, 100 * job.id + 8), since=NOW) for job in there]
        vc = make_virtual_cluster(guaranteed={"V100": 16})
        facts = make_snapshot(
            nodes=make_cluster(2), jobs=[*there, *waiting], running=running, virtual_clusters=[vc]
        )
        if by_cells:
            facts = in_cells(facts, owning(hardware_of(facts.nodes), {"research": {"V100-8-NODE": 2}}))
        assert expected(forecast(facts)) == {3: HOUR, 4: HOUR / 2}

    def test_only_those_asked_for_are_told(self) -> None:
        facts = make_snapshot(jobs=[make_job(1), make_job(2)])
        assert list(forecast(facts, jobs={JobId(2)}).predictions) == [2]

    def test_each_view_goes_by_its_own_policy(self) -> None:
        clusters = [
            make_virtual_cluster("old", {"V100": 4}, policy="fifo"),
            make_virtual_cluster("short", {"V100": 4}, policy="sjf"),
        ]
        jobs = [
            make_job(
                number,
                4,
                virtual_cluster=name,
                time_limit_seconds=2 * HOUR,
                estimate_seconds=HOUR / (number % 10),
            )
            for name, tens in (("old", 10), ("short", 20))
            for number in (tens + 1, tens + 2)
        ]
        told = starts(forecast(make_snapshot(jobs=jobs, virtual_clusters=clusters)))
        # fifo: 11 (an hour) before 12; sjf: 22 (half an hour) before 21.
        assert [told[job][1] for job in (11, 12, 21, 22)] == [0.0, 3_600.0, 1_800.0, 0.0]


class TestWhatIsToCome:
    """What will change by itself is foreseen: nodes that close, budgets, trial runs, and what rules do."""

    def test_a_node_closes_and_its_job_goes_on_elsewhere(self) -> None:
        nodes = make_cluster(2)
        facts = make_snapshot(
            nodes=[replace(nodes[0], closes_at=NOW + 600), nodes[1]],
            jobs=[hours(1, 8), hours(2, 8), hours(3, 8)],
            running=[
                make_running(hours(1, 8), range(100, 108), since=NOW),
                make_running(hours(2, 8), range(200, 208), since=NOW - 3_000),
            ],
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})],
        )
        # Job 2 ends at 600, when node 1 closes; job 1 is older than job 3 and has 3,000 s to do.
        assert expected(forecast(facts)) == {3: 600.0 + 3_000.0}

    def test_what_would_outlast_its_node_does_not_start_there_as_time_goes_on(self) -> None:
        """Until 600 s job 2 could still end on node 1 in time; node 2 comes free only at 700 s."""
        nodes = make_cluster(2)
        jobs = [hours(1, 8), hours(2, 8), hours(3, 8)]
        since = {1: NOW - 3_000, 2: NOW - 2_900}
        for closes_after, start in ((600 + HOUR, 600.0), (599 + HOUR, 700.0)):
            facts = make_snapshot(
                nodes=[replace(nodes[0], closes_at=NOW + closes_after), nodes[1]],
                jobs=jobs,
                running=[
                    make_running(jobs[0], range(100, 108), since=since[1]),
                    make_running(jobs[1], range(200, 208), since=since[2]),
                ],
                virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})],
            )
            assert expected(forecast(facts))[3] == start

    @pytest.mark.parametrize("by_price", [False, True])
    def test_a_budget_runs_out_and_is_renewed(self, by_price: bool) -> None:
        budget = Budget(amount=16.0, left=12.0, renewals=(NOW + 4 * HOUR,), by_price=by_price)
        facts = make_snapshot(
            jobs=[hours(number, 8) for number in (1, 2, 3, 4)],
            running=[make_running(hours(1, 8), range(100, 108), since=NOW)],
            tenants=[Tenant(name="vision", budget=budget)],
        )
        facts = replace(facts, prices={"V100": 0.5} if by_price else {})
        # 8 GPU-hours an hour, or 4: after 1.5 or 3 hours nothing more is started. Job 1 is done at 1 h.
        later = {2: HOUR, 3: 2 * HOUR, 4: 4 * HOUR} if by_price else {2: HOUR, 3: 4 * HOUR, 4: 5 * HOUR}
        assert expected(forecast(facts)) == later

    def test_a_budget_that_is_never_renewed_says_why_nothing_starts(self) -> None:
        facts = make_snapshot(
            jobs=[hours(1, 8), hours(2, 8)],
            running=[make_running(hours(1, 8), range(100, 108), since=NOW)],
            tenants=[Tenant(name="vision", budget=Budget(amount=9.0, left=4.0))],
        )
        assert "has used up its budget" in forecast(facts).predictions[JobId(2)].why_not

    def test_a_trial_is_followed_by_its_gang(self) -> None:
        gang = hours(1, 8)
        tried = replace(
            make_job(1, 1, time_limit_seconds=420.0),
            trial=Trial(seconds=120.0, gang=gang),
            submitted_at=NOW - 9,
        )
        facts = make_snapshot(jobs=[tried, hours(2, 8)], running=[make_running(tried, [100], since=NOW)])
        # Nothing better is known of job 2 than that the gang, which is older, comes first: 120 s and an hour.
        told = starts(forecast(facts))[2]
        assert told[1:] == (120.0 + HOUR, 120.0 + HOUR)

    def test_rules_lend_what_is_idle_and_it_returns(self) -> None:
        lending = Lending(
            lend_rules=(
                LendRule(
                    id=RuleId(1), virtual_cluster="lender", lot=Lot(gpus={"V100": 4}), idle_seconds=60.0,
                    lend_seconds=7_200.0,
                ),
            ),
            borrow_rules=(
                BorrowRule(id=RuleId(2), virtual_cluster="borrower", most_gpus=4, waiting_seconds=0.0),
            ),
        )  # fmt: skip
        own = make_snapshot(
            virtual_clusters=[
                make_virtual_cluster("lender", {"V100": 4}),
                make_virtual_cluster("borrower", {"V100": 4}),
            ],
            jobs=[hours(1, 4, virtual_cluster="borrower"), hours(2, 4, virtual_cluster="borrower")],
            running=[make_running(hours(1, 4, virtual_cluster="borrower"), range(100, 104), since=NOW)],
        )
        # Idle for a minute, then offered, taken in the next round and used in the one after that.
        (start,) = expected(forecast(relying_on(own, lending))).values()
        assert start is not None
        assert 60.0 <= start <= 60.0 + 3 * own.round_seconds
        assert expected(forecast(own)) == {2: HOUR}

    def test_much_trade_is_followed_for_a_while(self) -> None:
        """With two changes of guarantees at most, what would be lent a second time is not."""
        lot, terms = Lot(gpus={"V100": 4}), {"idle_seconds": 0.0, "lend_seconds": 2 * HOUR}
        lending = Lending(
            lend_rules=(LendRule(id=RuleId(1), virtual_cluster="lender", lot=lot, **terms),),
            borrow_rules=(
                BorrowRule(id=RuleId(2), virtual_cluster="borrower", most_gpus=4, waiting_seconds=0.0),
            ),
        )
        facts = make_snapshot(
            virtual_clusters=[
                make_virtual_cluster("lender", {"V100": 4}),
                make_virtual_cluster("borrower", {}),
            ],
            jobs=[hours(number, 4, virtual_cluster="borrower") for number in (1, 2, 3)],
        )
        facts = relying_on(replace(facts, nodes=(make_node(1, gpus=4),)), lending)
        bounds = Bounds(loan_changes=2, rounds_to_double=None)
        told = expected(forecast(facts, bounds=bounds))
        assert [told[job] is None for job in (1, 2, 3)] == [False, False, True]


def hours(number: int, gpus: int, **fields: Any) -> Job:
    """A job that takes an hour."""
    return make_job(number, gpus, time_limit_seconds=HOUR, estimate_seconds=HOUR, **fields)


def expected(made: Forecast) -> dict[int, float | None]:
    return {job: told[1] for job, told in starts(made).items()}


class TestNoInstant:
    def test_a_job_that_can_never_run_says_why(self) -> None:
        told = forecast(make_snapshot(jobs=[make_job(1, 16)])).predictions[JobId(1)]
        assert (told.starts_at, told.earliest, told.latest) == (None, None, None)
        assert "this job needs 16" in told.why_not

    def test_a_held_job_says_so(self) -> None:
        told = forecast(make_snapshot(jobs=[make_job(1, held=True)])).predictions[JobId(1)]
        assert told.why_not == "It was put on hold."

    def test_beyond_the_horizon_is_said(self) -> None:
        long = make_job(1, 8, time_limit_seconds=90 * 86_400.0)
        facts = make_snapshot(jobs=[long, make_job(2)], running=[make_running(long, range(100, 108))])
        told = forecast(facts).predictions[JobId(2)]
        assert told.why_not == "It is not expected to start within 30 days."
        # A tenth of 90 days is within it.
        assert told.earliest is not None
        assert told.latest is None

    def test_what_nothing_known_would_start_is_said(self) -> None:
        facts = make_snapshot(nodes=[make_node(1, schedulable=False)], jobs=[make_job(1)])
        assert "Nothing that is known of" in forecast(facts).predictions[JobId(1)].why_not

    def test_the_bound_of_rounds_is_said(self) -> None:
        jobs = [make_job(number, 8, time_limit_seconds=HOUR) for number in range(1, 9)]
        made = forecast(make_snapshot(jobs=jobs), bounds=Bounds(rounds=4))
        assert "further ahead than the 4 rounds" in made.predictions[JobId(8)].why_not
        assert made.predictions[JobId(4)].starts_at is not None

    def test_a_quota_delays_and_does_not_forbid(self) -> None:
        jobs = [make_job(number, 4, time_limit_seconds=HOUR, estimate_seconds=HOUR) for number in (1, 2)]
        tenants = [Tenant(name="vision", quota={"*": 4})]
        assert starts(forecast(make_snapshot(jobs=jobs, tenants=tenants)))[2][1] == HOUR


class TestRunTimes:
    def left(
        self, kind: Assumption, parts: dict | None = None, *, ran: float = 0.0, **fields: object
    ) -> float:
        job: Job = make_job(1, 8, **({"time_limit_seconds": 1_000.0} | fields))  # type: ignore[arg-type]
        running = make_running(job, range(100, 108), since=NOW - ran) if ran else None
        return RunTimes(parts=parts or {}).left_seconds(job, running, NOW, 5_000.0, kind)

    def test_with_nothing_known_any_part_of_the_limit_is_as_likely(self) -> None:
        assert [self.left(kind) for kind in Assumption] == [100.0, 500.0, 1_000.0]
        assert [self.left(kind, ran=200.0) for kind in Assumption] == pytest.approx([80.0, 400.0, 800.0])

    def test_history_counts_only_those_that_ran_as_long(self) -> None:
        parts = {("vision", ""): [0.1, 0.2, 0.3, 0.4, 0.9, 1.0]}
        assert self.left(Assumption.EXPECTED, parts) == 400.0
        assert self.left(Assumption.EXPECTED, parts, ran=500.0) == 500.0
        assert self.left(Assumption.EARLY, parts, ran=500.0) == 400.0

    def test_the_nearest_history_counts_first(self) -> None:
        parts = {("", ""): [0.1] * 5, ("vision", ""): [0.2] * 5, ("vision", "bert"): [0.3] * 5}
        assert self.left(Assumption.EXPECTED, parts) == 200.0
        assert self.left(Assumption.EXPECTED, parts, application="bert") == 300.0
        assert self.left(Assumption.EXPECTED, parts, tenant="speech") == 100.0
        assert self.left(Assumption.EXPECTED, {("vision", ""): [0.2] * 4}) == 500.0

    def test_an_estimate_counts_more_and_what_outlives_it_is_like_any_other(self) -> None:
        assert self.left(Assumption.EXPECTED, estimate_seconds=700.0, ran=200.0) == 500.0
        assert self.left(Assumption.EXPECTED, estimate_seconds=100.0, ran=200.0) == pytest.approx(400.0)

    def test_an_estimate_is_of_all_attempts(self) -> None:
        served = {"V100": 8 * 300.0}
        left = self.left(Assumption.EXPECTED, estimate_seconds=700.0, attained_service=served, ran=200.0)
        assert left == 200.0

    @pytest.mark.parametrize("kind", list(Assumption))
    def test_it_is_never_negative(self, kind: Assumption) -> None:
        assert self.left(kind, ran=5_000.0) == 0.0
        assert self.left(kind, {("", ""): [0.5] * 9}, ran=999.0, estimate_seconds=1.0) >= 0.0

    def test_without_a_limit_the_default_counts_and_then_as_long_again(self) -> None:
        assert self.left(Assumption.LATE, time_limit_seconds=None) == 5_000.0
        assert self.left(Assumption.LATE, time_limit_seconds=None, ran=7_000.0) == 7_000.0
        assert self.left(Assumption.EXPECTED, time_limit_seconds=None, ran=7_000.0) == 3_500.0

    def test_what_is_assumed_is_said(self) -> None:
        known = RunTimes(parts={("vision", ""): [0.5] * 5})
        assert known.source(make_job(1, estimate_seconds=1.0)) is Source.ESTIMATE
        facts = make_snapshot(jobs=[make_job(1), make_job(2, estimate_seconds=9.0)])
        assert forecast(facts).assumption == (
            "if jobs run as long as they were estimated to, or half of their time limit where nothing better"
            " is known, and nothing new is submitted"
        )
        assert "as jobs like them usually did" in forecast(facts, known).assumption


def test_far_ahead_rounds_are_further_apart() -> None:
    jobs = [make_job(number, 8, time_limit_seconds=607.0, estimate_seconds=607.0) for number in range(1, 60)]
    facts = make_snapshot(jobs=jobs)
    exact = forecast(facts, bounds=Bounds(rounds_to_double=None)).predictions
    coarse = forecast(facts, bounds=Bounds(exact_rounds=10, rounds_to_double=5)).predictions
    assert coarse[JobId(8)].starts_at == exact[JobId(8)].starts_at
    last, told = exact[JobId(59)].starts_at, coarse[JobId(59)].starts_at
    assert last is not None
    assert told is not None
    assert NOW < last < told < NOW + 2 * (last - NOW)


def test_equal_facts_give_equal_forecasts() -> None:
    jobs = [make_job(number, 1 + number % 4, time_limit_seconds=100.0 * number) for number in range(1, 40)]
    facts = make_snapshot(jobs=jobs)
    assert forecast(facts) == forecast(facts)


@settings(max_examples=examples(60), derandomize=True)
@given(facts=snapshots(), policy=st.sampled_from(("fifo", "sjf", "tiresias")))
def test_every_waiting_job_of_any_cluster_gets_an_answer(facts: Snapshot, policy: str) -> None:
    clusters = tuple(replace(vc, policy=policy) for vc in facts.virtual_clusters)
    facts = replace(facts, virtual_clusters=clusters)
    made = forecast(facts)
    assert list(made.predictions) == [job.id for job in waiting_jobs(facts)]
    for told in made.predictions.values():
        assert (told.starts_at is None) == bool(told.why_not)
        if told.starts_at is not None:
            assert told.earliest is not None
            assert facts.now <= told.earliest <= told.starts_at <= (told.latest or float("inf"))


@pytest.mark.parametrize("policy", ["fifo", "sjf", "las"])
def test_what_is_foreseen_happens_when_jobs_run_as_long_as_they_said(policy: str) -> None:
    jobs = [
        make_job(
            number,
            1 + number * 7 % 8,
            submitted_at=NOW + 10 * number,
            time_limit_seconds=4 * HOUR,
            estimate_seconds=300.0 + 170 * (number % 11),
        )
        for number in range(1, 41)
    ]
    clusters = [make_virtual_cluster(guaranteed={"V100": 16}, policy=policy)]
    arrivals = [Arrival(job=job, truth=Truth(work_seconds=job.estimate_seconds or 0.0)) for job in jobs]
    engine = Engine(make_snapshot(nodes=make_cluster(2), virtual_clusters=clusters), arrivals)
    engine.run(until=lambda engine: engine.now >= NOW + 1_500)
    made = forecast(engine.snapshot(), bounds=Bounds(rounds_to_double=None))
    fresh = [job for job in made.predictions if engine.progress[job].first_started_at is None]
    assert len(fresh) > 10
    engine.run()
    actual = {job: engine.progress[job].first_started_at for job in fresh}
    assert {job: made.predictions[job].starts_at for job in fresh} == actual
