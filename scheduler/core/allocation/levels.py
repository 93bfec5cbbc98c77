"""Raise all jobs together: the linear program under max-min fairness, makespan and their kin."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from scheduler.core.allocation.by_prices import hand_out_by_prices, raise_by_prices
from scheduler.core.allocation.errors import SolverError
from scheduler.core.allocation.frame import SLACK, More, best_shares, floors, within
from scheduler.core.allocation.instance import Flags, Floats
from scheduler.core.allocation.linear import LARGE
from scheduler.core.allocation.polytope import Polytope
from scheduler.core.allocation.terms import one

#: From this many groups on, prices are faster than one program over all jobs.
PRICES_FROM = 300


@dataclass(frozen=True, slots=True)
class Raised:
    """How far all active jobs came together, and who kept them from going further."""

    height: float
    shares: Floats
    #: Progress of a job, by group.
    progress: Floats
    #: How much of the responsibility for the height each group has; sums to 1. Who has a part of it can
    #: not rise in any optimum (complementary slackness).
    blame: Floats


def raise_levels(
    polytope: Polytope,
    pace: Floats,
    base: Floats | None = None,
    floor: Floats | None = None,
    large: int = LARGE,
) -> Raised:
    """Maximise z such that each job makes progress base + pace·z, and none less than its floor.

    Groups with pace zero are not raised. At least one group must have a positive pace.
    """
    base = np.zeros(polytope.groups) if base is None else base
    floor = np.zeros(polytope.groups) if floor is None else floor
    wanted = (pace > 0) | (floor > 0)
    if 2 * wanted.sum() < polytope.groups and not polytope.paired.any():
        # In a hierarchy of queues most jobs are not up yet: they need no columns.
        part, columns = polytope.without_others(wanted)
        raised = raise_levels(part, pace[wanted], base[wanted], floor[wanted], large)
        return Raised(
            raised.height,
            _back(raised.shares, columns),
            _back(raised.progress, wanted),
            _back(raised.blame, wanted),
        )
    if _by_prices(polytope) and not base.any() and not floor.any():
        with suppress(SolverError):
            shares, blame = raise_by_prices(polytope, pace)
            return _raised(polytope, within(polytope, shares), pace, base, blame)
    active = np.flatnonzero(pace > 0)
    # No job rises above its best, so this is an upper bound of z, and z is measured in parts of it.
    bound = max(float(((polytope.best - base)[active] / pace[active]).min()), 1e-12)
    expected = np.where(pace > 0, base + pace * bound, floor)
    level = More(
        polytope.progress.only(active).times(-1 / expected[active]),
        one(pace[active] * bound / expected[active]),
        -base[active] * (1 - SLACK) / expected[active],
    )
    rest = np.where(pace > 0, 0.0, floor)
    found = best_shares(
        polytope,
        np.zeros(polytope.columns),
        level,
        floors(polytope, rest),
        expected=expected,
        further_reward=np.ones(1),
        large=large,
    )
    blame = np.zeros(polytope.groups)
    blame[active] = np.maximum(found.duals[: len(active)], 0.0) * pace[active] * bound / expected[active]
    return _raised(polytope, found.shares, pace, base, blame)


def _raised(polytope: Polytope, shares: Floats, pace: Floats, base: Floats, blame: Floats) -> Raised:
    progress = polytope.progress.of(shares)
    active = pace > 0
    height = float(((progress - base)[active] / pace[active]).min())
    return Raised(max(height, 0.0), shares, progress, blame)


def _by_prices(polytope: Polytope) -> bool:
    return polytope.groups >= PRICES_FROM and not polytope.paired.any()


def _back(values: Floats, wanted: Flags) -> Floats:
    """Return the values in the places that are wanted, and zeros elsewhere."""
    whole = np.zeros(len(wanted))
    whole[wanted] = values
    return whole


def hand_out(polytope: Polytope, floor: Floats, shares: Floats | None = None) -> Floats:
    """Return the shares of most progress in sum in which no job makes less than its floor.

    The second stage of all objectives that only look at the worst-off: its optimum is Pareto-efficient, and
    what is left over goes where it does most. With shares that keep the floors, which the first stage has, a
    large problem is solved faster.
    """
    if shares is not None and _by_prices(polytope):
        with suppress(SolverError):
            return within(polytope, hand_out_by_prices(polytope, floor, shares))
    reward = polytope.progress.together(polytope.size, polytope.columns)
    return best_shares(polytope, reward, floors(polytope, floor), expected=floor).shares
