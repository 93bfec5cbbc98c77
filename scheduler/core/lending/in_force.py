"""What virtual clusters may rely on at an instant: their own guarantees, minus what they lend, plus what they
borrow.

This is a pure function of time, so a guarantee returns to its owner at the stated moment whatever else
happens. Cells change hands by type and number, just as they are owned; hardware is bound to them afterwards.
Where the lender has a cell only as part of a larger one, the smallest larger one is split, and its other
parts stay the lender's. When the loan ends, the lender has the whole cell again. Hardware that can be split
into all owned cells can also be split into the lent ones (cells nest evenly), and a borrower has only what a
lender gave. So sums never change, and what is feasible without loans stays feasible.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.core.cells.chains import Layout
from scheduler.core.cells.compiling import compiled
from scheduler.core.lending.lots import Cells, cells_of, kinds_of
from scheduler.core.model.cell_specification import Specification, VirtualCells
from scheduler.core.model.loan_terms import Lending, Loan, Lot

#: The last moves of cells and the resulting specifications, because every round asks for the same one.
_recent: deque[tuple[Specification, Mapping[str, Cells], Specification]] = deque(maxlen=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantees:
    """What virtual clusters may rely on."""

    #: By virtual cluster and GPU model, including the GPUs of its cells.
    gpus: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cells: Specification | None = None

    @property
    def layout(self) -> Layout | None:
        return None if self.cells is None else compiled(self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Something that a virtual cluster lends without owning it."""

    virtual_cluster: str
    #: "gpus" or "cells", and the model or type.
    part: str
    name: str
    desired: int
    available: int


def own_of(lending: Lending, cells: Specification | None) -> Guarantees:
    """Return the guarantees of virtual clusters without loans; `cells` are those in force, or None."""
    own = None if cells is None else replace(cells, virtual_clusters=lending.own_cells)
    return Guarantees(gpus=lending.own_gpus, cells=_known(own) if own else None)


#: The last specifications of owned cells. Every snapshot makes them again, but each is compiled only once.
_owned: deque[Specification] = deque(maxlen=4)


def _known(specification: Specification) -> Specification:
    for known in _owned:
        if known == specification:
            return known
    _owned.append(specification)
    return specification


def active(loans: Iterable[Loan], now: float) -> tuple[Loan, ...]:
    """Return the loans that have begun and not ended."""
    return tuple([loan for loan in loans if loan.starts_at <= now < loan.ends_at])


def next_change(loans: Iterable[Loan], now: float) -> float | None:
    """Return the next instant at which a loan begins or ends; None when none does."""
    instants = [instant for loan in loans for instant in (loan.starts_at, loan.ends_at)]
    return min([instant for instant in instants if instant > now], default=None)


def in_force(own: Guarantees, loans: Sequence[Loan], now: float) -> Guarantees:
    """Return what each virtual cluster may rely on at that instant.

    A loan that cannot be kept because its lender no longer owns enough does not count. Services refuse
    changes that lead there (`checking`), but a round must go on whatever happened.
    """
    kept: list[Loan] = []
    now_active = active(loans, now)
    if not lacks(own, now_active):
        kept = list(now_active)
    else:
        for loan in sorted(now_active, key=lambda loan: (loan.starts_at, loan.id)):
            if not lacks(own, [*kept, loan]):
                kept.append(loan)
    return _moved(own, kept) if kept else own


def given_and_got(loans: Iterable[Loan]) -> Iterable[tuple[str, str, Lot]]:
    """Yield the giver, the receiver and the lot of each transfer."""
    for loan in loans:
        yield loan.lender, loan.borrower, loan.lot
        if loan.in_return is not None:
            yield loan.borrower, loan.lender, loan.in_return


def lacks(own: Guarantees, loans: Iterable[Loan]) -> list[Lack]:
    """Return what virtual clusters lend without owning it, when all of these loans are in force at once.

    A virtual cluster can lend only what it owns, so the order of the loans does not matter.
    """
    layout = own.layout
    divided = layout.gpu_models if layout is not None else frozenset[str]()
    gpus: dict[str, Counter[str]] = {}
    cells: dict[str, Cells] = {}
    found = []
    for giver, _, lot in given_and_got(loans):
        gpus.setdefault(giver, Counter()).update(lot.gpus)
        cells.setdefault(giver, Counter()).update(cells_of(lot, layout))
        found += [
            Lack(virtual_cluster=giver, part="cells", name=path, desired=count, available=0)
            for path, count in sorted(lot.cells.items())
            if layout is None or len(kinds_of(path, layout)) != 1
        ]
    for giver, counts in gpus.items():
        for model, desired in sorted(counts.items()):
            available = 0 if model in divided else own.gpus.get(giver, {}).get(model, 0)
            if desired > available:
                lack = Lack(
                    virtual_cluster=giver, part="gpus", name=model, desired=desired, available=available
                )
                found.append(lack)
    for giver, taken in cells.items():
        if layout is not None:
            found += _lacking_cells(layout, giver, taken)
    return found


def _lacking_cells(layout: Layout, giver: str, taken: Cells) -> Iterable[Lack]:
    left = Counter(layout.owned.get(giver, {}))
    for kind in _largest_first(taken):
        before = left.copy()
        for done in range(taken[kind]):
            if not _take_one(layout, left, kind):
                yield Lack(
                    virtual_cluster=giver,
                    part="cells",
                    name=name_of(layout, kind),
                    desired=taken[kind],
                    available=done,
                )
                left = before
                break


def _largest_first(cells: Cells) -> list[tuple[str, int]]:
    """Return the kinds of cells, largest first: a large cell is gone once small ones are split out of it."""
    return sorted(cells, key=lambda kind: (-kind[1], kind[0]))


def _take_one(layout: Layout, owned: Cells, kind: tuple[str, int]) -> bool:
    """Take a cell out of those owned, splitting the smallest larger one if necessary."""
    name, level = kind
    chain = layout.chains[name]
    source = next((each for each in range(level, chain.top + 1) if owned[name, each] > 0), None)
    if source is None:
        return False
    owned[name, source] -= 1
    for lower in range(level, source):
        owned[name, lower] += chain.fanouts[lower + 1] - 1
    return True


def split(layout: Layout, owned: Mapping[tuple[str, int], int], taken: Cells) -> Cells | None:
    """Return what is left of cells when some are taken out, splitting larger ones; None if too few."""
    left = Counter(owned)
    for kind in _largest_first(taken):
        for _ in range(taken[kind]):
            if not _take_one(layout, left, kind):
                return None
    return +left


def name_of(layout: Layout, kind: tuple[str, int]) -> str:
    """Return the name of a kind of cells in a lot and in a specification."""
    name, level = kind
    cell_type = layout.chains[name].types[level]
    is_unique = sum(cell_type in chain.types for chain in layout.chains.values()) == 1
    return cell_type if is_unique else f"{name}/{cell_type}"


def _moved(own: Guarantees, loans: Sequence[Loan]) -> Guarantees:
    """Return the guarantees after these loans, whose lenders own everything that they lend."""
    layout = own.layout
    gpus = {vc: Counter(counts) for vc, counts in own.gpus.items()}
    given: dict[str, Cells] = {}
    got: dict[str, Cells] = {}
    for giver, taker, lot in given_and_got(loans):
        gpus.setdefault(giver, Counter()).subtract(lot.gpus)
        gpus.setdefault(taker, Counter()).update(lot.gpus)
        given.setdefault(giver, Counter()).update(cells_of(lot, layout))
        got.setdefault(taker, Counter()).update(cells_of(lot, layout))
    cells = own.cells
    if layout is not None and cells is not None:
        desired = {}
        for vc in given.keys() | got.keys():
            left = split(layout, layout.owned.get(vc, {}), given.get(vc, Counter()))
            assert left is not None
            desired[vc] = left + got.get(vc, Counter())
        cells = _specification(cells, layout, desired)
        after = compiled(cells)
        for vc in desired:
            counts = {model: n for model, n in gpus.get(vc, {}).items() if model not in layout.gpu_models}
            gpus[vc] = Counter(counts | after.guaranteed(vc))
    return Guarantees(
        gpus={vc: {model: n for model, n in sorted(counts.items()) if n} for vc, counts in gpus.items()},
        cells=cells,
    )


def _specification(
    specification: Specification, layout: Layout, desired: Mapping[str, Cells]
) -> Specification:
    """Return the specification in which these virtual clusters own these cells; the same object each time."""
    desired = {vc: cells for vc, cells in desired.items() if cells != layout.owned.get(vc, {})}
    if not desired:
        return specification
    for known, known_desired, found in _recent:
        if known is specification and known_desired == desired:
            return found
    virtual = dict(specification.virtual_clusters)
    for vc, cells in sorted(desired.items()):
        pinned = virtual[vc].pinned if vc in virtual else {}
        counts = {name_of(layout, kind): count for kind, count in sorted(cells.items())}
        virtual[vc] = VirtualCells(cells=counts, pinned=pinned)
    found = replace(specification, virtual_clusters=virtual)
    _recent.append((specification, desired, found))
    return found
