"""How many nodes a pool lends and asks back, by its load curve."""

from __future__ import annotations

import pytest

from scheduler.core.model.snapshot import LENT, RETURNING, SERVING, Node, NodeLoan
from scheduler.core.serving_pools.load_curve import DAY_SECONDS, LoadCurve, curve_of
from scheduler.core.serving_pools.steering import ServingPool, Steering, next_look, steer
from tests.builders import make_node

DAY = 20_000 * DAY_SECONDS
HOUR = 3_600
CURVE = curve_of({"20:00": 1, "08:00": 3})
POOL = ServingPool(name="chat", return_seconds=600.0, curve=CURVE)


def nodes(*states: str) -> list[Node]:
    return [
        make_node(
            number, loan=NodeLoan(pool="chat", state=state, return_by=DAY if state == RETURNING else None)
        )
        for number, state in enumerate(states, 1)
    ]


def test_a_step_holds_until_the_next_one_and_over_midnight() -> None:
    needed = [CURVE.needed_at(DAY + hour * HOUR) for hour in (0, 7.9, 8, 19.9, 20, 23)]
    assert needed == [1, 1, 3, 3, 1, 1]
    assert CURVE.next_step(DAY + 8 * HOUR) == DAY + 20 * HOUR
    assert CURVE.next_step(DAY + 21 * HOUR) == DAY + 32 * HOUR


@pytest.mark.parametrize(
    ("times", "wrong"),
    [
        ({}, "1 to 96"),
        ({"8": 1}, "'8' is not a time"),
        ({"24:00": 1}, "24:00"),
        ({"08:00": -1}, "08:00: '-1'"),
    ],
)
def test_a_curve_that_makes_no_sense_is_refused(times: dict[str, int], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        curve_of(times)
    with pytest.raises(ValueError, match="in order"):
        LoadCurve(steps=((60, 1), (0, 2)))


def test_what_is_not_needed_is_lent_and_none_that_will_be_needed_soon() -> None:
    night = DAY + 21 * HOUR
    assert steer(POOL, nodes(SERVING, SERVING, SERVING), night) == Steering(lend=(1, 2))
    assert steer(POOL, nodes(SERVING, SERVING, SERVING), DAY + 7.9 * HOUR) == Steering()
    assert steer(POOL, nodes(LENT, LENT, SERVING), night) == Steering()


def test_nodes_are_asked_back_so_early_that_they_are_there_at_the_step() -> None:
    early, step = DAY + 8 * HOUR - 600, DAY + 8 * HOUR
    assert steer(POOL, nodes(LENT, LENT, SERVING), early - 1) == Steering()
    assert steer(POOL, nodes(LENT, LENT, SERVING), early) == Steering(ask_back=2, return_by=step)
    # Too late for that, as after a standstill, they come as soon as a return allows.
    assert steer(POOL, nodes(LENT, LENT, SERVING), step + 5) == Steering(ask_back=2, return_by=step + 605)
    assert steer(POOL, nodes(RETURNING, LENT, SERVING), early) == Steering(ask_back=1, return_by=step)
    assert steer(POOL, nodes(LENT, SERVING), early) == Steering(ask_back=1, return_by=step)


def test_a_node_that_is_about_to_go_back_is_lent_again_first() -> None:
    assert steer(POOL, nodes(SERVING, RETURNING, RETURNING), DAY + 21 * HOUR) == Steering(lend=(2, 3))


def test_a_pool_without_a_curve_is_left_alone() -> None:
    alone = ServingPool(name="chat")
    assert steer(alone, nodes(SERVING, LENT), DAY) == Steering()
    assert next_look(alone, DAY) is None


def test_looks_miss_no_step_and_no_beginning_of_a_return() -> None:
    at, seen = DAY + 1.0, []
    while at < DAY + DAY_SECONDS:
        found = next_look(POOL, at)
        assert found is not None
        at = found
        seen.append((at - DAY) / HOUR)
    assert seen[:4] == pytest.approx([8 - 1 / 6, 8.0, 20 - 1 / 6, 20.0])
