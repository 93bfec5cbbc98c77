"""A polytope as the rows of a linear program, scaled so that jobs which need little count as much as others.

A job that must get a millionth of a GPU is served to six digits only when its columns are measured in
millionths; so each job's columns are scaled by the share that is expected to be enough for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array, hstack, vstack

from scheduler.core.allocation.instance import Floats
from scheduler.core.allocation.linear import maximise
from scheduler.core.allocation.polytope import Polytope

#: No job's columns are scaled by less, or the solver would drop its use of GPUs as nought.
LEAST_SCALE = 1e-4
#: How much less than its floor a job may be given, relatively: the solver's own error, and no more.
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class More:
    """Rows besides those of the polytope, over its columns and then over variables of their own."""

    #: Over the columns of the polytope, not scaled.
    columns: csr_array
    #: Over the further variables.
    further: csr_array
    upper: Floats


@dataclass(frozen=True, slots=True)
class Found:
    """Shares by column, the further variables, and the duals of the rows of `More`."""

    shares: Floats
    further: Floats
    duals: Floats


def floors(polytope: Polytope, floor: Floats) -> More:
    """Return the rows that give each job at least so much progress; nothing where the floor is zero."""
    wanted = np.flatnonzero(floor > 0)
    by = diags_array(-1 / floor[wanted])
    return More(
        csr_array(by @ polytope.progress[wanted]),
        csr_array((len(wanted), 0)),
        np.full(len(wanted), SLACK - 1.0),
    )


def best_shares(
    polytope: Polytope,
    reward: Floats,
    *rows: More,
    expected: Floats | None = None,
    further_reward: Floats | None = None,
    further_lower: Floats | None = None,
) -> Found:
    """Return what maximises reward·shares + further_reward·further under the polytope's rows and more.

    `expected` is the progress that is about enough for a job of each group; only the scaling uses it.
    Raises SolverError when nothing satisfies all rows.
    """
    scale, size = _scale(polytope, expected)
    further = np.zeros(0) if further_reward is None else further_reward
    blocks, upper = _polytope_rows(polytope, scale, size, len(further))
    by_scale = diags_array(scale)
    for more in rows:
        padding = csr_array((more.columns.shape[0], len(further) - more.further.shape[1]))
        blocks.append(csr_array(hstack([more.columns @ by_scale, more.further, padding])))
        upper.append(more.upper)
    lower = np.concatenate(
        [np.zeros(polytope.columns), np.zeros(len(further)) if further_lower is None else further_lower]
    )
    rewards = np.concatenate([reward * scale, further])
    # The largest reward is 1, so that the solver's tolerance means the same for all objectives.
    largest = float(np.abs(rewards).max(initial=0.0)) or 1.0
    found = maximise(rewards / largest, csr_array(vstack(blocks)), np.concatenate(upper), lower)
    shares = within(polytope, found.values[: polytope.columns] * scale)
    own = sum(len(part) for part in upper[:2])
    return Found(shares, found.values[polytope.columns :], found.duals[own:] * largest)


def within(polytope: Polytope, shares: Floats) -> Floats:
    """Return the shares without the solver's last error: not negative, nobody above all its time or GPUs."""
    shares = np.maximum(shares, 0.0)
    time = polytope.time @ shares / polytope.size
    used = polytope.use @ shares / np.where(polytope.gpus > 0, polytope.gpus, 1.0)
    over = max(time.max(initial=1.0), used.max(initial=1.0))
    repaired: Floats = shares / over
    return repaired


def _scale(polytope: Polytope, expected: Floats | None) -> tuple[Floats, Floats]:
    """Return the scale of each column, and of each group."""
    if expected is None:
        part = np.ones(polytope.groups)
    else:
        part = np.where(expected > 0, np.clip(expected / polytope.best, LEAST_SCALE, 1.0), 1.0)
    size = part * polytope.size
    return np.minimum(size[polytope.first], size[polytope.second]), size


def _polytope_rows(
    polytope: Polytope, scale: Floats, size: Floats, further: int
) -> tuple[list[csr_array], list[Floats]]:
    by_scale = diags_array(scale)
    use = polytope.use @ by_scale
    largest = np.maximum(use.max(axis=1).toarray().reshape(-1), 1e-300)
    time = diags_array(1 / size) @ polytope.time @ by_scale
    return [
        csr_array(hstack([diags_array(1 / largest) @ use, csr_array((use.shape[0], further))])),
        csr_array(hstack([time, csr_array((time.shape[0], further))])),
    ], [polytope.gpus / largest, polytope.size / size]


def one_column(values: Floats) -> csr_array:
    """Return a matrix of one column."""
    return csr_array(values[:, None])


def identity(count: int) -> csr_array:
    """Return the identity as a sparse matrix."""
    return csr_array(eye_array(count))
