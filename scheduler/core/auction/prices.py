"""Prices of goods: the linear relaxation, in which a bidder may get parts of several rows.

Its optimum is above that of whole rows. Its dual gives every good a price, in the logarithm of worth, at
which about as much is wanted as there is; and for any prices, the sum of what every bidder gains most beside
the price of its row, and of what all goods cost, is more than any assignment reaches (Lagrange).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from scheduler.core.auction.table import Floats, Good, Tables, arrays_of

#: From this many bidders on the interior point method is the faster one (measured with 200 to 20,000).
LARGE = 5_000


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The optimum of the relaxation."""

    prices: Mapping[Good, float]
    #: No assignment of whole rows has more.
    bound: float
    #: For each bidder the place of the entry of which it gets most, and how much of it: at most 1.
    most: tuple[tuple[int, float], ...]


def relax(tables: Tables) -> Relaxed:
    """Return the optimum of the relaxation, in which prices are never below 0."""
    arrays = arrays_of(tables)
    nobody = ((0, 0.0),) * arrays.bidders
    if not len(arrays.gain):
        return Relaxed(dict.fromkeys(tables.goods, 0.0), 0.0, nobody)
    entries = np.arange(len(arrays.gain))
    one_each = csr_array((np.ones(len(entries)), (arrays.bidder, entries)), (arrays.bidders, len(entries)))
    found = linprog(
        -arrays.gain,
        A_ub=vstack([one_each, csr_array(arrays.takes.T)]),
        b_ub=np.concatenate([np.ones(arrays.bidders), arrays.supply]),
        bounds=(0, None),
        method="highs-ipm" if arrays.bidders >= LARGE else "highs-ds",
    )
    if found.status == 0:
        prices = np.maximum(0.0, -np.asarray(found.ineqlin.marginals)[arrays.bidders :])
        parts = np.asarray(found.x)
    else:
        # Whatever the prices are, the bound holds; without any it is only further away.
        prices, parts = np.zeros(len(arrays.supply)), np.zeros(len(entries))
    most = list(nobody)
    for entry in np.flatnonzero(parts > 0).tolist():
        owner = int(arrays.bidder[entry])
        if parts[entry] > most[owner][1]:
            most[owner] = (int(arrays.place[entry]), float(parts[entry]))
    return Relaxed(
        prices=dict(zip(tables.goods, prices.tolist(), strict=True)),
        bound=_bound(arrays.gain - arrays.takes @ prices, arrays.bidder, arrays.bidders)
        + float(arrays.supply @ prices),
        most=tuple(most),
    )


def _bound(net: Floats, bidder: np.ndarray[tuple[int], np.dtype[np.int64]], bidders: int) -> float:
    """Return the sum of what every bidder gains most, which is at least 0."""
    best = np.zeros(bidders)
    np.maximum.at(best, bidder, net)
    return float(best.sum())


def cost(takes: Mapping[Good, int], prices: Mapping[Good, float]) -> float:
    """Return what a bundle costs."""
    return sum([pieces * prices[good] for good, pieces in takes.items()])
