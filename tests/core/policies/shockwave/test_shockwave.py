"""A market of the coming rounds: what is planned, what is kept to, and what a forecast changes."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plan import ActionKind, Plan
from scheduler.core.model.snapshot import Job, Running, Snapshot
from scheduler.core.model.training import Regime, Training
from scheduler.core.round.decide import decide
from scheduler.core.round.registry import make_policy
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Phase
from tests.builders import (
    NOW,
    make_cluster,
    make_job,
    make_node,
    make_running,
    make_snapshot,
    make_virtual_cluster,
)
from tests.core.policies.ideal_loop import IdealLoop
from tests.core.sim.worlds import arrival, cluster

#: Rounds of 100 s, four at a time, and nothing for the longest run unless a test says so.
PARAMETERS: dict[str, Any] = {"horizon_rounds": 4, "round_seconds": 100.0, "makespan_weight": 0.0}
#: Nobody is ever late.
PATIENT: dict[str, Any] = {"fairness_bound": 1e6}


def market(*jobs: Job, gpus: int = 1, running: tuple[Running, ...] = (), **parameters: Any) -> Snapshot:
    """One node, all of it guaranteed."""
    vc = make_virtual_cluster(
        guaranteed={"V100": gpus}, policy="shockwave", policy_parameters={**PARAMETERS, **parameters}
    )
    return make_snapshot(
        nodes=[make_node(1, gpus=gpus)], jobs=jobs, running=running, virtual_clusters=[vc], round_seconds=0.0
    )


def job(number: int, seconds: float, gpus: int = 1, **fields: Any) -> Job:
    return make_job(number, gpus, submitted_at=NOW, estimate_seconds=seconds, **fields)


def trained(number: int, epochs: float, *regimes: tuple[int, float, float], **fields: Any) -> Job:
    """`regimes` are (batch size, epochs done, seconds of an epoch); the job is at the last of them."""
    listed = [Regime(batch_size=size, epochs=done, epoch_seconds=each) for size, done, each in regimes]
    training = Training(epochs=epochs, batch_size=regimes[-1][0] if regimes else 0, regimes=tuple(listed))
    return job(number, 1e5, training=training, **fields)


def decided(snapshot: Snapshot) -> Plan:
    plan = decide(snapshot)
    assert not plan.degraded
    return plan


def acts(plan: Plan) -> dict[int, ActionKind]:
    return {number: action.kind for action in plan.actions for number in action.jobs}


def rounds_of(plan: Plan, number: int) -> list[int]:
    """Return the rounds that the plan of the virtual cluster gives a job."""
    runs = plan.memory["research"]["plan"]["runs"]
    return sorted(place for jobs in runs.values() for place in jobs.get(str(number), []))


def after(snapshot: Snapshot, plan: Plan, seconds: float, *running: Running, **fields: Any) -> Snapshot:
    return replace(
        snapshot,
        now=snapshot.now + seconds,
        round_number=snapshot.round_number + 1,
        memory=plan.memory,
        running=running,
        **fields,
    )


def test_a_small_example_by_hand() -> None:
    """Three jobs of two rounds on one GPU, all planned together: they run in turn, and none is stopped."""
    seconds = dict.fromkeys((1, 2, 3), 200.0)
    loop = IdealLoop(market(*[job(number, 200.0) for number in seconds], horizon_rounds=6), seconds)
    loop.run()
    assert loop.ended == {1: 200.0, 2: 400.0, 3: 600.0}


def test_what_a_job_will_do_later_counts_now() -> None:
    """Two jobs have trained 10 of 40 epochs. The first has 30 x 19 s left.

    The second has 30 x 20 s left if it stays as it is, and gains less by the one round there is. If it has
    grown, and does an epoch in 4 s now, 15 of 30 will be so: it has 360 s left, and gains more.
    """
    steady, as_slow = trained(1, 40, (32, 10, 19.0)), trained(2, 40, (32, 5, 20.0), (64, 5, 20.0))
    grown = trained(2, 40, (32, 5, 20.0), (64, 5, 4.0))
    assert list(acts(decided(market(steady, as_slow, horizon_rounds=1, **PATIENT)))) == [1]
    assert list(acts(decided(market(steady, grown, horizon_rounds=1, **PATIENT)))) == [2]


def test_the_longest_run_has_rounds_for_its_sake() -> None:
    jobs = [job(1, 400.0), job(2, 40_000.0)]
    assert len(rounds_of(decided(market(*jobs, **PATIENT)), 2)) == 0
    assert len(rounds_of(decided(market(*jobs, **PATIENT, makespan_weight=1.0)), 2)) == 4


def test_who_has_waited_too_long_goes_first() -> None:
    late = replace(job(2, 40_000.0), submitted_at=NOW - 200_000)
    jobs = [job(1, 400.0), late]
    assert len(rounds_of(decided(market(*jobs, **PATIENT)), 2)) == 0
    plan = decided(market(*jobs))
    assert rounds_of(plan, 2) == [0, 1, 2, 3]
    assert acts(plan) == {2: ActionKind.START}


def test_a_plan_is_kept_to_between_its_rounds() -> None:
    snapshot = market(job(1, 200.0), job(2, 50_000.0), **PATIENT)
    first = decided(snapshot)
    assert (rounds_of(first, 1), rounds_of(first, 2)) == ([0, 1], [2, 3])
    assert first.wake_at == NOW + 100
    holds = make_running(1, [100], since=NOW)
    for seconds in (1.0, 50.0, 99.0):
        plan = decided(after(snapshot, first, seconds, holds))
        assert plan.actions == ()
        assert plan.memory == first.memory
        assert plan.wake_at == NOW + 100
    second = decided(after(snapshot, first, 100.0, holds))
    assert second.actions == ()
    third = decided(after(snapshot, second, 100.0 + 100.0, holds))
    assert acts(third) == {1: ActionKind.STOP, 2: ActionKind.START}
    assert [reason.code for reason in first.reasons[2]][-1] == "later_round"
    assert "4 min" in first.reasons[2][-1].message


def test_a_newcomer_waits_for_the_end_of_the_round_and_has_idle_gpus_at_once() -> None:
    snapshot = market(job(1, 5_000.0), job(2, 5_000.0), **PATIENT)
    first = decided(snapshot)
    (runs,) = acts(first)
    urgent = job(3, 100.0, priority=5)
    jobs = (*snapshot.jobs, urgent)
    holds = make_running(runs, [100], since=NOW)
    assert decided(after(snapshot, first, 50.0, holds, jobs=jobs)).actions == ()
    plan = decided(after(snapshot, first, 100.0, holds, jobs=jobs))
    assert acts(plan) == {3: ActionKind.START, runs: ActionKind.STOP}
    # Were there another GPU, it would not have had to wait.
    wider = market(*jobs, gpus=2)
    ran = decided(after(wider, first, 50.0, holds))
    assert ran.actions
    assert ActionKind.STOP not in acts(ran).values()


@pytest.mark.parametrize(
    "changed",
    [
        lambda snapshot: {"jobs": snapshot.jobs[1:]},
        lambda snapshot: {"jobs": (*snapshot.jobs, job(9, 50.0))},
        lambda snapshot: {"jobs": (snapshot.jobs[0], trained(2, 10, (64, 0, 20.0)), *snapshot.jobs[2:])},
        lambda snapshot: {"nodes": (*snapshot.nodes, make_node(2, gpus=1))},
    ],
    ids=["one ended", "one came", "a batch size changed", "GPUs changed"],
)
def test_it_plans_anew_when_facts_change(changed: Callable[[Snapshot], dict[str, Any]]) -> None:
    jobs = [job(1, 5_000.0), trained(2, 10, (32, 0, 50.0)), *[job(number, 5_000.0) for number in (3, 4, 5)]]
    vc = make_virtual_cluster(guaranteed={"V100": 3}, policy="shockwave", policy_parameters=PARAMETERS)
    snapshot = replace(market(*jobs, gpus=2), virtual_clusters=(vc,))
    first = decided(snapshot)
    held = [action for action in first.actions if action.placement]
    running = [make_running(act.jobs[0], act.placement.gpus, since=NOW) for act in held if act.placement]
    again = decided(after(snapshot, first, 100.0, *running))
    assert again.memory["research"]["plan"]["at"] == NOW
    later = after(snapshot, first, 100.0, *running)
    fields = changed(later)
    present = {each.id for each in fields.get("jobs", later.jobs)}
    left = tuple(each for each in running if set(each.jobs) <= present)
    renewed = decided(replace(later, running=left, **fields))
    assert renewed.memory["research"]["plan"]["at"] == NOW + 100


def test_who_runs_longest_has_what_is_left() -> None:
    """A gang of two and three jobs of one GPU on three GPUs: with the gang one is idle, for the longest."""
    jobs = [job(1, 300.0, gpus=2, priority=1), job(2, 500.0), job(3, 900.0), job(4, 700.0)]
    plan = decided(market(*jobs, gpus=3, horizon_rounds=1, **PATIENT, makespan_weight=10.0))
    assert acts(plan) == {1: ActionKind.START, 3: ActionKind.START}


def test_a_gang_runs_on_the_model_that_was_planned() -> None:
    """Both are as fast on the V100; the second runs five times slower on the P100, the first as fast."""
    jobs = [
        job(1, 5_000.0, throughput={"V100": 10.0, "P100": 10.0}),
        job(2, 5_000.0, throughput={"V100": 10.0, "P100": 2.0}),
        job(3, 90_000.0, throughput={"V100": 10.0, "P100": 1.0}),
    ]
    vc = make_virtual_cluster(
        guaranteed={"V100": 1, "P100": 1},
        policy="shockwave",
        policy_parameters={**PARAMETERS, **PATIENT},
    )
    nodes = [make_node(1, gpus=1), make_node(2, gpus=1, gpu_model="P100")]
    plan = decided(make_snapshot(nodes=nodes, jobs=jobs, virtual_clusters=[vc], round_seconds=0.0))
    placed = {act.jobs[0]: act.placement.gpu_model for act in plan.actions if act.placement}
    assert placed == {1: "P100", 2: "V100"}


def test_who_may_not_stay_where_it_runs_moves() -> None:
    picky = replace(job(1, 5_000.0), gpu_models=("P100",))
    jobs = [picky, job(2, 5_000.0), job(3, 5_000.0)]
    vc = make_virtual_cluster(
        guaranteed={"V100": 1, "P100": 1}, policy="shockwave", policy_parameters=PARAMETERS
    )
    nodes = [make_node(1, gpus=1), make_node(2, gpus=1, gpu_model="P100")]
    holds = make_running(1, [100], since=NOW)
    snapshot = make_snapshot(
        nodes=nodes, jobs=jobs, running=[holds], virtual_clusters=[vc], round_seconds=0.0
    )
    plan = decided(snapshot)
    assert acts(plan)[1] is ActionKind.MOVE
    assert len(acts(plan)) == 2


def test_a_job_that_runs_nowhere_waits_and_says_so() -> None:
    plan = decided(market(job(1, 50.0), job(2, 50.0), job(3, 9.0, throughput={"V100": 0.0})))
    assert "no_model_runs_it" in [reason.code for reason in plan.reasons[3]]


NAN = math.nan


@pytest.mark.parametrize(
    "bad",
    [
        trained(1, 10),
        trained(1, 10, (32, 20.0, 5.0)),
        trained(1, 10, (32, 1.0, 0.0)),
        trained(1, NAN, (32, NAN, NAN)),
        trained(1, -5, (32, -1.0, 5.0)),
        trained(1, 10, (32, 1e300, 1e300)),
        trained(1, 1e12, (0, 0.0, 1e12)),
        job(1, 0.0),
        job(1, 1e300),
        job(1, 50.0, throughput={"V100": NAN}),
        replace(job(1, 50.0), submitted_at=NOW + 1e6),
        replace(job(1, 50.0), submitted_at=0.0),
    ],
    ids=[
        "no regimes", "more done than there is", "no time", "not a number", "negative", "absurd", "endless",
        "no estimate", "absurd estimate", "no speed", "from the future", "ancient",
    ],
)  # fmt: skip
def test_facts_that_make_no_sense_are_never_fatal(bad: Job) -> None:
    snapshot = market(bad, job(2, 300.0), job(3, 300.0), makespan_weight=0.001)
    plan = decided(snapshot)
    assert list(acts(plan).values()) == [ActionKind.START]
    assert json.loads(json.dumps(plan.memory)) == plan.memory
    (runs,) = acts(plan)
    for seconds in (50.0, 100.0, 200.0):
        decided(after(snapshot, plan, seconds, make_running(runs, [100], since=NOW)))


def test_a_plan_is_computed_where_the_caller_wants_it() -> None:
    asked = []

    def elsewhere(function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        asked.append(function)
        sent = pickle.loads(pickle.dumps((function, arguments, keywords)))
        return pickle.loads(pickle.dumps(sent[0](*sent[1], **sent[2])))

    snapshot = market(job(1, 500.0), job(2, 500.0))
    assert decide(snapshot, elsewhere) == decide(snapshot)
    assert len(asked) == 1
    # Where all have a place nothing is computed.
    decide(market(job(1, 500.0)), elsewhere)
    assert len(asked) == 1


def test_hardly_anyone_ends_later_than_with_an_even_share() -> None:
    """Eight jobs on two GPUs, the longest first: with its share each takes four times as long as alone."""

    def latest(policy: str, **parameters: Any) -> float:
        arrivals = [arrival(number, 0.0, 300.0 * (9 - number)) for number in range(1, 9)]
        engine = Engine(cluster(2, policy=policy, parameters=parameters), arrivals, Rules())
        assert engine.run() == ""
        return max(
            (progress.ended_at or 0.0) / (4 * progress.truth.work_seconds)
            for progress in engine.progress.values()
        )

    assert latest("shockwave", round_seconds=60.0) < 1.25
    assert latest("fifo") > 2.0


def test_a_job_that_speeds_up_ends_when_it_should() -> None:
    phases = (
        Phase(batch_size=32, epochs=10, epoch_seconds=20),
        Phase(batch_size=64, epochs=10, epoch_seconds=5),
    )
    regimes = tuple(Regime(batch_size=each.batch_size, epoch_seconds=each.epoch_seconds) for each in phases)
    arrivals = []
    for number in range(1, 7):
        plain = arrival(number, 0.0, 250.0, training=Training(epochs=20, batch_size=32, regimes=regimes))
        arrivals.append(replace(plain, truth=replace(plain.truth, phases=phases)))
    engine = Engine(cluster(2, policy="shockwave", parameters={"round_seconds": 50.0}), arrivals, Rules())
    assert engine.run() == ""
    # Two GPUs are never idle while there is work for both.
    assert max(progress.ended_at or 0.0 for progress in engine.progress.values()) == pytest.approx(750.0)


@pytest.mark.parametrize(
    "text",
    [
        "horizon_rounds=0", "horizon_rounds=2000", "round_seconds=0", "round_seconds=nan",
        "makespan_weight=-1", "makespan_weight=9223372036854775808",
        "fairness_power=-1", "fairness_bound=0", "solve_seconds=0",
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_in_words(text: str) -> None:
    with pytest.raises(UnknownPlugin, match=text.partition("=")[0]):
        make_policy(f"shockwave:{text}")


def test_a_plan_of_another_policy_or_from_the_future_is_none() -> None:
    snapshot = market(job(1, 500.0), job(2, 500.0))
    plan = decided(snapshot)
    other = {"research": {"policy": "tiresias", "plan": "nonsense", "fair_ends": 7}}
    assert decided(replace(snapshot, memory=other)).actions == plan.actions
    earlier = replace(snapshot, now=NOW - 1_000, memory=plan.memory)
    assert decided(earlier).memory["research"]["plan"]["at"] == NOW - 1_000


def test_nodes_of_several_sizes_are_filled() -> None:
    """Gangs of four on three nodes of four: three run at a time, in any round."""
    vc = make_virtual_cluster(guaranteed={"V100": 12}, policy="shockwave", policy_parameters=PARAMETERS)
    jobs = [job(number, 1_000.0, gpus=4) for number in range(1, 8)]
    plan = decided(
        make_snapshot(nodes=make_cluster(3, gpus=4), jobs=jobs, virtual_clusters=[vc], round_seconds=0.0)
    )
    assert len(acts(plan)) == 3
