"""The multiple-choice knapsack: one choice of each group, within the capacity and of the greatest worth.

By dynamic programming over the capacity, exact for any worths: capacity × options steps, vectorised over the
capacity. Among equally good choices, the first of a group's options is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def best_choices(options: Sequence[tuple[Ints, Floats]], capacity: int) -> tuple[list[int], float]:
    """Return the index of each group's choice among its options, and the total worth.

    Each group has weights, whole numbers from 0 on, and their worths; -inf is what must not be chosen. Where
    nothing fits, the worth is -inf and the choices mean nothing.
    """
    best = np.zeros(capacity + 1)
    choices = []
    for weights, worths in options:
        table = np.full((weights.size, capacity + 1), -np.inf)
        for place, (weight, worth) in enumerate(zip(weights.tolist(), worths.tolist(), strict=True)):
            if weight <= capacity:
                np.add(best[: capacity + 1 - weight], worth, out=table[place, weight:])
        chosen = table.argmax(axis=0)
        best = table[chosen, np.arange(capacity + 1)]
        choices.append(chosen.astype(np.int16))
    left, found = capacity, []
    for (weights, _), chosen in zip(reversed(options), reversed(choices), strict=True):
        place = int(chosen[left])
        found.append(place)
        left -= min(int(weights[place]), left)
    found.reverse()
    return found, float(best[capacity]) if options else 0.0
