"""How many input workers there are to be: within bounds, and only by a request that lasts."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.perf.input_workers import (
    FEWER_AFTER_SECONDS,
    MORE_AFTER_SECONDS,
    settled,
    within,
)

counts = st.integers(0, 64)


@given(st.floats(allow_nan=False), st.integers(1, 64), st.integers(0, 63))
def test_a_request_is_within_the_bounds_or_for_none(number: float, least: int, more: int) -> None:
    requested = within(number, least, least + more)
    assert requested == 0 if number < 1 else least <= requested <= least + more


@given(counts, counts, st.floats(0, 1e6))
def test_it_is_what_it_was_or_what_is_wanted(desired: int, requested: int, seconds: float) -> None:
    assert settled(desired, requested, seconds=seconds) in (desired, requested)


def test_more_come_soon_and_fewer_late() -> None:
    assert settled(2, 4, seconds=MORE_AFTER_SECONDS - 0.1) == 2
    assert settled(2, 4, seconds=MORE_AFTER_SECONDS) == 4
    assert settled(4, 2, seconds=FEWER_AFTER_SECONDS - 0.1) == 4
    assert settled(4, 2, seconds=FEWER_AFTER_SECONDS) == 2


def test_what_is_over_or_begins_does_not_wait() -> None:
    assert settled(4, 0, seconds=0) == 0
    assert settled(0, 2, seconds=0) == 2
