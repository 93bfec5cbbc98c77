"""Raise all jobs together: the linear program behind max-min fairness, makespan and similar objectives."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from scheduler.core.solvers.errors import SolverError
from scheduler.core.solvers.frame import SLACK, More, best_shares, lower_bounds, within
from scheduler.core.solvers.instance import Flags, Floats
from scheduler.core.solvers.interior import EXACT, Optimum, Program, optimum
from scheduler.core.solvers.leftover import evened, is_alike_everywhere
from scheduler.core.solvers.linear import LARGE
from scheduler.core.solvers.polytope import Polytope
from scheduler.core.solvers.terms import one

#: The least groups from which the interior point method is faster: for one stage, and for both stages in one
#: program; and the most models for which it is.
INSIDE_FROM, FAIR_INSIDE_FROM, MOST_MODELS = 40, 2, 24
#: The least shares of a job at the start; lower ones would take many steps.
LEAST_BEGINNING = 1e-4
#: The rewards of the height, relative to all the progress there could be, that are tried in this order until
#: leaving the floors or the highest level costs more than it brings.
PENALTIES = (10.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Levels:
    """How far all active jobs rose together, and which groups kept them from rising further."""

    height: float
    shares: Floats
    #: Progress of a job, by group.
    progress: Floats
    #: Each group's part in limiting the height; sums to 1. A group with a positive part rises no further in
    #: any optimum (complementary slackness).
    blame: Floats


def raise_levels(
    polytope: Polytope,
    pace: Floats,
    base: Floats | None = None,
    lower: Floats | None = None,
    large: int = LARGE,
) -> Levels:
    """Maximise z such that each job makes at least progress base + pace·z, and none falls below its floor.

    Groups with pace zero are not raised. At least one group must have a positive pace.
    """
    base = np.zeros(polytope.groups) if base is None else base
    lower = np.zeros(polytope.groups) if lower is None else lower
    chosen = (pace > 0) | (lower > 0)
    if 2 * chosen.sum() < polytope.groups and not polytope.paired.any():
        # In a hierarchy of queues it is not the turn of most jobs yet, so they need no columns.
        part, columns = polytope.without_others(chosen)
        raised = raise_levels(part, pace[chosen], base[chosen], lower[chosen], large)
        return Levels(
            raised.height,
            _back(raised.shares, columns),
            _back(raised.progress, chosen),
            _back(raised.blame, chosen),
        )
    if _is_for_inside(polytope, INSIDE_FROM) and not base.any() and not lower.any():
        with suppress(SolverError):
            return _raised_inside(polytope, pace)
    active = np.flatnonzero(pace > 0)
    # No job rises above its best, so this is an upper bound of z, and the unit in which z is measured.
    bound = max(float(((polytope.best - base)[active] / pace[active]).min()), 1e-12)
    expected = np.where(pace > 0, base + pace * bound, lower)
    level = More(
        polytope.progress.only(active).times(-1 / expected[active]),
        one(pace[active] * bound / expected[active]),
        -base[active] * (1 - SLACK) / expected[active],
    )
    rest = np.where(pace > 0, 0.0, lower)
    found = best_shares(
        polytope,
        np.zeros(polytope.columns),
        level,
        lower_bounds(polytope, rest),
        expected=expected,
        further_reward=np.ones(1),
        large=large,
    )
    blame = np.zeros(polytope.groups)
    blame[active] = np.maximum(found.duals[: len(active)], 0.0) * pace[active] * bound / expected[active]
    return _raised(polytope, found.shares, pace, base, blame)


def _raised(polytope: Polytope, shares: Floats, pace: Floats, base: Floats, blame: Floats) -> Levels:
    progress = polytope.progress.of(shares)
    active = pace > 0
    height = float(((progress - base)[active] / pace[active]).min())
    return Levels(max(height, 0.0), shares, progress, blame)


def _is_for_inside(polytope: Polytope, groups: int) -> bool:
    few = len(polytope.gpus) <= MOST_MODELS
    return few and polytope.groups >= groups and not polytope.paired.any()


def _raised_inside(polytope: Polytope, pace: Floats) -> Levels:
    active = pace > 0
    # Twice what no job can exceed, so that the jobs' own rows end the rise.
    bound = 2 * float((polytope.best[active] / pace[active]).min())
    found = _inside(polytope, pace * bound, reward=1.0, is_worth=False)
    shares = within(polytope, polytope.columns_of(found.shares.T))
    return _raised(polytope, shares, pace, np.zeros(polytope.groups), found.blame)


def _inside(polytope: Polytope, level: Floats, *, reward: float, is_worth: bool) -> Optimum:
    """Return how far all groups reach their level; `is_worth` rewards the sum of progress, too."""
    rates = np.zeros((polytope.groups, len(polytope.gpus)))
    rates[polytope.first, polytope.model] = polytope.rate_first
    # Models that are alike to all jobs become one, so that prices are unique; its shares are then divided
    # among them by their GPUs.
    there = np.flatnonzero(polytope.gpus > 0)
    alike = (rates[:, there, None] == rates[:, None, there]).all(axis=0).argmax(axis=1)
    first, one_of = np.unique(there[alike], return_inverse=True)
    rates = np.ascontiguousarray(rates[:, first].T)
    gpus = np.bincount(one_of, polytope.gpus[there])
    expected = np.where(level > 0, level, 1.0)
    program = Program(
        opened=rates > 0,
        use=np.where(rates > 0, polytope.size * polytope.gang / gpus[:, None], 0.0),
        worth=rates * (polytope.size / polytope.gpus.sum() if is_worth else 0.0),
        progress=np.where(level > 0, rates / expected, 0.0),
        pace=np.where(level > 0, 1.0, 0.0),
        reward=reward,
        enough=np.where(level > 0, np.clip(expected / polytope.best, LEAST_BEGINNING, 1.0), 1.0),
        exact=SLACK if is_worth else EXACT,
    )
    found = optimum(program)
    shares = np.zeros((len(polytope.gpus), polytope.groups))
    shares[there] = found.shares[one_of] * (polytope.gpus[there] / gpus[one_of])[:, None]
    return replace(found, shares=shares)


def _back(values: Floats, chosen: Flags) -> Floats:
    """Return the values at the chosen places, and zeros elsewhere."""
    whole = np.zeros(len(chosen))
    whole[chosen] = values
    return whole


def fair_shares(polytope: Polytope, pace: Floats) -> Floats:
    """Return, among the shares that raise all jobs with a pace highest, those with the most progress in sum.

    `raise_levels` and `hand_out` become one program where the height is worth so much that it comes first.
    How much that takes is unknown beforehand; afterwards a bound of the height shows whether it was enough.
    """
    if _is_for_inside(polytope, FAIR_INSIDE_FROM) and not is_alike_everywhere(polytope):
        active = pace > 0
        rise = polytope.best[active] / pace[active]
        # Twice, as in `_raised_inside`, what no job can exceed, nor all of them together on all GPUs.
        together = polytope.gpus.sum() / ((polytope.size * polytope.gang)[active] / rise).sum()
        level = pace * (2 * float(min(rise.min(), together)))
        for penalty in PENALTIES:
            with suppress(SolverError):
                found = _inside(polytope, level, reward=penalty, is_worth=True)
                if found.height >= found.highest * (1 - SLACK):
                    return within(polytope, polytope.columns_of(found.shares.T))
    raised = raise_levels(polytope, pace)
    return hand_out(polytope, raised.height * pace)


def hand_out(polytope: Polytope, lower: Floats) -> Floats:
    """Return the shares with the most progress in sum in which no job falls below its floor.

    This is the second stage of all objectives that only consider the worst-off job; its optimum is
    Pareto-efficient. What is left over goes where it does most, or is divided evenly where that does not
    matter (`leftover`).
    """
    if (even := evened(polytope, lower)) is not None:
        return _placed(polytope, even)
    if _is_for_inside(polytope, INSIDE_FROM) and lower.any():
        for penalty in PENALTIES:
            with suppress(SolverError):
                found = _inside(polytope, lower, reward=penalty, is_worth=True)
                if found.height >= 1 - SLACK:
                    return within(polytope, polytope.columns_of(found.shares.T))
    reward = polytope.progress.together(polytope.size, polytope.columns)
    return best_shares(polytope, reward, lower_bounds(polytope, lower), expected=lower).shares


def _placed(polytope: Polytope, progress: Floats) -> Floats:
    """Return shares that yield this progress, for jobs that are equally fast on all their models."""
    part = polytope.gpus[polytope.model] / polytope.gpus.sum()
    if len(polytope.model) == polytope.groups * np.count_nonzero(polytope.gpus):
        # Every job runs on every model.
        return within(polytope, (progress / polytope.best * polytope.size)[polytope.first] * part)
    return best_shares(
        polytope, np.zeros(polytope.columns), lower_bounds(polytope, progress), expected=progress
    ).shares
