"""The choice of one option from each menu, against trying all combinations."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.sim.choosing import SLACK_PART, Option, choose
from tests.effort import examples

Menus = Sequence[Sequence[Option]]


def option(delay: float, cost: float, **uses: float) -> Option:
    return Option(delay_seconds=delay, cost=cost, uses=uses or {"gpus": cost})


def by_trying_all(menus: Menus, limits: Mapping[Hashable, float], slack: float) -> tuple[int, ...] | None:
    """The same by its definition."""

    def total(choice: tuple[int, ...], of: str) -> float:
        return sum(getattr(menu[place], of) for menu, place in zip(menus, choice, strict=True))

    def keeps_limits(choice: tuple[int, ...]) -> bool:
        return all(
            sum(menu[place].uses.get(limit, 0) for menu, place in zip(menus, choice, strict=True)) <= most
            for limit, most in limits.items()
        )

    choices = [choice for choice in product(*(range(len(menu)) for menu in menus)) if keeps_limits(choice)]
    if not choices:
        return None
    least = min(total(choice, "delay_seconds") for choice in choices)
    good = [
        choice
        for choice in choices
        if total(choice, "delay_seconds") <= least + max(SLACK_PART * least, slack) + 1e-6
    ]
    return min(good, key=lambda choice: (total(choice, "cost"), total(choice, "delay_seconds"), sum(choice)))


def test_the_least_sum_of_delays_that_fits() -> None:
    menus = [
        [option(100, 1), option(50, 2), option(0, 4)],
        [option(90, 1), option(10, 2), option(0, 4)],
    ]
    assert choose(menus, {"gpus": 4}) == (1, 1)
    assert choose(menus, {"gpus": 6}) == (2, 1)
    assert choose(menus, {"gpus": 1}) is None


def test_what_gains_next_to_nothing_is_not_bought() -> None:
    menus = [[option(1_000, 8), option(995, 16)]]
    assert choose(menus, {}) == (0,)
    assert choose([[option(5, 8), option(0, 16)]], {}, slack_seconds=10) == (0,)
    assert choose([[option(50, 8), option(0, 16)]], {}, slack_seconds=10) == (1,)


def test_equal_choices_are_settled_by_the_order_of_the_menus() -> None:
    menus = [[option(10, 2), option(10, 2)], [option(10, 2), option(10, 2)]]
    assert choose(menus, {"gpus": 4}) == (0, 0)


def test_of_nothing_nothing_is_chosen() -> None:
    assert choose([], {"gpus": 1}) == ()


options = st.builds(
    Option,
    delay_seconds=st.integers(0, 40).map(lambda tens: 10.0 * tens),
    cost=st.integers(1, 6).map(float),
    uses=st.fixed_dictionaries({"nodes": st.integers(0, 3), "budget": st.integers(0, 4)}),
)


@settings(max_examples=examples(60))
@given(
    menus=st.lists(st.lists(options, min_size=1, max_size=4), min_size=1, max_size=4),
    nodes=st.integers(0, 8),
    budget=st.integers(0, 10),
    slack=st.sampled_from((0.0, 5.0, 35.0)),
)
def test_it_equals_trying_all(menus: Menus, nodes: int, budget: int, slack: float) -> None:
    limits: dict[Hashable, float] = {"nodes": nodes, "budget": budget}
    expected = by_trying_all(menus, limits, slack)
    found = choose(menus, limits, slack_seconds=slack)
    if expected is None or found is None:
        assert found is expected
        return

    def totals(choice: tuple[int, ...]) -> list[float]:
        chosen = [menu[place] for menu, place in zip(menus, choice, strict=True)]
        return [sum(one.cost for one in chosen), sum(one.delay_seconds for one in chosen), float(sum(choice))]

    assert totals(found) == pytest.approx(totals(expected))
