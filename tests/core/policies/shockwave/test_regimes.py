"""The forecast of what a job has left whose batch size changes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.training import Regime, Training
from scheduler.core.policies.shockwave.regimes import Outlook, outlook

NAN, INFINITE = math.nan, math.inf


def training(epochs: float, *regimes: tuple[float, float]) -> Training:
    """`regimes` are (epochs done, seconds of an epoch), for batch sizes of 32, 64, ..."""
    listed = [
        Regime(batch_size=32 << place, epochs=done, epoch_seconds=seconds)
        for place, (done, seconds) in enumerate(regimes)
    ]
    return Training(epochs=epochs, batch_size=32, regimes=tuple(listed))


def test_before_anything_was_seen_every_batch_size_is_as_likely() -> None:
    assert outlook(training(40, (0, 10), (0, 4))) == Outlook(done_seconds=0, left_seconds=280, done=0)


def test_a_worked_example_by_hand() -> None:
    """40 epochs, 10 done with the first size: 20 + 10 and 20 of 50, 24 and 16 of 40; 14 and 16 are left."""
    found = outlook(training(40, (10, 10), (0, 4)))
    assert found == Outlook(done_seconds=100, left_seconds=pytest.approx(14 * 10 + 16 * 4), done=0.25)


def test_of_what_was_seen_less_more_is_to_come() -> None:
    """The parts are expected to be between equal ones and those seen."""
    few, many = outlook(training(40, (12, 10), (8, 4))), outlook(training(40, (8, 10), (12, 4)))
    assert few == Outlook(done_seconds=152, left_seconds=pytest.approx(28 / 3 * 10 + 32 / 3 * 4), done=0.5)
    assert many == Outlook(done_seconds=128, left_seconds=pytest.approx(32 / 3 * 10 + 28 / 3 * 4), done=0.5)


def test_more_than_expected_of_one_leaves_that_much_less_of_the_others() -> None:
    """Of 10 epochs 9 are done with the first size, of which 14 / 19 of 10 are expected in all: 7.4."""
    found = outlook(training(10, (9, 10), (0, 4)))
    assert found == Outlook(done_seconds=90, left_seconds=pytest.approx(4), done=0.9)


@given(
    st.floats(1, 1e4),
    st.lists(st.tuples(st.floats(0, 1e3), st.floats(1e-3, 1e5)), min_size=1, max_size=6),
)
def test_what_is_left_is_between_the_fastest_and_the_slowest(
    epochs: float, regimes: list[tuple[float, float]]
) -> None:
    found = outlook(training(epochs, *regimes))
    assert found is not None
    done = sum(count for count, _ in regimes)
    left = epochs - done if done < epochs else 1.0
    lengths = [seconds for _, seconds in regimes]
    assert left * min(lengths) * (1 - 1e-6) <= found.left_seconds <= left * max(lengths) * (1 + 1e-6)
    assert 0 <= found.done < 1


def test_with_one_batch_size_it_is_exact() -> None:
    assert outlook(training(50, (20.5, 3))) == Outlook(
        done_seconds=61.5, left_seconds=pytest.approx(88.5), done=0.41
    )


def test_who_has_done_more_than_there_is_is_to_do_one_more() -> None:
    assert outlook(training(5, (7, 3))) == Outlook(done_seconds=21, left_seconds=pytest.approx(3), done=7 / 8)


@pytest.mark.parametrize(
    "facts",
    [
        training(40),
        training(0, (0, 10)),
        training(-3, (0, 10)),
        training(NAN, (0, 10)),
        training(INFINITE, (0, 10)),
        training(40, (0, 0), (0, -1), (0, NAN), (0, INFINITE)),
        training(1e300, (0, 1e300)),
    ],
    ids=["no regimes", "no epochs", "negative", "not a number", "infinite", "no lengths", "absurd"],
)
def test_facts_that_say_nothing_are_said_to(facts: Training) -> None:
    assert outlook(facts) is None


def test_what_is_wrong_is_passed_over_and_the_rest_counts() -> None:
    found = outlook(training(40, (10, 10), (5, 0), (NAN, 4), (-2, 4), (3, NAN)))
    assert found == outlook(training(40, (10, 10), (0, 4), (0, 4)))
