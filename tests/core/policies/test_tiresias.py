"""Tiresias: its worked example, its queues, the Gittins index by hand, promotion, and placement by skew."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Snapshot
from scheduler.core.policies.tiresias import Gittins
from scheduler.core.round.decide import decide
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.policies.ideal_loop import IdealLoop
from tests.core.policies.tiresias_example import SERVICE, average_jct, play_example
from tests.core.sim.worlds import arrival, cluster, ends, simulate
from tests.effort import examples


def tiresias(
    *jobs: Job, holder: Job | None = None, since: float = NOW - 100, **parameters: object
) -> Snapshot:
    """One node of eight GPUs, all of it the holder's; the first queue ends at 1,000 GPU-seconds."""
    parameters.setdefault("thresholds", [1_000.0])
    return make_snapshot(
        jobs=[*jobs, *([holder] if holder else [])],
        running=[make_running(holder, range(100, 108), since=since)] if holder else [],
        virtual_clusters=[make_virtual_cluster(policy="tiresias", policy_parameters=parameters)],
    )


def kinds(plan: Plan) -> dict[int, ActionKind]:
    return {job: action.kind for action in plan.actions for job in action.jobs}


def served(number: int, gpu_seconds: float, gpus: int = 8, **fields: object) -> Job:
    return make_job(number, gpus, attained_service={"V100": gpu_seconds}, attempts=1, **fields)


class TestWorkedExample:
    """Three jobs of 4, 8 and 12 GPU-units on two GPUs. The paper: 9.3 SRSF, 10 2D-Gittins, 11.7 2D-LAS."""

    def test_two_dimensional_gittins_with_two_queues(self) -> None:
        gittins = {"discipline": "gittins", "thresholds": [4.0], "service_samples": list(SERVICE)}
        by_start = play_example("tiresias", inside="start", **gittins)
        assert by_start.ended == {1: 2.0, 2: 12.0, 3: 16.0}
        assert average_jct(by_start) == average_jct(play_example("tiresias", **gittins)) == 10.0

    def test_two_dimensional_las_with_the_same_two_queues_is_as_good(self) -> None:
        """The 11.7 of the paper is 2D-LAS before it is discretised: see the test of `las`."""
        assert average_jct(play_example("tiresias", thresholds=[4.0])) == 10.0

    def test_a_queue_that_ends_too_early_demotes_the_shortest_job(self) -> None:
        loop = play_example("tiresias", inside="start", thresholds=[2.0])
        assert loop.ended == {1: 5.0, 2: 11.0, 3: 16.0}

    def test_a_single_queue_is_first_come_first_served(self) -> None:
        assert play_example("tiresias", thresholds=[]).ended == {1: 2.0, 2: 10.0, 3: 16.0}


class TestQueues:
    def test_a_newcomer_preempts_a_job_of_the_second_queue_but_not_one_of_the_first(self) -> None:
        newcomer = make_job(1, 8)
        late = decide(tiresias(newcomer, holder=make_job(9, 8), since=NOW - 126))
        assert kinds(late) == {1: ActionKind.START, 9: ActionKind.STOP}
        early = decide(tiresias(newcomer, holder=make_job(9, 8), since=NOW - 124))
        assert early.actions == ()
        assert early.reasons[1][-1].code == "queue_of_service"

    def test_it_asks_to_be_woken_at_the_next_demotion(self) -> None:
        plan = decide(tiresias(make_job(1, 8), holder=make_job(9, 8), since=NOW - 100))
        assert plan.wake_at == NOW + 25  # 8 GPUs x 125 s = 1,000 GPU-seconds
        assert decide(tiresias(holder=make_job(9, 8))).wake_at is None

    @pytest.mark.parametrize(
        ("inside", "goes_first", "line"),
        [("running", 9, (1, 2)), ("submission", 1, (9, 2)), ("start", 9, (2, 1))],
    )
    def test_who_goes_first_in_a_queue(self, inside: str, goes_first: int, line: tuple[int, ...]) -> None:
        """Job 1 was submitted first and never started, job 2 has run before, job 9 runs."""
        newcomer = make_job(1, 8, submitted_at=NOW - 3_000)
        preempted = served(2, 8.0, submitted_at=NOW - 1_000)
        holder = served(9, 500.0, submitted_at=NOW - 2_000)
        plan = decide(tiresias(newcomer, preempted, holder=holder, since=NOW - 60, inside=inside))
        assert plan.queues["research"] == line
        assert kinds(plan) == ({} if goes_first == 9 else {1: ActionKind.START, 9: ActionKind.STOP})

    def test_another_order_inside_a_queue_is_refused(self) -> None:
        plan = decide(tiresias(make_job(1), inside="arrival"))
        assert "inside must be running, submission or start" in plan.degraded["research"]

    def test_gpus_count_as_much_as_time(self) -> None:
        """A short job on eight GPUs goes behind a long one on a single GPU."""
        plan = decide(tiresias(served(1, 8 * 130.0), served(2, 900.0, gpus=1)))
        assert plan.queues["research"] == (1,)

    def test_who_was_preempted_keeps_its_turn(self) -> None:
        """Both reach the second queue; job 2 started first and goes on first, though job 3 is older."""
        vc = make_virtual_cluster(
            policy="tiresias", policy_parameters={"thresholds": [40.0], "inside": "start"}
        )
        jobs = [make_job(2, 8), make_job(3, 8, submitted_at=NOW - 20_000)]
        loop = IdealLoop(
            make_snapshot(jobs=jobs, virtual_clusters=[vc]), {2: 20.0, 3: 20.0}, arrivals={3: 2.0}
        )
        loop.run()
        assert loop.stays == [(2, 0.0, 5.0), (3, 5.0, 10.0), (2, 10.0, 25.0), (3, 25.0, 40.0)]

    def test_thresholds_that_do_not_rise_are_refused(self) -> None:
        plan = decide(tiresias(make_job(1), thresholds=[5.0, 4.0]))
        assert "thresholds must rise" in plan.degraded["research"]


class TestGittins:
    samples = Gittins([4.0, 8.0, 12.0])

    @pytest.mark.parametrize(
        ("attained", "delta", "index"),
        [
            (0.0, 4.0, (1 / 3) / 4),  # everyone gets 4, one of three ends
            (0.0, 8.0, (2 / 3) / ((4 + 8 + 8) / 3)),
            (2.0, 4.0, (1 / 3) / ((2 + 4 + 4) / 3)),  # what is left of a sample counts, not all of it
            (4.0, 8.0, 1 / ((4 + 8) / 2)),
            (12.0, 1.0, 0.0),  # beyond the last sample nothing is known
        ],
    )
    def test_by_hand(self, attained: float, delta: float, index: float) -> None:
        assert self.samples.index(attained, delta) == pytest.approx(index)

    def test_without_samples_nothing_is_known(self) -> None:
        assert Gittins([]).index(0.0, 10.0) == 0.0

    def test_in_a_queue_the_likeliest_to_end_soon_goes_first(self) -> None:
        """Most jobs need 900 GPU-seconds: who has 800 of them is nearly through, who has 100 is not."""
        jobs = [served(1, 100.0), served(2, 800.0), served(3, 950.0)]
        plan = decide(tiresias(*jobs, discipline="gittins", service_samples=[900.0] * 9 + [5_000.0]))
        assert kinds(plan) == {2: ActionKind.START}
        assert plan.queues["research"] == (1, 3)

    def test_it_learns_from_the_jobs_that_end(self) -> None:
        vc = make_virtual_cluster(policy="tiresias", policy_parameters={"discipline": "gittins"})
        jobs = [make_job(number, 8) for number in (1, 2)]
        loop = IdealLoop(make_snapshot(jobs=jobs, virtual_clusters=[vc]), {1: 10.0, 2: 20.0})
        loop.run()
        memory = decide(loop.snapshot).memory["research"]
        assert memory["samples"] == pytest.approx([80.0, 160.0])
        assert json.loads(json.dumps(memory)) == memory


class TestPromotion:
    def test_who_waits_too_long_begins_anew_in_the_first_queue(self) -> None:
        """It ran for 125 s and left the first queue; when it has waited for 250 s it is back."""
        old = served(1, 1_000.0)
        snapshot = tiresias(old, make_job(2, 8, priority=1), holder=make_job(9, 8, priority=1), promote=2.0)
        first = decide(snapshot)
        assert first.actions == ()
        waiting = replace(snapshot, memory=first.memory)
        assert decide(waiting).queues["research"] == (2, 1)
        later = replace(waiting, now=NOW + 250.0, jobs=(old, make_job(2, 8)), running=())
        assert kinds(decide(replace(later, now=NOW + 249.0))) == {2: ActionKind.START}
        promoted = decide(later)
        assert kinds(promoted) == {1: ActionKind.START}
        assert promoted.memory["research"]["reset"] == {"1": 1_000.0}

    def test_it_asks_to_be_woken_for_it(self) -> None:
        holder = make_job(9, 8, priority=1, attained_service={"V100": 9_999.0})
        assert decide(tiresias(served(1, 1_000.0), holder=holder, promote=2.0)).wake_at == NOW + 250.0

    def test_without_it_a_job_stays_where_it_is(self) -> None:
        snapshot = tiresias(served(1, 1_000.0), make_job(2, 8))
        later = replace(snapshot, now=NOW + 1e6, memory=decide(snapshot).memory)
        assert kinds(decide(later)) == {2: ActionKind.START}


class TestSkew:
    """Two nodes of eight GPUs with six and two of them taken: four idle GPUs are on no single node."""

    def place(self, **fields: object) -> Plan:
        holders = [make_job(8, 6), make_job(9, 6)]
        job = make_job(1, 1, replicas=4, **fields)
        return decide(
            make_snapshot(
                nodes=make_cluster(2),
                jobs=[job, *holders],
                running=[
                    make_running(holders[0], range(100, 106), since=NOW - 60),
                    make_running(holders[1], range(200, 206), since=NOW - 60),
                ],
                virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 16}, policy="tiresias")],
            )
        )

    def test_a_skewed_gang_waits_for_one_node(self) -> None:
        plan = self.place(skew=0.74)
        assert kinds(plan) == {}
        assert 1 in plan.reasons

    @pytest.mark.parametrize("skew", [None, 0.1])
    def test_others_fill_fragments(self, skew: float | None) -> None:
        assert kinds(self.place(skew=skew)) == {1: ActionKind.START}

    def test_a_skewed_gang_larger_than_a_node_asks_for_one_rack(self) -> None:
        """It needs two nodes; one is idle in each of two racks."""
        nodes = (*make_cluster(5), *make_cluster(3, first=6))
        holders = [make_job(number, 8) for number in (1, 2, 3, 6, 7, 8)]
        snapshot = make_snapshot(
            nodes=nodes,
            jobs=[*holders, make_job(20, 4, replicas=3, skew=0.9)],
            running=[
                make_running(job, range(100 * job.id, 100 * job.id + 8), since=NOW - 60) for job in holders
            ],
            virtual_clusters=[make_virtual_cluster(guaranteed={"V100": 64}, policy="tiresias")],
        )
        assert kinds(decide(snapshot)) == {}
        unskewed = replace(snapshot, jobs=(*holders, make_job(20, 4, replicas=3)))
        assert kinds(decide(unskewed)) == {20: ActionKind.START}


def test_the_more_is_known_the_sooner_jobs_end() -> None:
    """Section E.3 of its checks: on a heavy tail, FIFO is far worse than 2D-LAS, and that than SRSF."""
    dice = random.Random(4)
    shapes = {
        number: (dice.choice((1, 1, 2, 4, 8)), round(dice.lognormvariate(5.0, 1.6)) + 1.0)
        for number in range(1, 61)
    }
    arrivals = {number: 60.0 * number for number in shapes}
    service = [gpus * seconds for gpus, seconds in shapes.values()]

    def mean_jct(policy: str, **parameters: object) -> float:
        vc = make_virtual_cluster(policy=policy, policy_parameters=parameters)
        jobs = [
            make_job(number, gpus, submitted_at=NOW + arrivals[number], estimate_seconds=seconds)
            for number, (gpus, seconds) in shapes.items()
        ]
        loop = IdealLoop(
            make_snapshot(jobs=jobs, virtual_clusters=[vc]),
            {number: seconds for number, (_, seconds) in shapes.items()},
            arrivals,
        )
        loop.run(most_rounds=5_000)
        return sum(loop.ended[number] - arrivals[number] for number in shapes) / len(shapes)

    fifo = mean_jct("fifo", backfill=False)
    las = mean_jct("tiresias", thresholds=[1_000.0])
    gittins = mean_jct("tiresias", thresholds=[1_000.0], discipline="gittins", service_samples=service)
    srsf = mean_jct("srtf", by_service=True)
    assert srsf < min(las, gittins)
    assert max(las, gittins) < 0.7 * fifo


class TestTheAuthorsOrder:
    def test_who_reaches_a_threshold_joins_the_end_of_the_next_queue(self) -> None:
        """When the second reaches it too, the first goes on: it waits there since."""
        facts = cluster(1, policy="tiresias", parameters={"thresholds": [10.0]})
        assert ends(simulate(facts, [arrival(1, 0.0, 30.0), arrival(2, 5.0, 30.0)])) == {1: 40.0, 2: 60.0}

    @settings(max_examples=examples(400), derandomize=True)
    @given(
        st.integers(1, 6),
        st.lists(
            st.tuples(
                st.integers(0, 40), st.sampled_from((4, 12, 30, 60, 100)), st.sampled_from((1, 1, 2, 4))
            ),
            min_size=2,
            max_size=9,
        ),
    )
    def test_jobs_end_when_they_end_by_the_authors_rule(
        self, gpus: int, jobs: list[tuple[int, int, int]]
    ) -> None:
        jobs = sorted((at, seconds, need) for at, seconds, need in jobs if need <= gpus)
        facts = cluster(gpus, policy="tiresias", parameters={"thresholds": list(LIMITS)})
        arrivals = [
            arrival(number, float(at), float(seconds), gpus=need)
            for number, (at, seconds, need) in enumerate(jobs, start=1)
        ]
        expected = by_the_authors_rule(gpus, jobs)
        assert ends(simulate(facts, arrivals)) == {job + 1: at for job, at in expected.items()}


LIMITS = (24, 80)


def by_the_authors_rule(gpus: int, jobs: list[tuple[int, int, int]]) -> dict[int, float]:
    """Lists of jobs, as in the published simulator: (instant, seconds, GPUs) in the order of arrival."""
    lines: list[list[int]] = [[] for _ in range(len(LIMITS) + 1)]
    served, runs, ended = [0.0] * len(jobs), set[int](), dict[int, float]()
    coming, now = list(range(len(jobs))), 0.0
    while len(ended) < len(jobs):
        next_instants = [float(jobs[job][0]) for job in coming[:1]]
        for queue, line in enumerate(lines):
            for job in [job for job in line if job in runs]:
                _, seconds, need = jobs[job]
                next_instants.append(now + seconds - served[job])
                if queue < len(LIMITS):
                    next_instants.append(now + LIMITS[queue] / need - served[job])
        passed, now = min(next_instants) - now, min(next_instants)
        for job in sorted(runs):
            served[job] += passed
        while coming and jobs[coming[0]][0] <= now:
            lines[0].append(coming.pop(0))
        for queue, job in [(queue, job) for queue, line in enumerate(lines) for job in sorted(line)]:
            if job in runs and served[job] >= jobs[job][1]:
                ended[job] = now
                lines[queue].remove(job)
            elif job in runs and queue < len(LIMITS) and served[job] * jobs[job][2] >= LIMITS[queue]:
                lines[queue].remove(job)
                lines[queue + 1].append(job)
        free, runs = gpus, set()
        for job in [job for line in lines for job in line]:
            if jobs[job][2] <= free:
                runs.add(job)
                free -= jobs[job][2]
        lines = [sorted(line, key=lambda job: job not in runs) for line in lines]
    return ended
