"""Gavel's clock, by examples small enough to follow by hand."""

from __future__ import annotations

import random

import pytest

from scheduler.simulation.gavel.queues import FastestFirst
from scheduler.simulation.gavel.rounds import GavelRounds, Rules
from scheduler.simulation.gavel.splits import IsolatedSplit
from tests.simulation.gavel.worlds import Given, cluster, ends, job, run, starts


def test_a_round_does_whole_steps_and_ends_with_the_last_job() -> None:
    # 0.99 steps a second are 356 whole steps in 360 s, which take 359.6 s; then 44 more.
    outcome = run(cluster(1), [job(0, 400, 0.99)], FastestFirst())
    assert ends(outcome) == [pytest.approx(400 / 0.99)]
    assert outcome.rounds == 2


def test_who_ends_in_a_round_leaves_its_gpu_idle_until_the_round_ends() -> None:
    outcome = run(cluster(2), [job(0, 100), job(0, 1000), job(0, 50)], FastestFirst())
    assert ends(outcome) == [100, 1000, 360 + 50]


def test_shares_are_decided_on_at_most_every_1920_seconds() -> None:
    jobs = [job(0, 7200), job(100, 7200), job(400, 7200)]
    outcome = run(cluster(3), jobs, FastestFirst())
    # The first decision was at 0, which counts as none; the second at 360; 2,160 is too soon for the third.
    assert starts(outcome) == [0, 360, 2520]
    sooner = run(cluster(3), jobs, FastestFirst(), reallocate_seconds=0)
    assert starts(sooner) == [0, 360, 720]


def test_the_clock_jumps_to_the_next_job_when_nothing_runs() -> None:
    outcome = run(cluster(1), [job(0, 100), job(5000, 100)], FastestFirst())
    assert ends(outcome) == [100, 5100]
    # The published code takes the idle time for part of the second round.
    assert outcome.utilisation == 1.0


def test_a_gang_whose_last_steps_are_too_few_fails_at_the_fifth_try() -> None:
    outcome = run(cluster(8), [job(0, 363, gang=8)], FastestFirst())
    course = outcome.courses[0]
    assert course.failed
    assert course.ended_at == 360 + 5 * 3


def test_enough_steps_for_each_gpu_of_a_gang_are_done() -> None:
    outcome = run(cluster(8), [job(0, 369, gang=8)], FastestFirst())
    assert not outcome.courses[0].failed
    assert ends(outcome) == [369]


def test_two_in_a_pair_are_both_as_late_as_the_later_one() -> None:
    where = cluster(1, pairs={(0, 1): [(0.9, 0.9)]})
    outcome = run(where, [job(0, 90, kind=0), job(0, 180, kind=1)], FastestFirst(sharing=True))
    assert ends(outcome) == [200, 200]


def test_a_job_keeps_its_gpu_and_that_is_a_renewed_lease() -> None:
    seen = []
    rounds = GavelRounds(
        cluster(2),
        [job(0, 100), job(0, 1000)],
        FastestFirst(),
        on_turns=lambda now, present, turns: seen.append({turn.unit: turn.lease.gpus for turn in turns}),
    )
    outcome = rounds.run()
    assert seen[:2] == [{(0,): (0,), (1,): (1,)}, {(1,): (1,)}]
    # Of the leases of rounds with somebody left.
    assert (outcome.renewed, outcome.renewable) == (2, 2)


def test_a_start_can_be_made_to_cost() -> None:
    outcome = run(cluster(1), [job(0, 660)], FastestFirst(), start_seconds=60)
    assert ends(outcome) == [720]
    assert outcome.courses[0].starts == 1


def test_models_are_filled_in_order_by_who_knows_speeds_and_shuffled_for_others() -> None:
    used: list[int] = []
    for knows in (True, False):
        rounds = GavelRounds(
            cluster(1, 1, 1),
            [job(0, 3600, 1.0, 1.0, 1.0)],
            Given({(0,): (1 / 3, 1 / 3, 1 / 3)}, knows_speeds=knows),
            Rules(seed=4),
            on_turns=lambda now, present, turns: used.extend(turn.lease.model for turn in turns),
        )
        rounds.run()
    assert used[:10] == [0] * 10
    # The first model of the shuffled ones: each round asks the stream anew.
    shuffler = random.Random(4 + 5)
    first = []
    for _ in range(10):
        order = [0, 1, 2]
        shuffler.shuffle(order)
        first.append(order[0])
    assert used[10:] == first


def test_the_order_of_models_can_be_set_apart_from_the_policy() -> None:
    jobs = [job(0, 3600, 2.0, 1.0, 0.5) for _ in range(3)]
    fixed = run(cluster(2, 2, 2), jobs, IsolatedSplit(), order="fixed")
    published = run(cluster(2, 2, 2), jobs, IsolatedSplit(), seed=1)
    assert fixed.ended_at < published.ended_at


def test_it_ends_when_nobody_can_ever_run() -> None:
    outcome = run(cluster(2), [job(0, 100), job(0, 100, gang=3), job(0, 100)], FastestFirst())
    assert not outcome.complete
    assert ends(outcome) == [100, None, None]


def test_the_same_run_gives_the_same_result() -> None:
    jobs = [job(40 * number, 500 + 30 * number, 1.0, 0.7, 0.2) for number in range(12)]
    outcomes = [run(cluster(2, 1, 1), jobs, IsolatedSplit(), seed=7) for _ in range(2)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] != run(cluster(2, 1, 1), jobs, IsolatedSplit(), seed=8)
