"""The only waits there are: they return what they waited for, and say what never came."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.patience import scale, until, until_async


def in_a_loop(condition: Callable[[], Any], what: Any = "", **options: float) -> Any:
    return asyncio.run(until_async(condition, what, **options))


@pytest.fixture(params=[until, in_a_loop], ids=["until", "until_async"])
def wait(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return request.param


def answers(*values: object) -> Callable[[], object]:
    left: Iterator[object] = iter(values)
    return lambda: next(left)


def test_a_wait_returns_the_first_true_value(wait: Callable[..., Any]) -> None:
    assert wait(answers(0, None, "", 7, 8)) == 7


def test_an_awaitable_is_awaited() -> None:
    values = answers(0, 5)

    async def value() -> object:
        return values()

    assert in_a_loop(value) == 5


def test_a_wait_in_vain_says_what_it_was_for(wait: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.02 s in vain for the moon"):
        wait(lambda: False, "the moon", seconds=0.02)
    with pytest.raises(AssertionError, match="for 3 of 4"):
        wait(lambda: False, lambda: "3 of 4", seconds=0.02)
    with pytest.raises(AssertionError, match="for wait\\(lambda: 1 > 2"):
        wait(lambda: 1 > 2, seconds=0.02)


@pytest.mark.parametrize("text", ["", "long", "0", "-1", "nan", "inf", "1000"])
def test_a_patience_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ALLOT_TEST_PATIENCE must be a number from"):
        scale(text)


def test_patience_is_scaled() -> None:
    assert scale("2.5") == 2.5
