"""The contents of lots: cells by chain and level, GPUs by model, and their cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from scheduler.core.cells.chains import Layout
from scheduler.core.model.loan_terms import Lot, Millicredits

SECONDS_IN_AN_HOUR = 3_600

#: (chain, level) -> cells.
Cells = Counter[tuple[str, int]]


def kinds_of(path: str, layout: Layout) -> list[tuple[str, int]]:
    """Return every (chain, level) that a type of cell, or "topmost type/type", may mean."""
    top, _, kind = path.rpartition("/")
    return [
        (chain.name, chain.types.index(kind))
        for chain in layout.chains.values()
        if kind in chain.types and top in ("", chain.name)
    ]


def cells_of(lot: Lot, layout: Layout | None) -> Cells:
    """Return the cells of a lot; types that are unknown or ambiguous are left out."""
    found: Cells = Counter()
    for path, count in lot.cells.items():
        kinds = [] if layout is None else kinds_of(path, layout)
        if len(kinds) == 1:
            found[kinds[0]] += count
    return found


def gpus_of(lot: Lot, layout: Layout | None) -> dict[str, int]:
    """Return the GPUs of a lot by model, including those of its cells."""
    found = Counter(lot.gpus)
    for (name, level), count in cells_of(lot, layout).items():
        assert layout is not None
        chain = layout.chains[name]
        found[chain.gpu_model] += count * chain.sizes[level]
    return {model: gpus for model, gpus in sorted(found.items()) if gpus}


def cost(price: Millicredits, gpus: int, seconds: float) -> Millicredits:
    """Return the cost of `gpus` GPUs for `seconds`, rounded up; `price` is for a GPU-hour."""
    return math.ceil(price * gpus * seconds / SECONDS_IN_AN_HOUR)


def words_of(lot: Lot) -> str:
    """Return "4 P100" or "4 P100 and 1 V100-NODE"."""
    counts: list[Mapping[str, int]] = [lot.gpus, lot.cells]
    parts = [f"{count} {name}" for each in counts for name, count in sorted(each.items())]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
