"""The simulator on workloads whose ends one can work out on paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from scheduler.core.model.snapshot import JobId, Snapshot
from scheduler.core.sim.costs import CostFor, Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.failures import FailureClass, Failures
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.workload import Arrival, Truth
from tests.builders import make_cluster, make_job, make_node, make_part, make_running
from tests.core.sim.worlds import arrival, cluster, ends, simulate


class TestTime:
    def test_a_lone_job_ends_after_its_work(self) -> None:
        engine = simulate(cluster(), [arrival(1, 3.0, 100.0)])
        assert ends(engine) == {1: 103.0}

    def test_jobs_queue_in_the_order_of_their_arrival(self) -> None:
        engine = simulate(cluster(1), [arrival(1, 0.0, 10.0), arrival(2, 1.0, 5.0), arrival(3, 2.0, 1.0)])
        assert ends(engine) == {1: 10.0, 2: 15.0, 3: 16.0}

    def test_what_comes_free_between_rounds_is_given_out_at_the_next(self) -> None:
        engine = simulate(cluster(1, round_seconds=60.0), [arrival(1, 10.0, 30.0), arrival(2, 20.0, 30.0)])
        # Job 1 starts with the round at 60 and ends at 90; job 2 starts at 120.
        assert ends(engine) == {1: 90.0, 2: 150.0}
        assert [stay.started_at for stay in engine.stays] == [60.0, 120.0]

    def test_samples_count_what_comes_and_ends_between_rounds(self) -> None:
        engine = simulate(cluster(1, round_seconds=60.0), [arrival(1, 10.0, 30.0), arrival(2, 20.0, 30.0)])
        at = [*[sample.at for sample in engine.samples], engine.now]
        seconds = [end - begin for begin, end in pairwise(at)]

        def total(name: str) -> float:
            return sum(getattr(each, name) * s for each, s in zip(engine.samples, seconds, strict=True))

        # The first waits from 10 to 60 and runs for 30 s; the second waits from 20 to 120.
        assert (total("held_gpus"), total("running_jobs"), total("waiting_jobs")) == (60.0, 60.0, 150.0)
        assert total("usable_gpus") == engine.now
        assert max(sample.most_waiting_jobs for sample in engine.samples) == 2

    def test_an_instant_that_is_a_tick_but_for_rounding_is_reached(self) -> None:
        engine = simulate(cluster(round_seconds=0.5), [arrival(1, 1.0 + 1e-10, 5.0)])
        assert ends(engine) == pytest.approx({1: 6.0})

    def test_rounds_in_which_nothing_can_happen_are_not_run(self) -> None:
        engine = simulate(cluster(round_seconds=1.0), [arrival(1, 0.0, 5.0), arrival(2, 1e6, 5.0)])
        assert engine.rounds == 4

    def test_a_time_limit_ends_a_job(self) -> None:
        engine = simulate(cluster(), [arrival(1, 0.0, 100.0, time_limit_seconds=40.0)])
        assert (ends(engine), engine.progress[JobId(1)].outcome) == ({1: 40.0}, "failed")
        assert next(engine.stays).end == "time_limit"

    def test_jobs_end_as_they_did_in_the_trace(self) -> None:
        engine = simulate(
            cluster(), [arrival(1, 0.0, 1.0, status="killed"), arrival(2, 0.0, 1.0, status="failed")]
        )
        assert [progress.outcome for progress in engine.progress.values()] == ["cancelled", "failed"]

    def test_what_can_never_run_is_said_and_does_not_stop_the_rest(self) -> None:
        engine = simulate(cluster(), [arrival(1, 0.0, 1.0, gpus=16), arrival(2, 0.0, 1.0)])
        assert list(engine.never) == [1]
        assert engine.progress[JobId(1)].record().outcome == "never"
        assert engine.progress[JobId(2)].ended_at == 1.0

    def test_what_waits_for_ever_is_counted(self) -> None:
        engine = Engine(cluster(), [arrival(1, 0.0, 1.0, held=True)])
        assert engine.run() == "nothing more can happen, and 1 job waits for ever"

    def test_it_ends_when_it_is_told_to(self) -> None:
        engine = Engine(cluster(1), [arrival(1, 0.0, 10.0), arrival(2, 0.0, 10.0)])
        assert engine.run(until=lambda engine: engine.now >= 10.0)
        assert [progress.record().outcome for progress in engine.progress.values()] == [
            "succeeded",
            "running",
        ]


class TestPreemption:
    """A guaranteed job of 8 GPUs takes back at 10 what an opportunistic one has had since 0."""

    arrivals = (arrival(1, 0.0, 30.0, gpus=8, guaranteed=False), arrival(2, 10.0, 5.0, gpus=8))

    def test_is_free_when_it_costs_nothing(self) -> None:
        engine = simulate(cluster(), self.arrivals)
        assert ends(engine) == {2: 15.0, 1: 35.0}
        assert [(stay.job, stay.end, stay.preempted_by) for stay in engine.stays] == [
            (1, "preempted", (2,)),
            (2, "finished", ()),
            (1, "finished", ()),
        ]

    def test_costs_its_checkpoint_first_and_its_restoring_later(self) -> None:
        costs = Costs(start_seconds=1.0, checkpoint_seconds=4.0, restore_seconds=2.0)
        engine = simulate(cluster(), self.arrivals, costs=costs)
        # 1 works from 1 to 10, leaves at 14; 2 works from 15 to 20; 1 restores until 23 and works 21 s more.
        assert ends(engine) == {2: 20.0, 1: 44.0}
        record = engine.progress[JobId(1)].record()
        assert (record.preemptions, record.attempts, record.migrations) == (1, 2, 0)
        assert record.gpu_seconds == 8 * (14 + 24)
        assert record.overhead_gpu_seconds == 8 * (1 + 4 + 3)

    def test_work_since_the_last_checkpoint_is_not_lost_when_one_is_written(self) -> None:
        engine = simulate(cluster(), self.arrivals, costs=Costs(interval_seconds=7.0))
        assert engine.progress[JobId(1)].record().lost_gpu_seconds == 0.0

    def test_attained_service_is_what_was_had(self) -> None:
        seen: dict[float, float] = {}
        engine = Engine(
            cluster(),
            self.arrivals,
            on_round=lambda engine, outcomes, plan: (
                seen.update(
                    {engine.now: sum(engine.round_engine.facts.jobs[JobId(1)].attained_service.values())}
                )
                if JobId(1) in engine.round_engine.facts.jobs
                else None
            ),
        )
        engine.run()
        assert seen == {0.0: 0.0, 10.0: 0.0, 15.0: 80.0}


class TestSpeed:
    def test_each_node_too_many_slows_a_gang_down(self) -> None:
        speeds = Speeds(default_locality=0.5, gpus_per_node=4)
        nodes = [make_node(1, gpus=2), make_node(2, gpus=2)]
        engine = simulate(cluster(4, nodes=nodes), [arrival(1, 0.0, 10.0, gpus=2, replicas=2)], speeds=speeds)
        assert ends(engine) == {1: 20.0}

    def test_the_best_rate_is_that_of_the_models_a_job_accepts(self) -> None:
        class Twice:
            def rate(
                self, application: str, gpus: int, gpu_model: str, of_gpus: int | None = None
            ) -> float | None:
                return {"V100": 2.0, "P100": 1.0}[gpu_model]

            def locality(self, application: str, gpus: int, nodes: int) -> float | None:
                return None

            def interference(
                self, application: str, other: str, gpu_model: str, gpus: int = 1
            ) -> float | None:
                return None

            def among(
                self, application: str, others: Sequence[str], gpu_model: str, gpus: int = 1
            ) -> float | None:
                return None

        speeds = Speeds(tables=Twice())
        assert speeds.best(make_job(1), ["P100", "V100"]) == 2.0
        assert speeds.best(make_job(1, gpu_models=("P100",)), ["P100", "V100"]) == 1.0

    def test_jobs_that_share_without_a_measurement_have_equal_parts(self) -> None:
        one, other = make_job(1), make_job(2)
        assert Speeds().together(one, [other], "V100") == 0.5


class TestFailures:
    def certain(self, *, deterministic: bool, **fields: float) -> Failures:
        cause = FailureClass(name="it", trials=1, rtf_percent=1.0, is_deterministic=deterministic)
        return Failures(probability=1.0, mean_seconds=5.0, classes=(cause,), **fields)  # type: ignore[arg-type]

    def test_a_users_mistake_is_not_tried_again(self) -> None:
        engine = simulate(cluster(), [arrival(1, 0.0, 1e6)], failures=self.certain(deterministic=True))
        record = engine.progress[JobId(1)].record()
        assert (record.outcome, record.attempts) == ("failed", 1)

    def test_without_a_classifier_it_is_tried_as_often_as_anything(self) -> None:
        failures = self.certain(deterministic=True, classify=False)
        engine = simulate(cluster(), [arrival(1, 0.0, 1e6)], failures=failures)
        record = engine.progress[JobId(1)].record()
        assert (record.outcome, record.attempts) == ("failed", 4)
        assert record.lost_gpu_seconds == pytest.approx(record.gpu_seconds)

    def test_a_retry_waits_longer_each_time(self) -> None:
        failures = self.certain(deterministic=False, backoff_seconds=100.0, retries=2)
        engine = simulate(cluster(), [arrival(1, 0.0, 1e6)], failures=failures)
        first, second, third = engine.stays
        assert second.started_at == pytest.approx(first.ended_at + 100)
        assert third.started_at == pytest.approx(second.ended_at + 200)

    def test_what_the_last_checkpoint_holds_is_kept(self) -> None:
        assert Costs(interval_seconds=10.0).kept_of(34.0) == 30.0
        assert Costs().kept_of(34.0) == 0.0


class TestScriptedChanges:
    def test_cancelled_jobs_leave_at_once(self) -> None:
        engine = Engine(cluster(1), [arrival(1, 0.0, 100.0), arrival(2, 0.0, 100.0)])
        engine.run(until=lambda engine: engine.rounds == 1)
        engine.cancel(JobId(2))
        engine.cancel(JobId(1))
        assert [progress.outcome for progress in engine.progress.values()] == ["cancelled", "cancelled"]
        assert not engine.round_engine.facts.jobs
        assert engine.run() == ""

    def test_a_node_that_is_gone_takes_its_jobs_back_to_the_queue(self) -> None:
        engine = Engine(
            cluster(16, nodes=make_cluster(2)),
            [arrival(1, 0.0, 100.0, gpus=8)],
            Rules(costs=Costs(interval_seconds=30.0)),
            script=[Loss(at=70.0)],
        )
        engine.run()
        # 60 s of its 70 are in a checkpoint; the other 40 are done on the other node.
        assert ends(engine) == {1: 110.0}
        lost, finished = engine.stays
        assert (lost.end, finished.end) == ("lost", "finished")
        assert lost.nodes != finished.nodes
        assert lost.lost_seconds == pytest.approx(10.0)


@dataclass(frozen=True)
class Loss:
    """The node on which something runs is gone."""

    at: float

    def happen(self, engine: Engine) -> None:
        (running,) = engine.snapshot().running
        lost = running.gpus[0] // 100

        def without(facts: Snapshot) -> Snapshot:
            return replace(facts, nodes=tuple(node for node in facts.nodes if node.id != lost))

        engine.reconfigure(without)


def test_goes_on_from_where_given_facts_are() -> None:
    holder, waiting = make_job(1, 8), make_job(2, 8)
    facts = cluster(jobs=[holder, waiting], running=[make_running(holder, range(100, 108), since=-50.0)])
    truths = {JobId(1): Truth(work_seconds=30.0), JobId(2): Truth(work_seconds=10.0)}
    engine = Engine(facts, truths=truths)
    engine.run()
    assert ends(engine) == {1: 30.0, 2: 40.0}


class TestCostsOfSome:
    COSTS = Costs(
        start_seconds=1.0,
        special=(
            CostFor(name="start_seconds", seconds=10.0, least_gpus=4),
            CostFor(name="start_seconds", seconds=20.0, application="bert"),
            CostFor(name="start_seconds", seconds=40.0, application="bert", least_gpus=4),
            CostFor(name="restore_seconds", seconds=5.0, application="bert"),
        ),
    )

    def test_a_kind_comes_before_a_size(self) -> None:
        jobs = [
            arrival(1, 0, 100, gpus=2),
            arrival(2, 0, 100, gpus=4),
            arrival(3, 0, 100, gpus=2, application="bert"),
            arrival(4, 0, 100, gpus=4, application="bert"),
        ]
        assert ends(simulate(cluster(12), jobs, costs=self.COSTS)) == {1: 101, 2: 110, 3: 120, 4: 140}

    def test_the_scheduler_is_told_of_each_jobs_own(self) -> None:
        assert self.COSTS.of(make_job(1, 2)).preemption_seconds == 1.0
        assert self.COSTS.of(make_job(1, 8, application="bert")).preemption_seconds == 45.0

    def test_an_event_costs_everyone_who_runs_on(self) -> None:
        """Job 2 starts at 10, and job 1 stands still for 3 s; the end of a job is no event of a round."""
        jobs = [arrival(1, 0, 100), arrival(2, 10, 20)]
        engine = simulate(cluster(), jobs, costs=Costs(event_seconds=3.0))
        assert ends(engine) == {1: 103, 2: 30}


class TestMoves:
    """Two nodes of two GPUs, a long job on one GPU of each, and a short gang that needs a whole node."""

    def engine(self, *, moves: bool) -> Engine:
        facts = cluster(4, policy="srtf", placer="spread", nodes=make_cluster(2, gpus=2))
        return simulate(
            facts, [arrival(1, 0, 100), arrival(2, 0, 100), arrival(3, 10, 20, gpus=2)], moves=moves
        )

    def test_a_job_is_moved_for_a_gang(self) -> None:
        engine = self.engine(moves=True)
        assert [stay.end for stay in engine.stays].count("moved") == 1
        assert ends(engine)[3] == 30

    def test_without_moves_it_stays_where_it_is(self) -> None:
        engine = self.engine(moves=False)
        assert {stay.end for stay in engine.stays} == {"finished"}
        assert ends(engine) == {1: 100, 2: 100, 3: 120}


def test_four_quarters_that_run_for_a_minute_have_had_a_gpu_for_a_minute() -> None:
    jobs = [make_part(number, 0.25, submitted_at=0.0, estimate_seconds=60.0) for number in range(1, 5)]
    engine = simulate(cluster(1), [Arrival(job=job, truth=Truth(work_seconds=60.0)) for job in jobs])
    assert ends(engine) == dict.fromkeys(range(1, 5), 60.0)
    assert sum(progress.record().gpu_seconds for progress in engine.progress.values()) == 60.0
