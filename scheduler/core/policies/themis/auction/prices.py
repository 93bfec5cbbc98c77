"""Prices of goods: the linear relaxation, in which a bidder may get parts of several rows.

Its optimum is above that of whole rows. Its dual gives every good a price, in the logarithm of worth, at
which demand about equals supply. For any prices, the sum of every bidder's largest net gain and of the cost
of all goods bounds every assignment (Lagrange).

Goods are few and bidders many, so that most bidders have a row that is best by far at any likely prices. Of
many bidders, only those that are in doubt enter the program (sifting, J. Forrest; R. Bixby et al., "Very
Large-Scale Linear Programming", Operations Research 40(5), 1992).
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
#: More bidders than this are sifted: the first prices come from one in four, and one in eight is in doubt.
SIFTED = 2_000
ONE_IN, DOUBTED = 4, 8
#: Net gains that differ by less are equal.
SAME = 1e-9
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
    arrays = arrays_of(tables)
    parts, prices = _sifted(arrays)
    most = [(0, 0.0)] * arrays.bidders
    for entry in np.flatnonzero(parts > 0).tolist():
        owner = int(arrays.bidder[entry])
        if parts[entry] > most[owner][1]:
            most[owner] = (int(arrays.place[entry]), float(parts[entry]))
    return Relaxation(
        prices=dict(zip(tables.goods, prices.tolist(), strict=True)),
        bound=float(_best(arrays.net(prices), arrays.bidder, arrays.bidders).sum())
        + float(arrays.supply @ prices),
        most=tuple(most),
    )


def _optimum(arrays: Arrays) -> tuple[Floats, Floats]:
    """Return how much of each entry is given in the optimum, and the prices of the goods."""
    # SciPy takes a third of a second to load, and most processes that know this never compute with it.
    from scipy.optimize import linprog

    if not len(arrays.gain):
        return np.zeros(0), np.zeros(len(arrays.supply))
    found = linprog(
        -arrays.gain,
        A_ub=_matrix(arrays),
        b_ub=_limits(arrays),
        bounds=(0, None),
        method="highs-ipm" if arrays.bidders >= LARGE else "highs-ds",
    )
    if found.status == 0:
        return np.asarray(found.x), np.maximum(0.0, -np.asarray(found.ineqlin.marginals)[arrays.bidders :])
    # The bound holds for any prices; without prices it is only looser.
    return np.zeros(len(arrays.gain)), np.zeros(len(arrays.supply))


def _sifted(arrays: Arrays) -> tuple[Floats, Floats]:
    """Return the same as `_optimum`, computed with the bidders that are in doubt.

    The first prices are those of a part of the bidders and of the supply. A bidder gets the choice that is
    best for it at these prices, and the others, whose choices have the least lead, share what that leaves.
    Where the prices of their optimum change the choice of one that got its own, more are in doubt.
    """
    if arrays.bidders <= SIFTED:
        return _optimum(arrays)
    _, prices = _sifted(arrays.of(arrays.bidder % ONE_IN == 0, arrays.supply / ONE_IN))
    doubted = arrays.bidders // DOUBTED
    while doubted < arrays.bidders:
        choice, lead = _choices(arrays, prices)
        doubtful = lead <= np.partition(lead, doubted)[doubted]
        sure = choice[~doubtful & (choice >= 0)]
        left = arrays.supply - arrays.takes[sure].sum(axis=0)
        if (left >= 0).all():
            among = doubtful[arrays.bidder]
            some, found = _optimum(arrays.of(among, left))
            net = arrays.net(found)
            chosen = np.where(choice >= 0, net[choice], 0.0)
            regrets = ~doubtful & (_best(net, arrays.bidder, arrays.bidders) > chosen + SAME)
            if not regrets.any():
                parts = np.zeros(len(arrays.gain))
                parts[sure], parts[among] = 1.0, some
                return parts, found
            if regrets.sum() < doubted:
                prices = found
        doubted *= 2
    return _optimum(arrays)


def _choices(arrays: Arrays, prices: Floats) -> tuple[Ints, Floats]:
    """Return each bidder's best entry at these prices, -1 for none, and its lead over the second best."""
    net = arrays.net(prices)
    best = _best(net, arrays.bidder, arrays.bidders)
    choice = np.full(arrays.bidders, -1)
    chosen = np.flatnonzero((net >= best[arrays.bidder]) & (net > 0))
    choice[arrays.bidder[chosen]] = chosen
    others = net.copy()
    others[choice[choice >= 0]] = -np.inf
    # Getting nothing is a choice as well, whose net gain is 0.
    second = np.full(arrays.bidders, -np.inf)
    np.maximum.at(second, arrays.bidder, others)
    return choice, np.where(choice >= 0, best - np.maximum(second, 0.0), -second)


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


def _best(net: Floats, bidder: Ints, bidders: int) -> Floats:
    """Return every bidder's largest net gain, at least 0 each."""
    best = np.zeros(bidders)
    np.maximum.at(best, bidder, net)
    return best


def cost(takes: Mapping[Good, int], prices: Mapping[Good, float]) -> float:
    """Return what a bundle costs."""
    return sum([pieces * prices[good] for good, pieces in takes.items()])
