"""The only file that knows the solver of linear programs: HiGHS, by way of SciPy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from scheduler.core.solvers.errors import SolverError
from scheduler.core.solvers.instance import Floats
from scheduler.core.solvers.terms import Terms

#: How far a row may be off, after scaling. HiGHS's default, 1e-7, shows in the sixth digit of an objective;
#: it is for programs whose bounds come from another solution and miss each other by a rounding error.
TOLERANCES = (1e-9, 1e-7)
#: The least rows from which the interior point method is faster: where jobs have floors or levels; for the
#: levels of finish-time fairness; for a sum over the polytope (measured with 256 to 8,192 jobs).
LARGE, LARGE_FINISH_TIMES, LARGE_SUM = 20_000, 2_000, 1_000


@dataclass(frozen=True, slots=True)
class LinearOptimum:
    """The optimum, and what one more unit of each row's upper bound would add to it."""

    values: Floats
    duals: Floats


def maximise(reward: Floats, rows: Terms, upper: Floats, lower: Floats, large: int = LARGE) -> LinearOptimum:
    """Return the optimum of reward·v over rows·v <= upper, v >= lower (which may be -inf).

    From `large` rows on, the interior point method is tried first.
    Raises SolverError when neither method finds an optimum.
    """
    # SciPy takes a third of a second to load, and most processes that know this never compute with it.
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    matrix = csc_array((rows.value, (rows.row, rows.column)), (rows.rows, len(reward)))
    methods = ["highs-ipm", "highs-ds"] if len(upper) >= large else ["highs-ds", "highs-ipm"]
    message = ""
    for tolerance, method in product(TOLERANCES, methods):
        found = linprog(
            -reward,
            A_ub=matrix,
            b_ub=upper,
            bounds=np.column_stack([lower, np.full(len(lower), np.inf)]),
            method=method,
            options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
        )
        if found.status == 0:
            return LinearOptimum(np.asarray(found.x), -np.asarray(found.ineqlin.marginals))
        message = f"{method}: {found.message}"
    raise SolverError(f"the linear program has no solution, {message}")
