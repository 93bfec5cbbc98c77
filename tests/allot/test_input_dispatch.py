"""Who makes which batch and how many workers there should be, decided without a process or a clock."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allot.training.input_workers.dispatch import AHEAD, TRIES, Dispatch
from allot.training.input_workers.scaling import (
    ADD_AFTER_SECONDS,
    BUSY_MOST,
    REMOVE_AFTER_SECONDS,
    STALL_ADDS,
    Desired,
    Meter,
    Seen,
    decide,
)

BATCHES, BUFFER = 40, 7


@given(st.integers(0, 2**32), st.booleans())
def test_whatever_becomes_of_workers_each_batch_is_had_once_or_lost_with_one(
    seed: int, exactly_once: bool
) -> None:
    dice = random.Random(seed)
    dispatch = Dispatch(exactly_once=exactly_once, buffer=BUFFER)
    added = worker = given_back = 0
    given_to: dict[int, list[int]] = {}
    had: list[int] = []
    lost: list[int] = []

    def join() -> None:
        nonlocal worker
        worker += 1
        dispatch.join(worker)
        given_to[worker] = []

    def leave() -> None:
        nonlocal given_back
        if given_to:
            gone, gives_back = dice.choice(list(given_to)), dice.random() < 0.3
            had_then = given_to.pop(gone)
            assert dispatch.leave(gone, gives_back=gives_back) == had_then
            if not exactly_once and not gives_back:
                lost.extend(had_then)

    def make() -> None:
        if busy := [each for each, numbers in given_to.items() if numbers]:
            number = given_to[(maker := dice.choice(busy))].pop(0)
            # Nobody makes what is another's, and nobody twice.
            assert not dispatch.made(-1, number)
            assert dispatch.made(maker, number)
            assert not dispatch.made(maker, number)

    def take() -> None:
        if (number := dispatch.take()) is not None:
            had.append(number)

    while not (added == BATCHES and dispatch.is_empty):
        while dispatch.has_room and added < BATCHES:
            added += 1
            dispatch.add(added)
        if not given_to:
            join()
        for to, number in dispatch.assign():
            given_to[to].append(number)
            assert len(given_to[to]) <= AHEAD
        assert dispatch.busy == sum(map(bool, given_to.values()))
        assert added - len(had) - len(lost) <= BUFFER
        dice.choice((join, leave, make, make, make, take, take))()
    assert sorted(had + lost) == list(range(1, BATCHES + 1))
    assert dispatch.lost == len(lost)
    if exactly_once:
        assert had == sorted(had)
        assert not lost


def test_what_a_lost_worker_had_goes_to_the_next_before_anything_newer() -> None:
    dispatch = Dispatch(exactly_once=True, buffer=4)
    for worker in (1, 2):
        dispatch.join(worker)
    for number in (1, 2, 3, 4):
        dispatch.add(number)
    assert dispatch.assign() == [(1, 1), (2, 2), (1, 3), (2, 4)]
    assert dispatch.made(2, 2)
    assert dispatch.take() is None, "1 is before it"
    dispatch.leave(1)
    assert dispatch.assign() == [(2, 1)]
    assert dispatch.made(2, 1)
    assert [dispatch.take(), dispatch.take(), dispatch.take()] == [1, 2, None]
    assert dispatch.assign() == [(2, 3)]


@pytest.mark.parametrize(("exactly_once", "tries"), [(True, TRIES), (False, 1)])
def test_a_function_that_raises_is_tried_again_where_that_is_allowed(exactly_once: bool, tries: int) -> None:
    dispatch = Dispatch(exactly_once=exactly_once, buffer=1)
    dispatch.join(1)
    dispatch.add(1)
    for _ in range(tries):
        assert dispatch.failure is None
        assert dispatch.assign() == [(1, 1)]
        dispatch.failed(1, 1, "OSError: gone")
    assert dispatch.failure is not None
    assert (dispatch.failure.number, dispatch.failure.reason) == (1, "OSError: gone")
    dispatch.failed(2, 1, "of nobody")
    assert dispatch.failure.reason == "OSError: gone"


@given(st.floats(0.05, 20), st.integers(0, 12), st.integers(0, 3), st.integers(4, 40))
def test_workers_become_as_many_as_are_needed_and_stay_so(
    needed: float, began: int, least: int, most: int
) -> None:
    """The trainer could use as many batches as `needed` workers make, all of the time."""
    desired, workers, changed_at = Desired(began), 0, 0.0
    for second in range(0, 1_500, 2):
        if desired.workers != workers:
            workers, changed_at = desired.workers, float(second)
        makes = min(needed, workers)
        seen = Seen(workers, 1 - makes / needed, makes / workers if workers else 0.0)
        desired = decide(desired, seen, now=float(second), least=least, most=most)
        assert least <= desired.workers <= most
    assert workers == most or 1 - workers / needed <= STALL_ADDS
    # One more than is enough may stay where the rest would be all but always busy.
    assert workers <= max(least, min(math.ceil(needed / BUSY_MOST) + 1, most))
    assert changed_at < 1_500 - 8 * REMOVE_AFTER_SECONDS, "it does not go up and down"


def test_a_short_stall_and_a_stall_that_more_workers_would_not_end_change_nothing() -> None:
    stalled, desired = Seen(2, 0.5, 1.0), Desired(2)
    desired = decide(desired, stalled, now=0.0, least=1, most=8)
    desired = decide(desired, Seen(2, 0.0, 1.0), now=ADD_AFTER_SECONDS - 1, least=1, most=8)
    assert decide(desired, stalled, now=ADD_AFTER_SECONDS, least=1, most=8).workers == 2
    network = Seen(2, 0.5, 0.3)
    for now in range(100):
        desired = decide(desired, network, now=float(now), least=2, most=8)
    assert desired.workers == 2
    # Some that nobody asked for are needed all the same.
    assert decide(Desired(1), Seen(3, 0.5, 1.0), now=0.0, least=1, most=8).workers == 3
    # Those that were asked for are not there yet.
    assert decide(Desired(4), stalled, now=1e6, least=1, most=8) == Desired(4)


def test_stall_and_work_are_measured_over_the_last_half_minute() -> None:
    meter = Meter.started(100.0)
    meter.tell(100.0, is_waiting=True, workers=2, busy=1)
    meter.tell(110.0, is_waiting=False, workers=2, busy=2)
    meter.tell(120.0, is_waiting=False, workers=2, busy=2)
    assert meter.seen == Seen(2, 0.5, 0.75)
    for second in range(121, 200):
        meter.tell(float(second), is_waiting=False, workers=2, busy=2)
    assert meter.seen == Seen(2, 0.0, 1.0)
    assert meter.waited == 10.0
    meter.tell(199.5, is_waiting=True, workers=0, busy=0)
    meter.forget()
    meter.tell(200.5, is_waiting=True, workers=0, busy=0)
    assert meter.seen == Seen(0, 1.0, 0.0)
