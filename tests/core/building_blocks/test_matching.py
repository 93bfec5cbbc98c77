"""Pairs of largest total weight: as good as the best of all, whatever the weights."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scheduler.core.building_blocks.matching import Floats, pairs_of_most_weight


def symmetric(numbers: Floats) -> Floats:
    upper = np.triu(numbers, 1)
    return upper + upper.T


def total(weights: Floats, pairs: list[tuple[int, int]]) -> float:
    return float(sum(weights[pair] for pair in pairs))


def best_of_all(weights: Floats) -> float:
    """Try every matching, vertex by vertex."""

    @cache
    def best(left: int) -> float:
        if not left:
            return 0.0
        one = (left & -left).bit_length() - 1
        rest = left & ~(1 << one)
        partners = [other for other in range(one + 1, len(weights)) if rest >> other & 1]
        with_one = [weights[one, other] + best(rest & ~(1 << other)) for other in partners]
        return max([best(rest), *with_one])

    return best((1 << len(weights)) - 1)


def test_of_a_triangle_with_a_tail_the_pair_that_leaves_the_tail_a_partner() -> None:
    weights = np.zeros((4, 4))
    for one, other, weight in ((0, 1, 5.0), (0, 2, 6.0), (1, 2, 5.0), (2, 3, 4.0)):
        weights[one, other] = weights[other, one] = weight
    assert pairs_of_most_weight(weights) == [(0, 1), (2, 3)]


def test_one_heavy_pair_rather_than_two_light_ones() -> None:
    weights = symmetric(np.array([[0, 2, 0, 0], [0, 0, 9, 0], [0, 0, 0, 2], [0, 0, 0, 0.0]]))
    assert pairs_of_most_weight(weights) == [(1, 2)]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_nobody_is_paired_without_gain(size: int) -> None:
    assert pairs_of_most_weight(-np.ones((size, size))) == []


#: Few different weights: many matchings are as good, and many cycles tight, which makes blossoms.
few = st.integers(-1, 3)
many = st.integers(-5, 1000)


@given(
    st.integers(1, 9).flatmap(
        lambda size: st.one_of(*[arrays(np.float64, (size, size), elements=some) for some in (few, many)])
    )
)
@settings(max_examples=150, deadline=None)
def test_no_other_pairs_weigh_more(numbers: Floats) -> None:
    weights = symmetric(numbers)
    pairs = pairs_of_most_weight(weights)
    assert len({vertex for pair in pairs for vertex in pair}) == 2 * len(pairs)
    assert all(weights[pair] > 0 for pair in pairs)
    assert total(weights, pairs) == pytest.approx(best_of_all(weights), rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_three_clusters_of_odd_size_far_apart_pair_across_them_once(seed: int) -> None:
    """Odd cycles that only blossoms see through: the program of halves is content within each cluster."""
    dice = np.random.default_rng(seed)
    places = np.concatenate([dice.random((5, 2)) + np.array([far, 0]) for far in (0, 3, 9)])
    weights = 20 - np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    pairs = pairs_of_most_weight(weights)
    assert total(weights, pairs) == pytest.approx(best_of_all(weights))
    assert sum(one // 5 != other // 5 for one, other in pairs) == 1


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[0, 1], [2, 0.0]]), "symmetric"),
        (np.array([[0, np.inf], [np.inf, 0]]), "finite"),
    ],
)
def test_weights_that_are_none_are_refused(weights: Floats, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        pairs_of_most_weight(weights)
