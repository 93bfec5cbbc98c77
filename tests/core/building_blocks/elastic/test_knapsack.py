"""The knapsack with one choice of each group is as good as trying everything."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.building_blocks.elastic.knapsack import best_choices

#: Weights and worths of a group; to choose nothing weighs and is worth nothing.
GROUPS = st.dictionaries(st.integers(1, 5), st.integers(-20, 50), max_size=4).map(lambda more: {0: 0, **more})


@given(st.lists(GROUPS, max_size=6), st.integers(0, 12))
def test_it_is_as_good_as_trying_everything(groups: list[dict[int, int]], capacity: int) -> None:
    options = [(np.array([*group]), np.array([*group.values()], dtype=float)) for group in groups]
    places, worth = best_choices(options, capacity)
    chosen = [[*group][place] for group, place in zip(groups, places, strict=True)]
    affordable = [weights for weights in product(*groups) if sum(weights) <= capacity]
    best = max(sum(group[w] for group, w in zip(groups, weights, strict=True)) for weights in affordable)
    assert sum(chosen) <= capacity
    assert worth == sum(group[weight] for group, weight in zip(groups, chosen, strict=True)) == best


def test_what_must_not_be_chosen_is_not_and_the_first_of_equals_is() -> None:
    banned = (np.array([0, 1, 2]), np.array([0.0, -np.inf, 1.0]))
    equals = (np.array([0, 1]), np.array([3.0, 3.0]))
    assert best_choices([banned, equals], 3) == ([2, 0], 4.0)
    assert best_choices([banned, equals], 1) == ([0, 0], 3.0)
    assert best_choices([], 3) == ([], 0.0)


def test_where_nothing_fits_the_worth_says_so() -> None:
    assert best_choices([(np.array([2]), np.array([1.0]))], 1)[1] == pytest.approx(-np.inf)
