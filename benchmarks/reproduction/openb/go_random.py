"""The random numbers of Go's math/rand: an additive lagged Fibonacci generator, modulo 2 ** 64.

Each number is the sum of those 607 and 273 before it (Mitchell and Reeds). A seed is mixed with the state
that a standard seed has after 7.8 * 10 ** 12 steps. Go's library holds that state as a table; here it is
computed, as the power of a polynomial modulo the generator's own. `tests/simulation/reproduction/openb` has
numbers that Go gives.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

_LONG, _SHORT = 607, 273
_MIDDLE = _LONG - _SHORT
_STEPS = 7_800_000_000_000
_MASK = (1 << 64) - 1
#: Of the multiplicative generator that fills a state (Park and Miller).
_MODULUS = (1 << 31) - 1
_MULTIPLIER = 48_271

Words = npt.NDArray[np.uint64]


class GoRandom:
    """What `rand.Seed(seed)` makes of Go's shared generator."""

    def __init__(self, seed: int) -> None:
        self._state = [
            mixed ^ far for mixed, far in zip(_filled(seed % _MODULUS, 40, 20), _far_state(), strict=True)
        ]
        self._tap, self._feed = 0, _MIDDLE

    def int63(self) -> int:
        """Return a number of 63 bits."""
        self._tap = (self._tap - 1) % _LONG
        self._feed = (self._feed - 1) % _LONG
        drawn = (self._state[self._feed] + self._state[self._tap]) & _MASK
        self._state[self._feed] = drawn
        return drawn & (_MASK >> 1)

    def below(self, bound: int) -> int:
        """Return a number from 0 to one less than `bound`, which is below 2 ** 31: `rand.Intn`."""
        drawn = self.int63() >> 32
        if bound & (bound - 1) == 0:
            return drawn & (bound - 1)
        most = (1 << 31) - 1 - (1 << 31) % bound
        while drawn > most:
            drawn = self.int63() >> 32
        return drawn % bound

    def shuffle(self, values: MutableSequence[Any]) -> None:
        """Put the values in another order: `rand.Shuffle`, which draws otherwise than `rand.Intn`."""
        for last in range(len(values) - 1, 0, -1):
            bound = last + 1
            product = (self.int63() >> 31) * bound
            while (product & 0xFFFFFFFF) < (1 << 32) % bound:
                product = (self.int63() >> 31) * bound
            other = product >> 32
            values[last], values[other] = values[other], values[last]

    def permutation(self, count: int) -> list[int]:
        """Return the numbers below `count` in some order: `rand.Perm`."""
        order = [0] * count
        for index in range(count):
            other = self.below(index + 1)
            order[index] = order[other]
            order[other] = index
        return order


def _filled(seed: int, high: int, middle: int) -> list[int]:
    """Return a state of 607 words, each of three successive numbers, two of them shifted by so much."""
    number, words = seed or 89_482_311, list[int]()
    numbers = []
    for _ in range(20 + 3 * _LONG):
        number = number * _MULTIPLIER % _MODULUS
        numbers.append(number)
    for at in range(20, 20 + 3 * _LONG, 3):
        words.append((numbers[at] << high ^ numbers[at + 1] << middle ^ numbers[at + 2]) & _MASK)
    return words


@cache
def _far_state() -> tuple[int, ...]:
    """Return the state of the standard seed after all its steps.

    With x(k) = x(k - 607) + x(k - 273), x(k + steps) is the combination of x(k), ..., x(k + 606) by the
    coefficients of t ** steps modulo t ** 607 - t ** 334 - 1. A state has x(k) in the place 334 - k.
    """
    start = _filled(1, 20, 10)
    power: Words = np.zeros(_LONG, dtype=np.uint64)
    power[0] = 1
    for bit in f"{_STEPS:b}":
        power = _reduced(np.convolve(power, power))
        if bit == "1":
            power = _reduced(np.concatenate([np.zeros(1, dtype=np.uint64), power]))
    series = [start[(_MIDDLE - (index - _LONG + 1)) % _LONG] for index in range(_LONG)]
    for _ in range(_LONG):
        series.append((series[-_LONG] + series[-_SHORT]) & _MASK)
    known: Words = np.array(series, dtype=np.uint64)
    state = [0] * _LONG
    for index in range(_LONG):
        step = _STEPS - _LONG + 1 + index
        state[(_MIDDLE - step) % _LONG] = int(np.sum(power * known[index : index + _LONG]))
    return tuple(state)


def _reduced(product: Words) -> Words:
    """Return a polynomial modulo t ** 607 - t ** 334 - 1."""
    whole = product.copy()
    while len(whole) > _LONG:
        above, whole = whole[_LONG:], whole[:_LONG].copy()
        folded: Words = np.zeros(max(_LONG, len(above) + _MIDDLE), dtype=np.uint64)
        folded[:_LONG] = whole
        folded[: len(above)] += above
        folded[_MIDDLE : _MIDDLE + len(above)] += above
        whole = folded
    return whole
