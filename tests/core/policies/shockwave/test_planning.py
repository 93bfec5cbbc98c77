"""Who buys which rounds: beside all solutions there are, by the rows of fairness, and in what order."""

from __future__ import annotations

import math
import pickle
import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.policies.shockwave.bidding import Bidder, PlanningWindow
from scheduler.core.policies.shockwave.planning import Timetable, plan
from scheduler.core.policies.shockwave.program import CORNERS, GAP, MOST_WEIGHT, ORIGIN, Program
from tests.core.policies.shockwave.markets import make_bidder, make_market
from tests.effort import examples


def rounds_of(table: Timetable, number: int) -> list[int]:
    return [place for place, runs in enumerate(table) if number in runs]


def gain(market: PlanningWindow, rounds: tuple[int, ...], weights: np.ndarray) -> float:
    """Return the paper's objective of so many rounds for each, above that of none; times jobs and rounds."""
    heights = [math.log(corner or ORIGIN) for corner in CORNERS]
    (bidders,) = market.levels
    total, longest, before = 0.0, 0.0, 0.0
    for bidder, weight, count in zip(bidders, weights, rounds, strict=True):
        run = min(count * market.round_seconds, bidder.left_seconds)
        done = bidder.done + (1 - bidder.done) * run / bidder.left_seconds
        first, then = np.interp((bidder.done, done), CORNERS, heights)
        total += weight * (then - first)
        longest, before = max(longest, bidder.left_seconds - run), max(before, bidder.left_seconds)
    return total + market.makespan_weight * len(bidders) * market.rounds * (before - longest)


@pytest.mark.parametrize("seed", range(20))
def test_no_solution_there_is_is_better(seed: int) -> None:
    dice = random.Random(seed)
    bidders = [
        make_bidder(
            number,
            dice.choice((50.0, 150.0, 400.0, 3_000.0)),
            done=dice.choice((0.0, 0.1, 0.55, 0.9)),
            lateness=dice.choice((0.5, 1.2, 1.5)),
            # Due at once: nobody can end in time, so that lateness counts.
            due_seconds=0.0,
        )
        for number in range(4)
    ]
    market = make_market(bidders, makespan_weight=dice.choice((0.0, 1e-3, 1.0)))
    counts, weights = Program(market, bidders, np.full((4, 1), 2)).solve()
    assert [weight > 1 for weight in weights] == [bidder.lateness > 1 for bidder in bidders]
    found = gain(market, tuple(counts[:, 0]), weights)
    best = max(
        gain(market, rounds, weights)
        for rounds in product(range(5), repeat=4)
        if sum(rounds) <= market.rounds * market.gpus[0]
    )
    assert found >= best - GAP * abs(best) - 1e-6


def test_nobody_ends_later_than_fair_where_that_can_be() -> None:
    """The first gains more by every round. The second is due so early that it needs three of them."""
    first, second = make_bidder(1, 400.0), make_bidder(2, 40_000.0)
    alone = make_market([first, second], gpus=(1,))
    assert len(rounds_of(plan(alone), 1)) == 4
    # With half of the time it ends (40,000 - 300) / 0.5 = 79,400 s after the rounds.
    due = make_bidder(2, 40_000.0, due_seconds=79_800.0)
    assert len(rounds_of(plan(make_market([first, due], gpus=(1,))), 2)) == 3


def test_where_someone_is_late_anyway_the_later_one_counts_more() -> None:
    jobs = [make_bidder(1, 400.0, due_seconds=-1.0), make_bidder(2, 4_000.0, lateness=2.0, due_seconds=-1.0)]
    assert len(rounds_of(plan(make_market(jobs, gpus=(1,))), 2)) == 4


def test_how_late_counts_for_any_power_and_lateness() -> None:
    late = [make_bidder(number, lateness=2.0 + number, due_seconds=-1.0) for number in range(1, 4)]
    market = make_market(late, fairness_power=1_000.0)
    _, weights = Program(market, late, np.full((4, 1), 2)).solve()
    assert weights.tolist() == [1.0, 1.0, pytest.approx(MOST_WEIGHT)]


def test_who_is_late_and_ends_within_a_round_goes_first() -> None:
    jobs = [make_bidder(1, 900.0, lateness=1.9, due_seconds=-1.0)]
    jobs.append(make_bidder(2, 90.0, lateness=1.1, due_seconds=-1.0))
    assert rounds_of(plan(make_market(jobs, gpus=(1,))), 2) == [0]


def test_the_longest_run_counts_by_its_weight() -> None:
    jobs = [make_bidder(1, 400.0), make_bidder(2, 4_000.0)]
    assert len(rounds_of(plan(make_market(jobs, gpus=(1,), makespan_weight=1.0)), 2)) == 4


def test_a_higher_priority_chooses_first() -> None:
    table = plan(make_market([make_bidder(1, 4_000.0)], [make_bidder(2, 200.0)], gpus=(1,)))
    assert [len(rounds_of(table, number)) for number in (1, 2)] == [4, 0]


def test_a_gang_runs_where_it_is_fastest_and_others_where_they_do_not_mind() -> None:
    jobs = [make_bidder(1, 4_000.0, speeds=(1.0, 0.2)), make_bidder(2, 4_000.0, speeds=(1.0, 1.0))]
    table = plan(make_market(jobs, gpus=(1, 1)))
    assert table == [{1: 0, 2: 1}] * 4


def test_who_runs_goes_on() -> None:
    jobs = [make_bidder(1, 200.0), make_bidder(2, 200.0, runs_on=0)]
    table = plan(make_market(jobs, gpus=(1,)))
    assert [rounds_of(table, number) for number in (1, 2)] == [[2, 3], [0, 1]]


def test_a_market_of_nobody_and_one_of_nothing() -> None:
    assert plan(make_market()) == [{}] * 4
    assert plan(make_market([make_bidder(1)], gpus=(0,))) == [{}] * 4
    assert plan(make_market([make_bidder(1, speeds=(0.0,))])) == [{}] * 4


bidders = st.builds(
    lambda number, gpus, left, done, late, speeds: make_bidder(
        number, left, gpus=gpus, done=done, lateness=late, due_seconds=0.0, speeds=speeds
    ),
    number=st.integers(1, 1_000),
    gpus=st.sampled_from((1, 1, 2, 3, 4, 8)),
    left=st.floats(1e-3, 1e6),
    done=st.floats(0, 0.999),
    late=st.floats(0.1, 1e6),
    speeds=st.tuples(st.floats(0, 1), st.just(1.0)),
)


@settings(max_examples=examples(40), derandomize=True)
@given(
    levels=st.lists(st.lists(bidders, min_size=1, max_size=7), min_size=1, max_size=2),
    gpus=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_every_plan_can_be_carried_out(levels: list[list[Bidder]], gpus: tuple[int, int]) -> None:
    unique = {bidder.number: bidder for level in levels for bidder in level}
    market = make_market(
        *[[bidder for bidder in level if unique[bidder.number] is bidder] for level in levels], gpus=gpus
    )
    table = pickle.loads(pickle.dumps(plan))(pickle.loads(pickle.dumps(market)))
    assert table == plan(market)
    assert len(table) == market.rounds
    for runs in table:
        for model in (0, 1):
            used = [unique[number].gpus for number, on in runs.items() if on == model]
            assert sum(used) <= gpus[model]
        assert all(unique[number].speeds[on] > 0 for number, on in runs.items())
