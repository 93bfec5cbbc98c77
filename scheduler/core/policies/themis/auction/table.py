"""Bids: what bundles of goods are worth to each bidder.

A good is anything with a number of pieces on offer: GPUs of a model, places for eight of them on one machine.
A bid is a table of rows, each saying what a bundle is worth; a bidder gets one row of its table or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Good = Hashable
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Row:
    """A number of pieces of these goods that are worth `worth`, on any scale of the bidder's own."""

    worth: float
    takes: Mapping[Good, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """A bidder's table: it gets one of the rows, or nothing."""

    #: The worth of getting nothing; above 0, on the scale of the rows.
    nothing: float
    rows: Sequence[Row] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A row that may be chosen; its gain is the logarithm of its worth relative to nothing, always above
    0.
    """

    row: int
    gain: float
    takes: Mapping[Good, int]


@dataclass(frozen=True, slots=True)
class Tables:
    """Bids made comparable, whatever the scale of each: one table a bidder, the best entries first."""

    supply: Mapping[Good, int]
    tables: tuple[tuple[Entry, ...], ...]
    #: Goods in the order of the columns of `matrix`.
    goods: tuple[Good, ...] = field(default=())

    def without(self, bidder: int) -> Tables:
        """Return the tables without one of the bidders."""
        tables = tuple([() if place == bidder else table for place, table in enumerate(self.tables)])
        return Tables(self.supply, tables, self.goods)


def tables_of(bids: Sequence[Bid], supply: Mapping[Good, int]) -> Tables:
    """Return the bids with only the rows that can win.

    A row is left out that asks for more than there is, is worth nothing or NaN, or is worth no more than
    getting nothing. Raises ValueError for an impossible worth of nothing or number of pieces.
    """
    if any(pieces < 0 for pieces in supply.values()):
        raise ValueError("a supply is below 0")
    tables = []
    for place, bid in enumerate(bids):
        if not (0 < bid.nothing < math.inf):
            raise ValueError(
                f"to bidder {place} getting nothing is worth {bid.nothing}, not a number above 0"
            )
        entries = []
        of_nothing = math.log(bid.nothing)
        for number, row in enumerate(bid.rows):
            takes = row.takes
            if takes and min(takes.values()) < 0:
                raise ValueError(f"row {number} of bidder {place} takes less than 0 pieces of something")
            if not bid.nothing < row.worth < math.inf:
                continue
            if 0 in takes.values():
                takes = {good: pieces for good, pieces in takes.items() if pieces}
            for good, pieces in takes.items():
                if pieces > supply.get(good, 0):
                    break
            else:
                entries.append(Entry(number, math.log(row.worth) - of_nothing, takes))
        tables.append(tuple(sorted(entries, key=lambda entry: (-entry.gain, entry.row))))
    return Tables(dict(supply), tuple(tables), tuple(supply))


@dataclass(frozen=True, slots=True)
class Arrays:
    """Tables as arrays: entries of all bidders one after the other."""

    gain: Floats
    #: Entry x good.
    takes: Floats
    bidder: Ints
    #: Place of the entry in its bidder's table.
    place: Ints
    supply: Floats
    bidders: int

    def net(self, prices: Floats) -> Floats:
        """Return what each entry gains beyond the prices of its goods."""
        net: Floats = self.gain - self.takes @ prices
        return net

    def of(self, entries: NDArray[np.bool_], supply: Floats) -> Arrays:
        """Return the arrays of some bidders, all of whose entries these are, with another supply."""
        owners, bidder = np.unique(self.bidder[entries], return_inverse=True)
        return Arrays(
            gain=self.gain[entries],
            takes=self.takes[entries],
            bidder=bidder,
            place=self.place[entries],
            supply=supply,
            bidders=len(owners),
        )


def arrays_of(tables: Tables) -> Arrays:
    """Return the tables as arrays."""
    columns = {good: column for column, good in enumerate(tables.goods)}
    gain: list[float] = []
    bidder: list[int] = []
    place: list[int] = []
    where: tuple[list[int], list[int]] = ([], [])
    pieces: list[int] = []
    for owner, table in enumerate(tables.tables):
        for number, entry in enumerate(table):
            for good, count in entry.takes.items():
                where[0].append(len(gain))
                where[1].append(columns[good])
                pieces.append(count)
            gain.append(entry.gain)
            bidder.append(owner)
            place.append(number)
    takes = np.zeros((len(gain), len(columns)))
    takes[where] = pieces
    return Arrays(
        gain=np.array(gain, dtype=np.float64),
        takes=takes,
        bidder=np.array(bidder, dtype=np.int64),
        place=np.array(place, dtype=np.int64),
        supply=np.array([tables.supply[good] for good in tables.goods], dtype=np.float64),
        bidders=len(tables.tables),
    )
