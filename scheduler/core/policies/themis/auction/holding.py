"""The auction: the row that each bidder wins, and the part withheld as payment (Themis, section 5.1).

The rows are those with the largest product of worths. A winner keeps the part c of what it won, where c is
the product of the others' worths, divided by that product in an auction without the winner: the more it takes
from others, the less it keeps, and a false bid gains nothing (R. Cole, V. Gkatzelis and G. Goel, "Mechanism
Design for Fair Division", EC 2013).

The exact payment holds the auction again without each winner. That is done for up to `EXACT_BIDDERS` that bid
for anything, where the search for the best assignment comes to its end. Beyond, c is taken from the prices p
of the relaxation: exp(-(p . bundle)). To first order the bundle is worth its price to the others, and never
more: their optimum is a concave function of the supply, with slope p. So, apart from rows being whole, c is
too small rather than too large, by an error of second order in the bundle's part of all goods. It is exact in
the limit of many small bidders, which is where it is used. No bidder pays more than it gains.

Envy-freeness holds only approximately: it would need divisible goods and no withholding. Whole rows, worths
that begin above 0, and the part withheld break it by about a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.policies.themis.auction.assigning import Assignment, assign, value_of
from scheduler.core.policies.themis.auction.prices import cost
from scheduler.core.policies.themis.auction.table import Bid, Good, Tables, tables_of

#: Up to this many active bidders, assignment and payments are exact.
EXACT_BIDDERS = 16
#: The most choices searched for the best assignment, and for each auction without one winner.
MOST_CHOICES, MOST_CHOICES_WITHOUT = 100_000, 20_000


@dataclass(frozen=True, slots=True)
class Win:
    """A row that was won, and the part of it that is kept: above 0, at most 1."""

    bidder: int
    row: int
    kept: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of an auction."""

    #: In the order of the bidders.
    wins: tuple[Win, ...]
    #: Logarithm of the product of all worths, compared with all bidders getting nothing.
    value: float
    #: The most by which it could be higher; 0: no assignment is better.
    gap: float
    #: Whether payments come from auctions without each winner; else from prices.
    exact_payments: bool
    #: The logarithmic worth that one more piece of each good adds.
    prices: Mapping[Good, float]


def hold(bids: Sequence[Bid], supply: Mapping[Good, int], exact_bidders: int = EXACT_BIDDERS) -> Result:
    """Hold the auction. Raises ValueError for impossible bids, as `tables_of` does."""
    tables = tables_of(bids, supply)
    active = sum([1 for table in tables.tables if table])
    small = active <= exact_bidders
    assigned = assign(tables, MOST_CHOICES if small else 0)
    kept = _kept_exactly(tables, assigned) if small and assigned.exact else None
    by_price = kept is None
    if kept is None:
        kept = _kept_by_price(tables, assigned)
    return Result(
        wins=tuple(
            [
                Win(bidder, tables.tables[bidder][place].row, kept[bidder])
                for bidder, place in enumerate(assigned.chosen)
                if place is not None
            ]
        ),
        value=assigned.value,
        gap=max(0.0, assigned.bound - assigned.value),
        exact_payments=not by_price,
        prices=assigned.prices,
    )


def _kept_exactly(tables: Tables, assigned: Assignment) -> dict[int, float] | None:
    """Return the part that each winner keeps; None where an auction without one of them is too large."""
    kept = {}
    for bidder, place in enumerate(assigned.chosen):
        if place is None:
            continue
        without = tables.without(bidder)
        others = assign(without, MOST_CHOICES_WITHOUT)
        if not others.exact:
            return None
        chosen = tuple([None if other == bidder else row for other, row in enumerate(assigned.chosen)])
        kept[bidder] = min(1.0, math.exp(value_of(without, chosen) - others.value))
    return kept


def _kept_by_price(tables: Tables, assigned: Assignment) -> dict[int, float]:
    kept = {}
    for bidder, place in enumerate(assigned.chosen):
        if place is not None:
            entry = tables.tables[bidder][place]
            kept[bidder] = math.exp(-min(entry.gain, cost(entry.takes, assigned.prices)))
    return kept
