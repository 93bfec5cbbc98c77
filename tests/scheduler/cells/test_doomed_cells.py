"""Cells that could only be had with broken hardware are counted exactly."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cells.chains import Cell, Chain
from scheduler.core.cells.compiling import compiled
from scheduler.core.model.cell_specification import CellType, PhysicalCell, Specification
from scheduler.virtual_clusters.cells.selectors import Owners, Use, WholeCells

#: Two nodes of two pairs of GPUs: cells of 8, 4, 2 and 1.
CHAIN: Chain = compiled(
    Specification(
        types=(
            CellType(name="PAIR", of="V100", count=2),
            CellType(name="NODE", of="PAIR", count=2, node=True),
            CellType(name="RACK", of="NODE", count=2),
        ),
        physical=(PhysicalCell(type="RACK", name="r", nodes=("a", "b")),),
    )
).chains["RACK"]


def lacking(bad: set[int], owed: list[int], had: list[Cell] | None = None) -> list[int]:
    use = Use(bad=sum(1 << gpu for gpu in bad))
    return WholeCells(CHAIN, use, Owners(dict.fromkeys(had or [], "vision"))).lacking(owed)


def test_one_broken_gpu_dooms_what_needs_all_of_its_node() -> None:
    assert lacking({0}, [0, 0, 2, 0]) == [0, 0, 1, 0]
    assert lacking({0}, [0, 3, 0, 0]) == [0, 0, 0, 0]
    assert lacking({0}, [0, 2, 1, 0]) == [0, 1, 0, 0]
    assert lacking({0}, [0, 0, 0, 1]) == [0, 0, 0, 1]


def test_cells_that_somebody_has_are_not_to_be_had() -> None:
    assert lacking({0}, [0, 0, 1, 0], had=[Cell("RACK", 2, 1)]) == [0, 0, 1, 0]


def most_cells(free: frozenset[int], owed: tuple[int, ...]) -> bool:
    """Whether disjoint cells can be found for all that is owed, by trying everything."""
    for level in range(len(owed) - 1, -1, -1):
        if owed[level]:
            rest = (*owed[:level], owed[level] - 1, *owed[level + 1 :])
            cells = [frozenset(CHAIN.within(level, n, 0)) for n in range(CHAIN.count(level))]
            return any(cell <= free and most_cells(free - cell, rest) for cell in cells)
    return True


@given(
    st.sets(st.integers(0, 7), max_size=4),
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)),
)
def test_none_is_doomed_exactly_when_all_can_be_had(bad: set[int], owed: tuple[int, ...]) -> None:
    doomed = lacking(bad, list(owed))
    free = frozenset(range(8)) - bad
    assert most_cells(free, owed) is not any(doomed)
    assert most_cells(free, tuple(n - gone for n, gone in zip(owed, doomed, strict=True)))
    assert all(0 <= gone <= n for n, gone in zip(owed, doomed, strict=True))
