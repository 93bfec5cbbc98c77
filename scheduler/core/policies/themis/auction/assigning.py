"""The assignment of rows to bidders with the largest product of worths; no piece is given twice (Themis,
section 5.1).

The exact method is branch and bound, where the prices of the relaxation exclude choices. The loss of a choice
is the net gain (gain less price) of the bidder's best choice minus its own. An assignment whose total loss
exceeds the distance from the bound to the best known one is not better than that one. Where there is too much
to search, a solver of integer programs does it with cuts of its own. Beyond `SEARCHED_BIDDERS`, whole rows
near the relaxation's parts are taken, few of which are not whole. The bound limits how much better another
assignment could be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.policies.themis.auction.prices import Relaxation, cost, relax, search_whole
from scheduler.core.policies.themis.auction.table import Entry, Good, Tables

#: Sums of logarithms that differ by less are equal.
EQUAL = 1e-9
#: A part above this in the relaxation counts as the whole row.
WHOLE = 1 - 1e-6
#: With more bidders whole rows are only sought near the relaxation.
SEARCHED_BIDDERS = 1_000

#: For each bidder the place of its entry; None: it gets nothing.
ChosenRows = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """An assignment of whole rows."""

    chosen: ChosenRows
    #: Sum over bidders of the logarithm of the row's worth relative to getting nothing.
    value: float
    #: No assignment has more.
    bound: float
    prices: Mapping[Good, float]

    @property
    def exact(self) -> bool:
        """Return whether no assignment is better."""
        return self.bound <= self.value + EQUAL


def assign(tables: Tables, most_choices: int) -> Assignment:
    """Return an assignment, the best one where the search finds it within `most_choices` choices.

    Among equally good ones, it is the one that serves the first bidders best.
    """
    free = _if_all_get_their_best(tables)
    if free is not None:
        return free
    relaxed = relax(tables)
    near = _whole(tables, relaxed)
    value, bound = value_of(tables, near), relaxed.bound
    if most_choices:
        search = _Search(tables, relaxed, value, most_choices)
        if search.best is not None:
            near, value = search.best, value_of(tables, search.best)
        if search.complete:
            return Assignment(near, value, value, relaxed.prices)
    active = sum([1 for table in tables.tables if table])
    if bound > value + EQUAL and active <= SEARCHED_BIDDERS and (found := search_whole(tables)) is not None:
        reached = value_of(tables, found[0])
        bound = min(bound, found[1])
        if reached > value and is_possible(tables, found[0]):
            near, value = found[0], reached
    return Assignment(near, value, max(bound, value), relaxed.prices)


def is_possible(tables: Tables, chosen: ChosenRows) -> bool:
    """Return whether the supply suffices for the entry of each bidder."""
    left = dict(tables.supply)
    for table, place in zip(tables.tables, chosen, strict=True):
        if place is not None:
            _take(table[place], left, 1)
    return all(pieces >= 0 for pieces in left.values())


def value_of(tables: Tables, chosen: ChosenRows) -> float:
    """Return the sum of what all bidders gain."""
    return sum(
        [table[place].gain for table, place in zip(tables.tables, chosen, strict=True) if place is not None]
    )


def _if_all_get_their_best(tables: Tables) -> Assignment | None:
    """Return the assignment in which every bidder gets its best row, if the supply suffices."""
    needed: dict[Good, int] = {}
    for table in tables.tables:
        for good, pieces in table[0].takes.items() if table else ():
            needed[good] = needed.get(good, 0) + pieces
    if any(pieces > tables.supply[good] for good, pieces in needed.items()):
        return None
    chosen = tuple([0 if table else None for table in tables.tables])
    value = value_of(tables, chosen)
    return Assignment(chosen, value, value, dict.fromkeys(tables.goods, 0.0))


class _Search:
    """Depth first, the bidders in their order, the best rows first."""

    def __init__(self, tables: Tables, relaxed: Relaxation, known: float, most_choices: int) -> None:
        #: Only bidders that bid for anything.
        self._bidders = [bidder for bidder, table in enumerate(tables.tables) if table]
        self._all, self._left = len(tables.tables), dict(tables.supply)
        self._tables = [tables.tables[bidder] for bidder in self._bidders]
        self._losses = [_losses(table, relaxed.prices) for table in self._tables]
        self._bound, self._choices = relaxed.bound, most_choices
        #: The value that an assignment must exceed: at first that of the known one, within rounding, then
        #: better ones.
        self._aim = known - EQUAL
        self._chosen: list[int | None] = []
        self.best: ChosenRows | None = None
        self._look(0.0, 0.0)
        #: Whether all that could be better was searched.
        self.complete = self._choices > 0

    def _look(self, value: float, lost: float) -> None:
        depth = len(self._chosen)
        if depth == len(self._tables):
            if value > self._aim:
                won = dict(zip(self._bidders, self._chosen, strict=True))
                self.best, self._aim = tuple(map(won.get, range(self._all))), value + EQUAL
            return
        table, losses = self._tables[depth], self._losses[depth]
        for place in range(len(table) + 1):
            self._choices -= 1
            if self._choices <= 0:
                return
            if self._bound - lost - losses[place] <= self._aim:
                continue
            entry = table[place] if place < len(table) else None
            if entry is None:
                self._chosen.append(None)
                self._look(value, lost + losses[place])
            elif _fits(entry, self._left):
                _take(entry, self._left, 1)
                self._chosen.append(place)
                self._look(value + entry.gain, lost + losses[place])
                _take(entry, self._left, -1)
            else:
                continue
            self._chosen.pop()


def _losses(table: Sequence[Entry], prices: Mapping[Good, float]) -> list[float]:
    """Return how much less net gain each entry, and last getting nothing, has than the best of them."""
    net = [*(entry.gain - cost(entry.takes, prices) for entry in table), 0.0]
    return [max(net) - gained for gained in net]


def _whole(tables: Tables, relaxed: Relaxation) -> ChosenRows:
    """Return whole rows: first those whole in the relaxation, then those with the most gain for their price.

    Last, each bidder moves up to the best row for which the supply suffices.
    """
    left = dict(tables.supply)
    chosen: list[int | None] = [None] * len(tables.tables)
    for bidder, (place, part) in enumerate(relaxed.most):
        if part >= WHOLE and _fits(tables.tables[bidder][place], left):
            chosen[bidder] = place
            _take(tables.tables[bidder][place], left, 1)
    waiting = [bidder for bidder, place in enumerate(chosen) if place is None and tables.tables[bidder]]
    ranks = {bidder: _worth_its_price(tables.tables[bidder], relaxed.prices) for bidder in waiting}
    for bidder in sorted(waiting, key=lambda bidder: (-ranks[bidder], bidder)):
        _move_up(bidder, tables, chosen, left)
    for bidder in range(len(chosen)):
        if chosen[bidder]:
            _move_up(bidder, tables, chosen, left)
    return tuple(chosen)


def _worth_its_price(table: Sequence[Entry], prices: Mapping[Good, float]) -> float:
    return max([entry.gain / (cost(entry.takes, prices) + EQUAL) for entry in table])


def _move_up(bidder: int, tables: Tables, chosen: list[int | None], left: dict[Good, int]) -> None:
    table, place = tables.tables[bidder], chosen[bidder]
    if place is not None:
        _take(table[place], left, -1)
    for better in range(len(table) if place is None else place + 1):
        if _fits(table[better], left):
            _take(table[better], left, 1)
            chosen[bidder] = better
            return


def _fits(entry: Entry, left: Mapping[Good, int]) -> bool:
    return all(pieces <= left[good] for good, pieces in entry.takes.items())


def _take(entry: Entry, left: dict[Good, int], times: int) -> None:
    for good, pieces in entry.takes.items():
        left[good] -= times * pieces
