"""AlloX: the optimum over all schedules, who waits for which model, gangs, the fairness filter, odd speeds.

V100 and K80 are the models here. A job's run times are stated as (on V100, on K80), in seconds.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plan import Plan, Reason
from scheduler.core.model.snapshot import Job, Node, Running, Snapshot
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import make_policy
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.speeds import Speeds
from scheduler.core.sim.workload import Arrival, Truth
from tests.builders import NOW, make_job, make_node, make_running, make_snapshot, make_virtual_cluster
from tests.core.policies.allox.test_matching import least_sum

INF = float("inf")
MODELS = ("V100", "K80")


def speeds(times: Sequence[float]) -> dict[str, float]:
    """Throughput by which a job takes so long on each model."""
    return {
        model: 0.0 if seconds == INF else 1 / seconds for model, seconds in zip(MODELS, times, strict=True)
    }


def job(number: int, times: Sequence[float], gpus: int = 1, **fields: Any) -> Job:
    """A job whose estimate holds on its fastest model."""
    fields = {"throughput": speeds(times), "estimate_seconds": min(times), **fields}
    return make_job(number, gpus, application=f"kind-{number}", **fields)


def cluster(v100: int = 1, k80: int = 1) -> tuple[Node, ...]:
    nodes = make_node(1, gpus=v100), make_node(2, gpus=k80, gpu_model="K80")
    return tuple(node for node in nodes if node.gpus)


def snapshot(
    jobs: Sequence[Job],
    *,
    nodes: Sequence[Node] | None = None,
    running: Sequence[Running] = (),
    policy: str = "allox",
    **parameters: object,
) -> Snapshot:
    nodes = cluster() if nodes is None else nodes
    guaranteed: dict[str, int] = {}
    for node in nodes:
        guaranteed[node.gpu_model] = guaranteed.get(node.gpu_model, 0) + len(node.gpus)
    vc = make_virtual_cluster(guaranteed=guaranteed, policy=policy, policy_parameters=parameters)
    return make_snapshot(nodes=nodes, jobs=jobs, running=running, virtual_clusters=[vc])


def started(plan: Plan) -> dict[int, str]:
    """The model on which each job starts."""
    assert not plan.degraded
    return {
        action.jobs[0]: action.placement.gpu_model for action in plan.actions if action.placement is not None
    }


def reason(plan: Plan, code: str) -> dict[int, Reason]:
    return {job: why for job, reasons in plan.reasons.items() for why in reasons if why.code == code}


@dataclass(frozen=True)
class Table:
    """Run times as the simulator's table of rates, relative to the fastest model."""

    times: Mapping[str, Sequence[float]]

    def rate(self, application: str, gpus: int, gpu_model: str, of_gpus: int | None = None) -> float:
        times = self.times[application]
        return min(times) / times[MODELS.index(gpu_model)]

    def locality(self, application: str, gpus: int, nodes: int) -> None:
        return None

    def interference(self, application: str, other: str, gpu_model: str, gpus: int = 1) -> None:
        return None

    def among(self, application: str, others: Sequence[str], gpu_model: str, gpus: int = 1) -> None:
        return None


def play(
    times: Sequence[Sequence[float]],
    *,
    nodes: Sequence[Node] | None = None,
    policy: str = "allox",
    widths: Sequence[int] = (),
    tenants: Sequence[str] = (),
    arrivals: Sequence[float] = (),
) -> dict[int, float]:
    """Simulate jobs, rounds following every event; return when each ended."""
    jobs = [
        job(
            number,
            row,
            widths[number - 1] if widths else 1,
            tenant=tenants[number - 1] if tenants else "vision",
            submitted_at=arrivals[number - 1] if arrivals else 0.0,
        )
        for number, row in enumerate(times, start=1)
    ]
    table = Table({f"kind-{number}": row for number, row in enumerate(times, start=1)})
    facts = replace(snapshot((), nodes=nodes, policy=policy), now=0.0, round_seconds=0.0)
    arriving = [Arrival(job=one, truth=Truth(work_seconds=one.estimate_seconds or 0.0)) for one in jobs]
    engine = Engine(facts, arriving, Rules(speeds=Speeds(tables=table)))
    assert engine.run() == ""
    assert not engine.degraded
    assert all(record.preemptions == 0 for record in engine.records() if policy == "allox")
    return {record.id: record.ended_at or 0.0 for record in engine.records()}


class TestTheBestSchedule:
    times = ((4.0, 6.0), (4.0, 20.0), (5.0, 25.0))

    def test_each_job_on_the_model_that_is_best_for_all(self) -> None:
        """The cases of section 2, in numbers of ours: one job gives way to those that gain more.

        The best model for each: 4 + 8 + 13 = 25 s. The shortest first wherever something is idle: 4 + 20 + 9
        = 33 s. AlloX: 6 + 4 + 9 = 19 s.
        """
        assert play(self.times) == {1: 6.0, 2: 4.0, 3: 9.0}
        assert play(self.times, policy="sjf") == {1: 4.0, 2: 20.0, 3: 9.0}

    @pytest.mark.parametrize("seed", range(25))
    def test_is_the_best_of_all_schedules(self, seed: int) -> None:
        dice = random.Random(seed)
        v100, k80 = dice.choice(((1, 1), (2, 1), (1, 2), (2, 2)))
        times = [(float(dice.randint(1, 20)), float(dice.randint(1, 60))) for _ in range(dice.randint(1, 5))]
        ends = play(times, nodes=cluster(v100, k80))
        lanes = [[0.0] * v100, [0.0] * k80]
        assert sum(ends.values()) == pytest.approx(least_sum([list(row) for row in times], lanes))

    def test_with_one_model_it_is_the_shortest_job_first(self) -> None:
        times = [(float(seconds), INF) for seconds in (9, 4, 7, 1, 3, 12, 5, 2)]
        nodes = cluster(3, 0)
        assert sum(play(times, nodes=nodes).values()) == sum(play(times, nodes=nodes, policy="sjf").values())

    def test_newcomers_change_the_plan_but_not_what_runs(self) -> None:
        """Job 2 would have followed job 1 on the V100; job 3 goes in between, and job 2 takes the K80."""
        times = ((10.0, 90.0), (20.0, 35.0), (3.0, 90.0))
        assert play(times[:2]) == {1: 10.0, 2: 30.0}
        assert play(times, arrivals=(0.0, 0.0, 5.0)) == {1: 10.0, 2: 33.0, 3: 13.0}


class TestWaitingForAModel:
    """A job holds the V100, and has 100 s to run."""

    holder = job(9, (700.0, 700.0))

    def plan(self, times: Sequence[float], seconds_run: float = 600.0) -> Plan:
        running = [make_running(self.holder, [100], since=NOW - seconds_run)]
        return decide(snapshot([job(1, times), self.holder], running=running))

    def test_it_starts_on_the_slower_model_when_it_ends_sooner_there(self) -> None:
        assert started(self.plan((50.0, 140.0))) == {1: "K80"}

    def test_it_waits_for_the_faster_one_beside_an_idle_gpu(self) -> None:
        plan = self.plan((50.0, 160.0))
        assert plan.actions == ()
        assert reason(plan, "planned_later")[1].blocking == {"gpu_model": "V100"}
        assert plan.wake_at == NOW + 100

    def test_it_does_not_wait_for_ever_for_what_outlives_its_estimate(self) -> None:
        """It is expected to end within 1, 2, 4, ... minutes of when it should have."""
        plan = self.plan((50.0, 160.0), seconds_run=700.0 + 60.0)
        assert plan.actions == ()
        assert plan.wake_at == NOW + 60
        assert started(self.plan((50.0, 160.0), seconds_run=700.0 + 120.0)) == {1: "K80"}

    def test_nothing_that_runs_is_stopped_or_moved(self) -> None:
        busy = [job(8, (9e5, 9e5)), self.holder]
        running = [make_running(busy[0], [200], gpu_model="K80"), make_running(self.holder, [100])]
        plan = decide(snapshot([job(1, (1.0, 1.0), priority=5), *busy], running=running))
        assert plan.actions == ()
        assert plan.queues["research"] == (1,)


class TestSpeeds:
    def test_without_any_all_models_are_alike(self) -> None:
        jobs = [make_job(number, estimate_seconds=10.0) for number in (1, 2)]
        assert sorted(started(decide(snapshot(jobs))).values()) == ["K80", "V100"]

    def test_an_unknown_model_counts_as_the_slowest_that_is_known(self) -> None:
        """So the K80 is three times slower for job 1, whose speed there nobody knows, and takes job 2."""
        nodes = (*cluster(), make_node(3, gpus=1, gpu_model="P100"))
        known = {"V100": 3.0, "P100": 1.0}
        jobs = [
            make_job(1, throughput=known, estimate_seconds=10.0, gpu_models=MODELS),
            job(2, (10.0, 20.0), gpu_models=MODELS),
        ]
        assert started(decide(snapshot(jobs, nodes=nodes))) == {1: "V100", 2: "K80"}

    def test_a_speed_of_zero_rules_a_model_out(self) -> None:
        plan = decide(snapshot([job(1, (10.0, INF)), job(2, (20.0, INF))]))
        assert started(plan) == {1: "V100"}

    def test_a_job_that_runs_nowhere_waits_and_is_told_why(self) -> None:
        plan = decide(snapshot([make_job(1, throughput={"V100": 0.0, "K80": 0.0}), job(2, (9.0, 9.0))]))
        assert set(started(plan)) == {2}
        assert reason(plan, "no_model_runs_it")[1].available == 0

    @pytest.mark.parametrize("wrong", [-1.0, float("nan"), INF])
    def test_what_is_no_speed_says_nothing(self, wrong: float) -> None:
        odd = make_job(1, throughput={"V100": wrong, "K80": 1.0}, estimate_seconds=10.0)
        plan = decide(snapshot([odd], nodes=cluster(1, 0)))
        assert started(plan) == {1: "V100"}

    @pytest.mark.parametrize("absurd", [1e-300, 1e300])
    def test_absurd_speeds_do_no_harm(self, absurd: float) -> None:
        odd = make_job(1, throughput={"V100": absurd, "K80": 1.0}, estimate_seconds=10.0)
        plan = decide(snapshot([odd, job(2, (10.0, 10.0))]))
        assert set(started(plan)) == {1, 2}

    @pytest.mark.parametrize(("reference", "model"), [("", {}), ("V100", {}), ("K80", {1: "K80"})])
    def test_the_estimate_holds_on_the_reference(self, reference: str, model: dict[int, str]) -> None:
        """160 s on the V100, which is busy for another 600 s, or on the five times slower K80."""
        holder = job(9, (1_200.0, 1_200.0))
        short = job(1, (32.0, 160.0), estimate_seconds=160.0)
        running = [make_running(holder, [100], since=NOW - 600)]
        assert started(decide(snapshot([short, holder], running=running, reference=reference))) == model


class TestGangs:
    def test_gpu_seconds_decide_the_order_on_one_model(self) -> None:
        """A gang of 4 GPUs x 2 s goes before jobs of 9 s on a GPU each, and behind those of 7 s."""
        ends = play([(9.0, INF)] * 4 + [(2.0, INF)], nodes=cluster(4, 0), widths=(1, 1, 1, 1, 4))
        assert list(ends.values()) == [11.0] * 4 + [2.0]
        ends = play([(7.0, INF)] * 4 + [(2.0, INF)], nodes=cluster(4, 0), widths=(1, 1, 1, 1, 4))
        assert list(ends.values()) == [7.0] * 4 + [9.0]

    def test_gangs_of_one_width_are_matched_as_if_they_were_single(self) -> None:
        times = [(float(seconds), 3.0 * seconds) for seconds in (5, 3, 8, 2)]
        wide = play(times, nodes=cluster(8, 8), widths=(4,) * 4)
        assert wide == play(times, nodes=cluster(2, 2))

    def test_a_gang_goes_to_the_slow_model_when_the_fast_one_has_no_room_for_long(self) -> None:
        """Seven V100s are idle, and the eighth is busy for 100 s."""
        holder = job(9, (700.0, 700.0))
        running = [make_running(holder, [107])]
        for seconds, model in ((140.0, {1: "K80"}), (200.0, {})):
            jobs = [job(1, (50.0, seconds), 8), holder]
            assert started(decide(snapshot(jobs, nodes=cluster(8, 8), running=running))) == model

    def test_a_promised_start_is_not_delayed(self) -> None:
        """Six of eight GPUs are busy for 100 s, and a gang of eight is first: who ends by then may pass."""
        holder = job(9, (700.0, INF), 6)
        gang = job(1, (10.0, INF), 8)
        short, long = job(2, (90.0, INF)), job(3, (110.0, INF))
        plan = decide(
            snapshot(
                [gang, short, long, holder],
                nodes=cluster(8, 0),
                running=[make_running(holder, range(100, 106))],
            )
        )
        assert set(started(plan)) == {2}
        assert plan.queues["research"] == (1, 3)

    def test_an_elastic_gang_starts_as_large_as_it_can(self) -> None:
        elastic = make_job(1, replicas=4, elastic=(1, 4), estimate_seconds=10.0)
        plan = decide(snapshot([elastic], nodes=cluster(2, 0)))
        assert [len(action.placement.gpus) for action in plan.actions if action.placement] == [2]


class TestFairness:
    def crowd(self, alpha: float, **held: Any) -> Plan:
        """Tenant vision holds a V100 and wants two more for short jobs; speech wants them for long ones."""
        holder = job(9, (5_000.0, 9_000.0), tenant="vision")
        jobs = [
            *(job(number, (10.0, INF), tenant="vision") for number in (1, 2)),
            *(job(number, (1_000.0, INF), tenant="speech") for number in (3, 4)),
        ]
        running = [make_running(holder, [100])]
        return decide(snapshot([*jobs, holder], nodes=cluster(3, 0), running=running, alpha=alpha))

    def test_without_it_the_short_jobs_go_first(self) -> None:
        assert set(started(self.crowd(1.0))) == {1, 2}

    def test_with_it_the_tenant_that_has_less_goes_first(self) -> None:
        """Speech has nothing, then level with vision: the tie is broken by name."""
        plan = self.crowd(0.5)
        assert set(started(plan)) == {3, 4}
        why = reason(plan, "less_progress_first")
        assert set(why) <= {1, 2}

    def test_no_gpu_is_idle_for_the_sake_of_fairness(self) -> None:
        """Speech has made no progress and its only job does not fit, so vision is let in."""
        jobs = [job(1, (10.0, INF), 8, tenant="speech"), job(2, (10.0, INF), tenant="vision")]
        holder = job(9, (1e6, INF), 6, tenant="vision")
        running = [make_running(holder, range(100, 106))]
        plan = decide(snapshot([*jobs, holder], nodes=cluster(8, 0), running=running, alpha=0.5))
        assert set(started(plan)) == {2}

    def test_progress_counts_less_on_the_slower_model(self) -> None:
        """Both hold one GPU, speech a K80 on which its job is three times slower: speech goes first."""
        held = [job(8, (9_000.0, 27_000.0), tenant="speech"), job(9, (9_000.0, 9_000.0), tenant="vision")]
        running = [make_running(held[0], [200], gpu_model="K80"), make_running(held[1], [100])]
        jobs = [job(1, (10.0, INF), tenant="vision"), job(2, (99.0, INF), tenant="speech"), *held]
        plan = decide(snapshot(jobs, nodes=cluster(2, 1), running=running, alpha=0.5))
        assert set(started(plan)) == {2}

    def test_long_jobs_of_a_tenant_do_not_starve_behind_short_ones_of_another(self) -> None:
        times = [(100.0, INF)] + [(10.0, INF)] * 30
        tenants = ["speech"] + ["vision"] * 30
        arrivals = [0.0] + [9.5 * number for number in range(30)]
        fair = play(times, nodes=cluster(1, 0), policy="allox:alpha=0.5", tenants=tenants, arrivals=arrivals)
        free = play(times, nodes=cluster(1, 0), tenants=tenants, arrivals=arrivals)
        assert fair[1] <= 120 < 390 <= free[1]
        assert sum(free.values()) < sum(fair.values())


class TestBounds:
    def test_a_window_is_planned_after_the_other_while_jobs_start(self) -> None:
        jobs = [job(number, (float(100 - number), INF)) for number in range(1, 31)]
        plan = decide(snapshot(jobs, nodes=cluster(8, 0), window=4))
        assert set(started(plan)) == set(range(23, 31))
        assert plan.queues["research"] == tuple(range(22, 0, -1))

    def test_jobs_that_do_not_fit_leave_the_window_to_others(self) -> None:
        """Half of each node is broken, so that no gang of eight on one node fits, whoever ends."""
        nodes = [make_node(number, broken=range(4)) for number in (1, 2)]
        gangs = [job(number, (1.0, INF), 8) for number in range(1, 6)]
        plan = decide(snapshot([*gangs, job(6, (9.0, INF))], nodes=nodes, window=2))
        assert set(started(plan)) == {6}

    def test_a_higher_priority_is_planned_first_and_the_rest_behind_it(self) -> None:
        """The V100 is the long job's, which would be best served last; the short one does not wait for it."""
        jobs = [job(1, (100.0, 900.0), priority=1), job(2, (10.0, 50.0))]
        assert started(decide(snapshot(jobs))) == {1: "V100", 2: "K80"}
        jobs = [job(1, (100.0, 105.0)), job(2, (10.0, 150.0))]
        assert started(decide(snapshot(jobs))) == {1: "K80", 2: "V100"}

    @pytest.mark.parametrize(
        "text", ["allox:alpha=0", "allox:alpha=1.5", "allox:window=0", "allox:window=2.5", "allox:beta=1"]
    )
    def test_wrong_parameters_are_refused(self, text: str) -> None:
        with pytest.raises(UnknownPlugin):
            make_policy(text)
