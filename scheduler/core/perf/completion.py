"""Estimate what is missing in a row of throughputs from the rows of other job classes.

The method is that of Gavel's throughput estimator (OSDI'20), with the rank, regulariser and distance of its
published code: complete the rows by regularised low-rank factors, then take the reference nearest by cosine.
Gavel completes throughputs beside partners; this module completes throughputs by GPU model and size of the
gang. The steps are:

1. Each reference row is divided by its largest value. Factors of rank 10 at most are fitted to the known
   cells by alternating ridge regression (regulariser 0.01). It starts from the singular vectors of the rows,
   with gaps filled by the column's mean. Unknown cells come from the factors, clipped to [0, 1].
2. The new row, divided by its largest known value, is folded in by one ridge regression on the columns'
   factors. Gavel refits everything with each new row; here the factors depend only on the references, so that
   they serve thousands of rows.
3. The estimate is the reference whose completed row has the smallest angle to the completed new row (the
   first of several), scaled by the geometric mean of their ratios over the known cells of the new row.

All values are positive: a 0 ("does not run there") says nothing about other job classes and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduler.core.perf.throughput import JobClass

RANK = 10
REGULARISER = 1e-2
#: The number of alternations; each fits rows, then columns.
ITERATIONS = 30
#: The most references, those with the most known cells; more cost time and add little.
MOST_REFERENCES = 256
MOST_COLUMNS = 64
#: The least value of a cell, relative to the fastest of its row.
_SLOWEST = 1e-6

#: A GPU model and the number of GPUs of a gang on it.
Cell = tuple[str, int]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RowEstimate:
    """Estimates for the cells of one row."""

    #: By column of the references, including the known cells of the row.
    values: Mapping[Cell, float]
    #: The cosine between the row and the reference behind the estimate, 0 to 1.
    likeness: float


class References:
    """Rows to compare with, by job class; each has positive throughputs by cell."""

    def __init__(self, rows: Mapping[JobClass, Mapping[Cell, float]]) -> None:
        useful = [job_class for job_class, row in rows.items() if compares(row)]
        # Sorting is stable: among rows with equally many cells, the first win.
        useful = sorted(useful, key=lambda job_class: -len(rows[job_class]))[:MOST_REFERENCES]
        seen: dict[Cell, int] = {}
        for job_class in useful:
            for column in rows[job_class]:
                seen[column] = seen.get(column, 0) + 1
        columns = sorted(seen, key=lambda column: -seen[column])[:MOST_COLUMNS]
        self._position = {column: place for place, column in enumerate(columns)}
        cells = {
            job_class: tuple([_rounded(rows[job_class].get(column, 0.0)) for column in columns])
            for job_class in useful
        }
        cells = {job_class: row for job_class, row in cells.items() if any(row)}
        self._place = {job_class: place for place, job_class in enumerate(cells)}
        self._matrix = tuple(cells.values())

    def estimate(self, known: Mapping[Cell, float], but: JobClass | None = None) -> RowEstimate | None:
        """Return estimates for a row with some known positive throughputs; None if nothing compares with it.

        `but` is the reference that is left out: the row's own job class.
        """
        shared = [column for column in known if column in self._position]
        others = len(self._place) - (but in self._place)
        if not shared or not others:
            return None
        columns, complete, lengths = _fit(self._matrix)
        places = np.array([self._position[column] for column in shared])
        values = np.array([known[column] for column in shared])
        row = np.clip(columns @ _ridge(columns[places], values / values.max()), 0.0, 1.0)
        row[places] = values / values.max()
        likeness = complete @ row / (lengths * np.linalg.norm(row))
        if but in self._place:
            likeness[self._place[but]] = -1.0
        # Rounding makes ties of references that differ by a rounding error; the first of them wins.
        nearest = int(np.argmax(np.round(likeness, 9)))
        scale = float(np.exp(np.mean(np.log(values) - np.log(complete[nearest, places]))))
        estimates = {
            column: _rounded(scale * float(complete[nearest, at]), 6) for column, at in self._position.items()
        }
        return RowEstimate(estimates, min(1.0, max(0.0, float(likeness[nearest]))))


def compares(row: Mapping[Cell, float]) -> bool:
    """Return whether a row has two models for gangs of one size; other rows would spoil the factors."""
    sizes = [gpus for _, gpus in row]
    return len(set(sizes)) < len(sizes)


# Measurements change every minute, but hardly ever in their first three digits, so the cache mostly hits.
@lru_cache(maxsize=4)
def _fit(matrix: tuple[tuple[float, ...], ...]) -> tuple[Floats, Floats, Floats]:
    """Return the columns' factors (columns x rank), the completed rows (at most 1), and their lengths."""
    cells = np.array(matrix)
    cells /= cells.max(axis=1, keepdims=True)
    known = cells > 0
    means = cells.sum(axis=0) / known.sum(axis=0)
    _, strengths, right = np.linalg.svd(np.where(known, cells, means), full_matrices=False)
    rank = min(RANK, len(strengths))
    columns = right[:rank].T * np.sqrt(strengths[:rank])
    rows = np.zeros((len(cells), rank))
    for _ in range(ITERATIONS):
        rows = _ridges(columns, cells, known)
        columns = _ridges(rows, cells.T, known.T)
    guessed = np.clip(rows @ columns.T, _SLOWEST, 1.0)
    complete = np.where(known, np.maximum(cells, _SLOWEST), guessed)
    return columns, complete, np.linalg.norm(complete, axis=1)


def _ridges(factors: Floats, cells: Floats, known: NDArray[np.bool_]) -> Floats:
    """Return factors, rows x rank, that fit the known cells of every row to the factors of the columns."""
    squares = np.einsum("nc,ca,cb->nab", known, factors, factors, optimize=True)
    squares += REGULARISER * np.eye(factors.shape[1])
    return np.asarray(np.linalg.solve(squares, (cells @ factors)[..., None])[..., 0])


def _ridge(factors: Floats, values: Floats) -> Floats:
    squares = factors.T @ factors + REGULARISER * np.eye(factors.shape[1])
    return np.asarray(np.linalg.solve(squares, factors.T @ values))


def _rounded(value: float, digits: int = 3) -> float:
    return float(f"{value:.{digits - 1}e}")
