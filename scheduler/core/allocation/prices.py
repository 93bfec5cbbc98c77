"""Large problems by prices of GPUs: there are as many jobs as you like, but few models.

With a price for each model's GPUs every job can be looked at by itself: what a progress costs it is the
lower convex hull of its models' points (progress, price), for its time is at most one. So a linear program
over jobs becomes one over prices, of which there are as many as models (Dantzig and Wolfe, 1960): jobs say
what they would do at given prices, and a tiny program mixes these proposals so that the GPUs suffice, which
gives the next prices. It ends when mixing and prices agree: the optimum, to the solver's accuracy.

Only without pairs, which belong to two jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scheduler.core.allocation.errors import SolverError
from scheduler.core.allocation.instance import Floats, Ints
from scheduler.core.allocation.linear import maximise
from scheduler.core.allocation.polytope import Polytope
from scheduler.core.allocation.terms import Terms

#: How near value and bound must come, relatively.
EXACT = 1e-9
MOST_PROPOSALS = 100
#: New prices are so far on the way from the best ones known to those that the mixture asks for.
STEP = 0.5


@dataclass(frozen=True, slots=True)
class Jobs:
    """One job of each group: its progress and its use of GPUs on each model, and how many jobs there are."""

    rates: Floats
    gang: Floats
    size: Floats
    gpus: Floats


@dataclass(frozen=True, slots=True)
class Hull:
    """What progress costs at given prices, by group: corners from nothing to the best, the last repeated."""

    progress: Floats
    cost: Floats
    #: The model at each corner; -1 at the first, where the job does not run.
    model: Ints

    @property
    def slopes(self) -> Floats:
        """Return the price of a little more progress between each two corners; infinite after the last."""
        run, rise = np.diff(self.progress, axis=1), np.diff(self.cost, axis=1)
        return np.where(run > 0, rise / np.where(run > 0, run, 1.0), np.inf)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Shares of one job of each group on each model, and what it is worth."""

    shares: Floats
    value: float


@dataclass(frozen=True, slots=True)
class Agreed:
    """The mixture of proposals that is the optimum, and the prices that prove it."""

    shares: Floats
    prices: Floats


def jobs_of(polytope: Polytope) -> Jobs:
    """Return the jobs of a polytope without pairs."""
    rates = np.zeros((polytope.groups, len(polytope.gpus)))
    rates[polytope.first, polytope.model] = polytope.rate_first
    return Jobs(rates, polytope.gang, polytope.size, polytope.gpus)


def columns_of(polytope: Polytope, shares: Floats) -> Floats:
    """Return shares of one job of each group as shares by column."""
    columns: Floats = shares[polytope.first, polytope.model] * polytope.size[polytope.first]
    return columns


def hull_of(jobs: Jobs, prices: Floats) -> Hull:
    """Return the lower convex hulls: from each corner on to the model that gives more at the least price."""
    groups, models = jobs.rates.shape
    price = jobs.gang[:, None] * prices
    progress, cost = np.zeros((groups, models + 1)), np.zeros((groups, models + 1))
    model = np.full((groups, models + 1), -1)
    everyone = np.arange(groups)
    for corner in range(models):
        run = jobs.rates - progress[:, corner, None]
        better = run > 1e-12 * jobs.rates.max(axis=1, keepdims=True)
        slope = np.where(better, (price - cost[:, corner, None]) / np.where(better, run, 1.0), np.inf)
        # Of equally steep ways the longest.
        least = slope.min(axis=1, keepdims=True)
        nearly = better & (slope <= least * (1 + 1e-12))
        chosen = np.where(nearly, jobs.rates, -1.0).argmax(axis=1)
        moves = better.any(axis=1)
        progress[:, corner + 1] = np.where(moves, jobs.rates[everyone, chosen], progress[:, corner])
        cost[:, corner + 1] = np.where(moves, price[everyone, chosen], cost[:, corner])
        model[:, corner + 1] = np.where(moves, chosen, model[:, corner])
    return Hull(progress, cost, model)


def shares_at(jobs: Jobs, hull: Hull, wanted: Floats) -> Floats:
    """Return the cheapest shares for this progress: a mixture of the two corners around it."""
    groups, models = jobs.rates.shape
    everyone = np.arange(groups)
    after = np.minimum((hull.progress < wanted[:, None]).sum(axis=1), models)
    before = np.maximum(after - 1, 0)
    low, high = hull.progress[everyone, before], hull.progress[everyone, after]
    part = np.clip(
        np.where(high > low, (wanted - low) / np.where(high > low, high - low, 1.0), 1.0), 0.0, 1.0
    )
    shares = np.zeros((groups, models + 1))
    # Model -1 is the last column: nowhere.
    shares[everyone, hull.model[everyone, before]] = 1 - part
    shares[everyone, hull.model[everyone, after]] += part
    return shares[:, :-1]


def agree(jobs: Jobs, propose: Callable[[Hull], Proposal], start: Proposal) -> Agreed:
    """Return the mixture of proposals with the largest value for which the GPUs suffice.

    `propose` returns the shares with the largest value less cost, given what progress costs; `start` is some
    shares for which the GPUs suffice. Raises SolverError when there is no agreement after many proposals.
    """
    present = np.flatnonzero(jobs.gpus > 0)
    free = propose(hull_of(jobs, np.zeros(len(jobs.gpus))))
    proposals, uses = [start, free], [_use(jobs, one)[present] for one in (start, free)]
    centre, least_bound = np.zeros(len(jobs.gpus)), np.inf
    for _ in range(MOST_PROPOSALS):
        values = np.array([proposal.value for proposal in proposals])
        parts, asked = _mixed(values, np.array(uses).T / jobs.gpus[present, None])
        value = float(values @ parts)
        wanted = np.zeros(len(jobs.gpus))
        wanted[present] = asked / jobs.gpus[present]
        prices = centre + STEP * (wanted - centre) if np.isfinite(least_bound) else wanted
        for attempt in (prices, wanted):
            found = propose(hull_of(jobs, attempt))
            use = _use(jobs, found)
            bound = found.value + float(attempt @ (jobs.gpus - use))
            if bound < least_bound:
                least_bound, centre = bound, attempt
            proposals.append(found)
            uses.append(use[present])
            # Prices in between may have nothing to add that the mixture could use.
            if found.value - float(wanted @ use) > value - float(wanted @ jobs.gpus) + EXACT * abs(value):
                break
        if least_bound - value <= EXACT * max(abs(value), 1e-300):
            shares = sum(
                part * proposal.shares for part, proposal in zip(parts, proposals, strict=False) if part > 0
            )
            return Agreed(np.asarray(shares), centre)
    raise SolverError(f"no prices agreed on after {MOST_PROPOSALS} proposals")


def _use(jobs: Jobs, proposal: Proposal) -> Floats:
    use: Floats = (jobs.size * jobs.gang) @ proposal.shares
    return use


def _mixed(values: Floats, uses: Floats) -> tuple[Floats, Floats]:
    """Return the best mixture of proposals, and what a whole model's GPUs more of each would be worth.

    The parts sum to 1: what the others leave is the first proposal's.
    """
    gains, changes = values[1:] - values[0], uses[:, 1:] - uses[:, :1]
    models, count = changes.shape
    scale = float(np.abs(gains).max(initial=0.0)) or 1.0
    rows = np.vstack([changes, np.ones(count)])
    row, column = np.nonzero(rows)
    terms = Terms(row, column, rows[row, column], models + 1)
    room = np.append(np.maximum(1 - uses[:, 0], 0.0), 1.0)
    found = maximise(gains / scale, terms, room, np.zeros(count))
    others = np.maximum(found.values, 0.0)
    parts = np.append(max(1 - others.sum(), 0.0), others)
    return parts / parts.sum(), np.maximum(found.duals[:-1], 0.0) * scale
