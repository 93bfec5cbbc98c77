"""Rows of linear functions as lists of terms: the row, the variable, and the coefficient of each.

Scaling and joining rows is arithmetic on arrays. With SciPy's matrices it took longer than solving a small
program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.core.solvers.instance import Floats

Indices = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms value × variable number `column`, in row `row`; terms of the same row and column add up."""

    row: Indices
    column: Indices
    value: Floats
    rows: int

    def of(self, variables: Floats) -> Floats:
        """Return the value of each row."""
        return np.asarray(np.bincount(self.row, self.value * variables[self.column], self.rows), np.float64)

    def together(self, weight: Floats, columns: int) -> Floats:
        """Return the coefficients of the sum of weight × row."""
        return np.asarray(np.bincount(self.column, self.value * weight[self.row], columns), np.float64)

    def times(self, factor: Floats) -> Terms:
        """Return each row times its factor."""
        return Terms(self.row, self.column, self.value * factor[self.row], self.rows)

    def only(self, chosen: NDArray[np.intp]) -> Terms:
        """Return the chosen rows, numbered from 0 again; `chosen` is in ascending order."""
        number = np.full(self.rows, -1)
        number[chosen] = np.arange(len(chosen))
        row = number[self.row]
        kept = row >= 0
        return Terms(row[kept], self.column[kept], self.value[kept], len(chosen))


def nothing(rows: int) -> Terms:
    """Return rows without a term."""
    none = np.zeros(0, dtype=np.intp)
    return Terms(none, none, np.zeros(0), rows)


def each(values: Floats) -> Terms:
    """Return one row for each value: value × its own variable."""
    number = np.arange(len(values))
    return Terms(number, number, values, len(values))


def one(values: Floats) -> Terms:
    """Return rows of a single variable."""
    return Terms(np.arange(len(values)), np.zeros(len(values), dtype=np.intp), values, len(values))


def single(values: Floats) -> Terms:
    """Return a single row of many variables."""
    return Terms(np.zeros(len(values), dtype=np.intp), np.arange(len(values)), values, 1)
