"""Jobs that change their batch size as they run: what happens, and what the scheduler sees of it."""

from __future__ import annotations

import random
from dataclasses import astuple, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.model.plan import Plan
from scheduler.core.model.snapshot import JobId
from scheduler.core.model.training import Regime, Training
from scheduler.core.sim.batch_sizes import Schedule
from scheduler.core.sim.costs import Costs
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.failures import Failures
from scheduler.core.sim.rules import Rules
from scheduler.core.sim.workload import Arrival, Phase
from tests.core.sim.worlds import arrival, cluster, ends, rules, simulate, two_models, workloads
from tests.effort import examples

#: Ten epochs of 10 s, then twenty of 4 s with twice the batch size, then five of 10 s again.
PHASES = (
    Phase(batch_size=32, epochs=10, epoch_seconds=10),
    Phase(batch_size=64, epochs=20, epoch_seconds=4),
    Phase(batch_size=32, epochs=5, epoch_seconds=10),
)
BEGUN = Training(
    epochs=35,
    batch_size=32,
    regimes=(Regime(batch_size=32, epoch_seconds=10), Regime(batch_size=64, epoch_seconds=4)),
)
SECONDS = 230.0


def changing(number: int, at: float = 0.0, **fields: object) -> Arrival:
    """A job that goes through the phases above."""
    plain = arrival(number, at, SECONDS, training=BEGUN, **fields)
    return replace(plain, truth=replace(plain.truth, phases=PHASES))


def seen(training: Training | None) -> tuple[int, ...]:
    assert training is not None
    return training.batch_size, *[round(regime.epochs, 6) for regime in training.regimes]


@pytest.mark.parametrize(
    ("done_seconds", "expected"),
    [
        (0.0, (32, 0, 0)),
        (25.0, (32, 2.5, 0)),
        (100.0, (64, 10, 0)),
        (140.0, (64, 10, 10)),
        (200.0, (32, 12, 20)),
        (230.0, (32, 15, 20)),
    ],
)
def test_epochs_add_up_by_batch_size(done_seconds: float, expected: tuple[float, ...]) -> None:
    assert seen(Schedule(BEGUN, PHASES, SECONDS).at(done_seconds)) == expected


def test_changes_come_in_their_order() -> None:
    schedule = Schedule(BEGUN, PHASES, SECONDS)
    assert [schedule.next_change(done) for done in (0.0, 99.0, 100.0, 179.0, 180.0, 230.0)] == [
        100.0, 100.0, 180.0, 180.0, None, None,
    ]  # fmt: skip


@given(done_seconds=st.floats(0, SECONDS), first=st.integers(0, 10))
def test_nothing_is_seen_of_what_is_to_come(done_seconds: float, first: int) -> None:
    """With another future, the facts up to the first change are the same."""
    other = (PHASES[0], Phase(batch_size=128, epochs=first + 1, epoch_seconds=1))
    begun = replace(BEGUN, regimes=BEGUN.regimes[:1])
    facts = [Schedule(begun, phases, 1.0).at(min(done_seconds, 99.0)) for phases in (PHASES, other)]
    assert facts[0] == facts[1]
    # One that was not known is from when it is used.
    assert [regime.batch_size for regime in Schedule(begun, other, 1.0).at(100.0).regimes] == [32, 128]


def test_a_job_known_in_the_middle_goes_on_as_it_is() -> None:
    begun = replace(BEGUN, regimes=(Regime(batch_size=32, epochs=30, epoch_seconds=10),))
    schedule = Schedule(begun, (), 100.0)
    assert seen(schedule.at(60.0)) == (32, 33.0)
    assert schedule.next_change(0.0) is None


@pytest.mark.parametrize("epochs", [0.0, -1.0, float("nan"), float("inf"), 3.0])
def test_facts_that_make_no_sense_stay_as_they_are(epochs: float) -> None:
    begun = Training(
        epochs=epochs, batch_size=32, regimes=(Regime(batch_size=32, epochs=5, epoch_seconds=1),)
    )
    schedule = Schedule(begun, (), 100.0)
    assert schedule.at(50.0) is begun
    assert schedule.next_change(0.0) is None


def facts_by_instant(arrivals: list[Arrival], **rule: object) -> dict[float, tuple[int, ...]]:
    """Return what is seen of job 1 in each round."""
    found: dict[float, tuple[int, ...]] = {}

    def note(engine: Engine, outcomes: object, plan: Plan) -> None:
        if JobId(1) in engine.round_engine.facts.jobs:
            found[engine.now] = seen(engine.round_engine.facts.jobs[JobId(1)].training)

    engine = Engine(cluster(8), arrivals, Rules(**rule), on_round=note)  # type: ignore[arg-type]
    assert engine.run() == ""
    return found


def test_a_round_is_asked_for_when_the_batch_size_changes() -> None:
    assert facts_by_instant([changing(1)]) == {0.0: (32, 0, 0), 100.0: (64, 10, 0), 180.0: (32, 10, 20)}


def test_it_goes_on_where_it_was_after_a_preemption() -> None:
    """A job of higher priority has all GPUs from 120 s on, for 50 s; starting again costs 10 s."""
    arrivals = [changing(1, gpus=8), arrival(2, 120.0, 50.0, gpus=8, priority=1)]
    engine = simulate(cluster(8, policy="las"), arrivals, costs=Costs(start_seconds=10))
    assert ends(engine) == {1: 10 + SECONDS + 60 + 10, 2: 180.0}


def test_what_a_failure_loses_was_not_trained() -> None:
    """Attempts fail; what they leave is in checkpoints of every 30 s."""
    failures = Failures(probability=0.9, mean_seconds=1_000, backoff_seconds=1, retries=9)
    work = set()
    for seed in range(40):
        costs = Costs(interval_seconds=30)
        instants = facts_by_instant([changing(1)], failures=failures, costs=costs, seed=seed)
        work |= {round(10 * small + 4 * large, 6) for _, small, large in instants.values()}
    # A round comes after a failure, when it is tried again, and when the batch size changes.
    assert {each % 30 for each in work - {100.0, 180.0}} == {0.0}
    assert work - {0.0, 100.0, 180.0}


def with_epochs(each: Arrival) -> Arrival:
    """Return the same job, that tells of four epochs with one batch size."""
    seconds = each.truth.work_seconds
    regime = Regime(batch_size=8, epoch_seconds=seconds / 4)
    phase = Phase(batch_size=8, epochs=4, epoch_seconds=seconds / 4)
    return Arrival(
        job=replace(each.job, training=Training(epochs=4, batch_size=8, regimes=(regime,))),
        truth=replace(each.truth, phases=(phase,)),
    )


def stays(policy: str, arrivals: list[Arrival], world: Rules) -> list[tuple[object, ...]]:
    engine = Engine(two_models(policy), arrivals, world)
    assert engine.run(until=lambda engine: engine.now > 100_000) == ""
    assert not engine.degraded
    return [astuple(stay) for stay in engine.stays]


@settings(max_examples=examples(8), derandomize=True)
@given(arrivals=workloads(), world=rules, policy=st.sampled_from(("fifo", "las", "srtf")))
def test_with_one_batch_size_it_is_a_job_like_any_other(
    arrivals: list[Arrival], world: Rules, policy: str
) -> None:
    assert stays(policy, arrivals, world) == stays(policy, [with_epochs(each) for each in arrivals], world)


@pytest.mark.parametrize("seed", range(2))
def test_so_it_is_for_a_policy_that_looks_at_epochs(seed: int) -> None:
    """Its exact estimate says of it what its epochs say."""
    dice = random.Random(seed)
    arrivals = [
        arrival(number, float(dice.randrange(0, 600)), dice.uniform(60, 900), dice.choice((1, 2, 4, 8)))
        for number in range(1, 16)
    ]
    plain, by_epochs = (
        stays("shockwave", jobs, Rules()) for jobs in (arrivals, [*map(with_epochs, arrivals)])
    )
    assert any("preempted" in stay for stay in plain)
    for stay, other in zip(plain, by_epochs, strict=True):
        # The times are sums of the same parts in another order.
        for value, same in zip(stay, other, strict=True):
            assert value == (pytest.approx(same) if isinstance(same, float) else same)
