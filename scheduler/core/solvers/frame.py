"""A polytope as the rows of a linear program, scaled so that jobs that need little are as exact as others.

A job that needs a millionth of a GPU gets it to six digits only when its columns are measured in millionths.
So each job's columns are scaled by the share that is expected to be enough for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.core.solvers.instance import Floats
from scheduler.core.solvers.linear import LARGE, maximise
from scheduler.core.solvers.polytope import Polytope
from scheduler.core.solvers.terms import Terms, nothing

#: The least scale of a job's columns; with less, the solver would drop the job's use of GPUs as zero.
LEAST_SCALE = 1e-4
#: How far below its floor a job may end up, relatively: ten times the solver's own error.
SLACK = 1e-8


@dataclass(frozen=True, slots=True)
class More:
    """Rows besides those of the polytope: terms <= upper."""

    #: Terms over the columns of the polytope, and over further variables.
    shares: Terms
    further: Terms
    upper: Floats


@dataclass(frozen=True, slots=True)
class BestShares:
    """Shares by column, the further variables, and the duals of the rows of `More`."""

    shares: Floats
    further: Floats
    duals: Floats


def lower_bounds(polytope: Polytope, lower: Floats) -> More:
    """Return the rows that give each job at least this progress; none where that is zero."""
    chosen = np.flatnonzero(lower > 0)
    terms = polytope.progress.only(chosen).times(-1 / lower[chosen])
    return More(terms, nothing(len(chosen)), np.full(len(chosen), SLACK - 1.0))


def best_shares(
    polytope: Polytope,
    reward: Floats,
    *rows: More,
    expected: Floats | None = None,
    further_reward: Floats | None = None,
    further_lower: float = 0.0,
    large: int = LARGE,
) -> BestShares:
    """Return what maximises reward·shares + further_reward·further under the rows of the polytope and `more`.

    `expected` is the progress that is about enough for a job of each group; only the scaling uses it.
    `large` is for the solver (module `linear`).
    Raises SolverError when nothing satisfies all rows.
    """
    scale, size = _scale(polytope, expected)
    further = np.zeros(0) if further_reward is None else further_reward
    polytope_rows = _polytope_rows(polytope, scale, size)
    lower = np.concatenate([np.zeros(polytope.columns), np.full(len(further), further_lower)])
    rewards = np.concatenate([reward * scale, further])
    # The largest reward is 1, so that the solver's tolerance means the same for all objectives.
    largest = float(np.abs(rewards).max(initial=0.0)) or 1.0
    terms, upper = joined([*polytope_rows, *rows], scale)
    found = maximise(rewards / largest, terms, upper, lower, large)
    own = sum(len(part.upper) for part in polytope_rows)
    return BestShares(
        shares=within(polytope, found.values[: polytope.columns] * scale),
        further=found.values[polytope.columns :],
        duals=found.duals[own:] * largest,
    )


def within(polytope: Polytope, shares: Floats) -> Floats:
    """Return the shares without the solver's rounding: none negative, and time and GPUs not exceeded."""
    shares = np.maximum(shares, 0.0)
    time = polytope.time.of(shares) / polytope.size
    used = polytope.use.of(shares) / np.where(polytope.gpus > 0, polytope.gpus, 1.0)
    over = max(time.max(initial=1.0), used.max(initial=1.0))
    repaired: Floats = shares / over
    return repaired


def _scale(polytope: Polytope, expected: Floats | None) -> tuple[Floats, Floats]:
    """Return the scale of each column, and of each group."""
    part = np.ones(polytope.groups)
    if expected is not None:
        part = np.where(expected > 0, np.clip(expected / polytope.best, LEAST_SCALE, 1.0), 1.0)
    size = part * polytope.size
    return np.minimum(size[polytope.first], size[polytope.second]), size


def _polytope_rows(polytope: Polytope, scale: Floats, size: Floats) -> list[More]:
    """Return the rows of GPUs and of time, each scaled so that its largest coefficient is about one."""
    use, time = polytope.use, polytope.time
    largest = np.full(use.rows, 1e-300)
    np.maximum.at(largest, use.row, use.value * scale[use.column])
    return [
        More(use.times(1 / largest), nothing(use.rows), polytope.gpus / largest),
        More(time.times(1 / size), nothing(time.rows), polytope.size / size),
    ]


def joined(blocks: list[More], scale: Floats) -> tuple[Terms, Floats]:
    """Return all rows one below the other, with the further variables after the shares."""
    upper = np.concatenate([block.upper for block in blocks])
    starts = np.cumsum([0, *[len(block.upper) for block in blocks]])
    row, column, value = [], [], []
    for start, block in zip(starts, blocks, strict=False):
        row += [block.shares.row + start, block.further.row + start]
        column += [block.shares.column, block.further.column + len(scale)]
        value += [block.shares.value * scale[block.shares.column], block.further.value]
    return Terms(np.concatenate(row), np.concatenate(column), np.concatenate(value), len(upper)), upper
