"""Prices of goods: the linear relaxation, in which a bidder may get parts of several rows.

Its optimum is above that of whole rows. Its dual gives every good a price, in the logarithm of worth, at
which demand about equals supply. For any prices, the sum of every bidder's largest net gain and of the cost
of all goods bounds every assignment (Lagrange).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.core.policies.themis.auction.table import Arrays, Floats, Good, Ints, Tables, arrays_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: From this many bidders on the interior point method is the faster one (measured with 200 to 20,000).
LARGE = 5_000
#: The most branches in the search for whole rows, and the relative gap at which it stops.
MOST_NODES, GAP = 50, 1e-7


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The optimum of the relaxation."""

    prices: Mapping[Good, float]
    #: No assignment of whole rows has more.
    bound: float
    #: For each bidder the place of the entry of which it gets most, and how much of it: at most 1.
    most: tuple[tuple[int, float], ...]


def relax(tables: Tables) -> Relaxation:
    """Return the optimum of the relaxation, in which prices are never below 0."""
    # SciPy takes a third of a second to load, and most processes that know this never compute with it.
    from scipy.optimize import linprog

    arrays = arrays_of(tables)
    nobody = ((0, 0.0),) * arrays.bidders
    if not len(arrays.gain):
        return Relaxation(dict.fromkeys(tables.goods, 0.0), 0.0, nobody)
    found = linprog(
        -arrays.gain,
        A_ub=_matrix(arrays),
        b_ub=_limits(arrays),
        bounds=(0, None),
        method="highs-ipm" if arrays.bidders >= LARGE else "highs-ds",
    )
    if found.status == 0:
        prices = np.maximum(0.0, -np.asarray(found.ineqlin.marginals)[arrays.bidders :])
        parts = np.asarray(found.x)
    else:
        # The bound holds for any prices; without prices it is only looser.
        prices, parts = np.zeros(len(arrays.supply)), np.zeros(len(arrays.gain))
    most = list(nobody)
    for entry in np.flatnonzero(parts > 0).tolist():
        owner = int(arrays.bidder[entry])
        if parts[entry] > most[owner][1]:
            most[owner] = (int(arrays.place[entry]), float(parts[entry]))
    return Relaxation(
        prices=dict(zip(tables.goods, prices.tolist(), strict=True)),
        bound=_bound(arrays.gain - arrays.takes @ prices, arrays.bidder, arrays.bidders)
        + float(arrays.supply @ prices),
        most=tuple(most),
    )


def search_whole(tables: Tables) -> tuple[tuple[int | None, ...], float] | None:
    """Return an assignment of whole rows that is the best or nearly, and a bound; None where none is found.

    Branch and cut (HiGHS), with no more than `MOST_NODES` branches.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    arrays = arrays_of(tables)
    found = milp(
        -arrays.gain,
        integrality=np.ones(len(arrays.gain)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(_matrix(arrays), -np.inf, _limits(arrays)),
        options={"node_limit": MOST_NODES, "mip_rel_gap": GAP},
    )
    if found.x is None or found.mip_dual_bound is None:
        return None
    chosen: list[int | None] = [None] * arrays.bidders
    for entry in np.flatnonzero(found.x > 0.5).tolist():
        chosen[int(arrays.bidder[entry])] = int(arrays.place[entry])
    return tuple(chosen), -float(found.mip_dual_bound)


def _matrix(arrays: Arrays) -> csr_array:
    """Return the rows of the program: one row of its table for each bidder, and the supply of each good."""
    from scipy.sparse import csr_array, vstack

    entries = np.arange(len(arrays.gain))
    one_each = csr_array((np.ones(len(entries)), (arrays.bidder, entries)), (arrays.bidders, len(entries)))
    return vstack([one_each, csr_array(arrays.takes.T)])


def _limits(arrays: Arrays) -> Floats:
    limits: Floats = np.concatenate([np.ones(arrays.bidders), arrays.supply])
    return limits


def _bound(net: Floats, bidder: Ints, bidders: int) -> float:
    """Return the sum of every bidder's largest net gain, at least 0 each."""
    best = np.zeros(bidders)
    np.maximum.at(best, bidder, net)
    return float(best.sum())


def cost(takes: Mapping[Good, int], prices: Mapping[Good, float]) -> float:
    """Return what a bundle costs."""
    return sum([pieces * prices[good] for good, pieces in takes.items()])
