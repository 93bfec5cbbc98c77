"""What-if questions about clusters so small that the answers can be worked out by hand."""

from __future__ import annotations

import pytest

from scheduler.core.model.snapshot import JobId, Snapshot, Trial
from scheduler.core.sim.forecast import Bounds
from scheduler.core.sim.what_if import (
    ChangeError,
    Comparison,
    Effect,
    GuaranteeChange,
    JobChange,
    NewJob,
    NodeChange,
    what_if,
)
from tests.builders import NOW, make_cluster, make_job, make_running, make_snapshot, make_virtual_cluster

HOUR = 3_600.0


def times(effects: tuple[Effect, ...]) -> dict[int, tuple[float | None, float | None]]:
    """By job: seconds from now of the expected start before and after; None where there is none."""
    return {
        effect.job: tuple(  # type: ignore[misc]
            None if told is None or told.starts_at is None else told.starts_at - NOW
            for told in (effect.before, effect.after)
        )
        for effect in effects
    }


def told(comparison: Comparison) -> tuple[dict, dict, dict]:
    return times(comparison.subjects), times(comparison.later), times(comparison.sooner)


class TestJob:
    """Six of eight GPUs are taken for another hour; 2 wants four of them, 3 and 4 want one each."""

    def facts(self) -> Snapshot:
        first = make_job(1, 6, time_limit_seconds=HOUR, estimate_seconds=HOUR)
        second = make_job(2, 4, time_limit_seconds=2 * HOUR, estimate_seconds=HOUR)
        return make_snapshot(jobs=[first, second], running=[make_running(first, range(100, 106), since=NOW)])

    def test_fewer_gpus_let_it_start_at_once(self) -> None:
        assert told(what_if(self.facts(), [JobChange(job=JobId(2), gpus=2)])) == ({2: (HOUR, 0.0)}, {}, {})

    def test_on_half_the_gpus_it_runs_twice_as_long(self) -> None:
        facts = self.facts()
        third = make_job(3, 8, time_limit_seconds=HOUR, estimate_seconds=60.0)
        facts = make_snapshot(jobs=[*facts.jobs, third], running=facts.running)
        # Before: 2 from 1 h to 2 h, then 3. After: 2 from now to 2 h on two GPUs, so 3 starts as before.
        comparison = what_if(facts, [JobChange(job=JobId(2), gpus=2)])
        assert told(comparison) == ({2: (HOUR, 0.0)}, {}, {})
        assert comparison.after.predictions[JobId(3)].starts_at == NOW + 2 * HOUR

    def test_of_a_job_whose_trial_is_due_the_gang_is_changed(self) -> None:
        """Two GPUs are left for its trial of a minute, and then for a gang of two, not for one of four."""
        facts = self.facts()
        gang = facts.jobs[1]
        tried = make_job(2, 1, time_limit_seconds=360.0, trial=Trial(seconds=60.0, gang=gang))
        later = make_job(3, 2, time_limit_seconds=2 * HOUR, estimate_seconds=HOUR)
        facts = make_snapshot(jobs=[facts.jobs[0], tried, later], running=facts.running)
        # 3 slips in beside a gang of four that waits for 1; one of two takes what is left before it.
        comparison = what_if(facts, [JobChange(job=JobId(2), gpus=2)])
        assert told(comparison) == ({2: (0.0, 0.0)}, {3: (60.0, HOUR)}, {})

    def test_whoever_pays_is_named(self) -> None:
        facts = self.facts()
        third = make_job(3, 4, time_limit_seconds=HOUR, estimate_seconds=HOUR)
        fourth = make_job(4, 8, time_limit_seconds=HOUR, estimate_seconds=HOUR)
        facts = make_snapshot(jobs=[*facts.jobs, third, fourth], running=facts.running)
        # As it is: 2 and 3 at 1 h, 4 at 2 h. With 4 first: 4 at 1 h, the others at 2 h.
        comparison = what_if(facts, [JobChange(job=JobId(4), priority=10)])
        assert told(comparison) == (
            {4: (2 * HOUR, HOUR)},
            {2: (HOUR, 2 * HOUR), 3: (HOUR, 2 * HOUR)},
            {},
        )

    def test_a_shorter_limit_lets_it_slip_in_before_the_head(self) -> None:
        facts = self.facts()
        third = make_job(3, 2, time_limit_seconds=2 * HOUR, estimate_seconds=1_800.0)
        second = make_job(2, 8, time_limit_seconds=HOUR, estimate_seconds=HOUR)
        facts = make_snapshot(jobs=[facts.jobs[0], second, third], running=facts.running)
        comparison = what_if(facts, [JobChange(job=JobId(3), time_limit_seconds=1_800.0)])
        assert told(comparison) == ({3: (2 * HOUR, 0.0)}, {}, {})

    def test_an_opportunistic_job_uses_what_others_leave(self) -> None:
        clusters = [make_virtual_cluster("research", {"V100": 4}), make_virtual_cluster("rest", {"V100": 4})]
        facts = make_snapshot(jobs=[make_job(1, 8)], virtual_clusters=clusters)
        comparison = what_if(facts, [JobChange(job=JobId(1), guaranteed=False)])
        assert told(comparison) == ({1: (None, 0.0)}, {}, {})
        before = comparison.before.predictions[JobId(1)]
        assert before.why_not

    def test_another_model_and_another_virtual_cluster(self) -> None:
        facts = self.facts()
        nodes = [*make_cluster(1), *make_cluster(1, gpu_model="P100", first=2)]
        clusters = [make_virtual_cluster(guaranteed={"V100": 8}), make_virtual_cluster("old", {"P100": 8})]
        second = make_job(2, 4, gpu_models=("V100",), time_limit_seconds=HOUR)
        facts = make_snapshot(
            nodes=nodes, jobs=[facts.jobs[0], second], running=facts.running, virtual_clusters=clusters
        )
        change = JobChange(job=JobId(2), gpu_models=("P100",), virtual_cluster="old")
        assert told(what_if(facts, [change]))[0] == {2: (HOUR, 0.0)}

    def test_a_job_that_is_new(self) -> None:
        new = make_job(9, 2, time_limit_seconds=HOUR)
        assert told(what_if(self.facts(), [NewJob(job=new)])) == ({9: (None, 0.0)}, {}, {})


class TestCluster:
    """Two nodes of eight; job 1 has the first for an hour, 2 waits for eight, 3 runs on the second."""

    def facts(self) -> Snapshot:
        jobs = [
            make_job(1, 8, time_limit_seconds=HOUR, estimate_seconds=HOUR),
            make_job(2, 8, time_limit_seconds=HOUR, estimate_seconds=HOUR),
            make_job(3, 8, time_limit_seconds=HOUR, estimate_seconds=600.0),
        ]
        return make_snapshot(
            nodes=make_cluster(2),
            jobs=jobs,
            running=[
                make_running(jobs[0], range(100, 108), since=NOW),
                make_running(jobs[2], range(200, 208), since=NOW),
            ],
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16})],
        )

    def test_draining_a_node_sends_its_jobs_back_into_the_queue(self) -> None:
        comparison = what_if(self.facts(), [NodeChange(node="node-0002", schedulable=False)])
        # 2 would have had the second node in 600 s; now 1 ends first, then 2, then 3, which ran before.
        assert told(comparison) == ({}, {3: (None, 2 * HOUR), 2: (600.0, HOUR)}, {})
        assert comparison.later[0].before is None

    def test_a_node_that_takes_work_again(self) -> None:
        facts = self.facts()
        drained = NodeChange(node="node-0002", schedulable=False).apply(facts)
        comparison = what_if(drained, [NodeChange(node="node-0002", schedulable=True)])
        assert told(comparison) == ({}, {}, {2: (HOUR, 0.0), 3: (2 * HOUR, HOUR)})

    def test_a_larger_guarantee(self) -> None:
        clusters = [make_virtual_cluster(guaranteed={"V100": 8}), make_virtual_cluster("idle", {})]
        facts = make_snapshot(
            nodes=make_cluster(2),
            jobs=[make_job(n, 8, time_limit_seconds=HOUR, estimate_seconds=HOUR) for n in (1, 2)],
            virtual_clusters=clusters,
        )
        change = GuaranteeChange(virtual_cluster="research", gpu_model="V100", more_gpus=8)
        assert told(what_if(facts, [change])) == ({}, {}, {2: (HOUR, 0.0)})


class TestMistakes:
    @pytest.mark.parametrize(
        ("change", "field", "expected"),
        [
            (JobChange(job=JobId(9), gpus=1), "job", "one that has not ended"),
            (JobChange(job=JobId(1), gpu_models=("H100",)), "gpu_models", "one of: V100"),
            (JobChange(job=JobId(1), virtual_cluster="x"), "virtual_cluster", "one of: research"),
            (NodeChange(node="n", schedulable=False), "node", "one of: node-0001"),
            (
                GuaranteeChange(virtual_cluster="research", gpu_model="V100", more_gpus=1),
                "more_gpus",
                "at most 0",
            ),
            (
                GuaranteeChange(virtual_cluster="research", gpu_model="K80", more_gpus=1),
                "gpu_model",
                "one of: V100",
            ),
        ],
    )
    def test_each_names_the_field_and_what_would_be_right(
        self, change: JobChange | NodeChange | GuaranteeChange, field: str, expected: str
    ) -> None:
        with pytest.raises(ChangeError) as caught:
            what_if(make_snapshot(jobs=[make_job(1)]), [change])
        assert (caught.value.field, caught.value.expected) == (field, expected)

    def test_a_job_of_several_tasks_has_no_single_size(self) -> None:
        tasks = make_job(1, 1).tasks + make_job(1, 2).tasks
        with pytest.raises(ChangeError, match="has 2 tasks"):
            what_if(make_snapshot(jobs=[make_job(1, tasks=tasks)]), [JobChange(job=JobId(1), gpus=2)])


def test_far_ahead_a_little_is_no_difference() -> None:
    jobs = [
        make_job(number, 8, time_limit_seconds=HOUR, estimate_seconds=600.0 if number > 1 else 60.0)
        for number in range(1, 41)
    ]
    change = JobChange(job=JobId(1), gpus=4)
    facts = make_snapshot(jobs=jobs)
    # On half the GPUs it runs a minute longer, and so everybody else is a minute later.
    exact = what_if(facts, [change], bounds=Bounds(rounds_to_double=None))
    assert len(exact.later) == 39
    coarse = what_if(facts, [change], bounds=Bounds(exact_rounds=8, rounds_to_double=4))
    assert {JobId(2), JobId(3)} <= {effect.job for effect in coarse.later}
    assert JobId(40) not in {effect.job for effect in coarse.later}
