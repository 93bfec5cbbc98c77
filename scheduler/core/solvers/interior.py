"""Solve the two programs of `levels` by an interior point method that exploits how few GPU models there are.

A general solver sees more rows than there are jobs. But jobs compete only for the GPUs of each model. Given
the prices of these, each job is a small problem of its own, and its part of a Newton step is two numbers: the
prices of its time and of its level. So a step is some arithmetic on arrays of models × jobs, and one system
with an equation for each model and one for the height. Ten to thirty steps lead to the optimum, whatever the
number of jobs.

The steps are those of S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM
Journal on Optimization 2 (1992). The method works only without pairs, because a pair belongs to two jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.core.solvers.errors import SolverError
from scheduler.core.solvers.instance import Flags, Floats

#: How near the value and the bound must come, relatively.
EXACT = 1e-9
#: What suffices where steps lead no nearer, since many models at nearly the same price leave no more digits.
#: No row may be off by more.
ALMOST = 1e-8
MOST_STEPS = 60
#: The largest part of the way to the boundary that a step goes.
BOUNDARY = 0.995
#: The largest second-order correction, as a multiple of the product that is aimed at; larger corrections come
#: from steps that will not be taken in full.
CORRECTION = 10.0
#: The first prices of levels, as a part of the reward, and of time, as a part of what a job is worth.
FIRST_LEVEL, FIRST_TIME = 0.5, 0.3


@dataclass(frozen=True, slots=True)
class Program:
    """Maximise reward × height + the sum of worth × share over shares and a height of at most 1.

    No group exceeds its time, and no model its GPUs; `use` is the part of these that a share takes. The
    progress of each group with a pace is at least pace × height. Arrays are model × group, or by group.
    """

    #: The models on which each group runs at all.
    opened: Flags
    use: Floats
    worth: Floats
    progress: Floats
    pace: Floats
    reward: float
    #: Shares that are about enough: the starting point.
    enough: Floats
    exact: float = EXACT


@dataclass(frozen=True, slots=True)
class Optimum:
    """Shares, the height, and `blame`: what a little more pace of each group costs, out of a reward of 1."""

    shares: Floats
    height: float
    blame: Floats
    #: No shares reach more than this height, even if nothing else counts.
    highest: float


def optimum(program: Program) -> Optimum:
    """Return the point where value and bound meet. Raises SolverError when no step leads there."""
    path, before = _Path(program), np.inf
    with np.errstate(all="ignore"):
        for _ in range(MOST_STEPS):
            missing = path.gap()
            if missing <= program.exact or (missing <= ALMOST and missing > before / 2):
                return path.optimum()
            before = missing
            try:
                path.step()
            except np.linalg.LinAlgError:
                break
    raise SolverError(f"no optimum was found from inside in {MOST_STEPS} steps")


class _Path:
    """A point, and the steps from it: variables and slacks, each with a price, in two arrays of equal shape.

    The values are, in this order: shares, time left, progress above the level, GPUs left, and height missing
    to 1. Their prices are those of shares that are zero, of time, of levels, of GPUs and of the height. An
    entry where a group has no share or no level never changes and does not count.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        models, groups = program.use.shape
        self._ends = np.cumsum([models * groups, groups, groups, models])
        self._levels = program.pace > 0
        self._counts = np.concatenate(
            [program.opened.ravel(), np.ones(groups), self._levels, np.ones(models + 1)]
        )
        self._count = self._counts.sum()
        # What does not change from step to step, for models, for couples of models, and for jobs.
        rates, number = program.progress, np.arange(models)
        self._one, self._two = np.triu_indices(models, 1)
        self._faster = rates[:, None] - rates
        self._squares, self._pace_squares = rates**2, program.pace**2
        self._apart = self._faster[self._one, self._two] ** 2
        self._together = rates[self._one] * rates[self._two]
        self._triples = (self._faster[:, self._one] * self._faster[:, self._two]).transpose(1, 0, 2).copy()
        self._uses = program.use[:, None] * program.use
        self._others = 1.0 - np.eye(models)
        self._without = 1.0 * ((number[:, None] != self._one) & (number[:, None] != self._two))
        self._begin()

    def _begin(self) -> None:
        """Choose a point inside, and prices at which no share is worth more than it costs."""
        program, levels = self._program, self._levels
        models = len(program.use)
        shares = program.opened * program.enough
        most = max(float(shares.sum(axis=0).max()), float((program.use * shares).sum(axis=1).max()))
        shares = np.where(program.opened, shares * (0.5 / most), 1e-300)
        reached = (program.progress * shares).sum(axis=0)
        pace = np.where(levels, program.pace, 1.0)
        height = 0.5 * min(float((reached / pace)[levels].min(initial=1.0)), 1.0)
        level_price = np.where(levels, FIRST_LEVEL * program.reward / max(program.pace.sum(), 1e-300), 1.0)
        worth = np.where(program.opened, program.worth + program.progress * level_price, 0.0)
        best = worth.max(axis=0)
        crowd = max(float(program.use.sum()) / models, 1.0)
        gpu_price = np.full(models, best.sum() / crowd / models)
        cost = program.use * gpu_price[:, None]
        gain = np.where(program.opened, worth - cost, 0.0).max(axis=0)
        time_price = np.maximum(gain, 0.0) + FIRST_TIME * np.maximum(best, 1e-6 * best.mean())
        self._values = np.concatenate(
            [
                shares.ravel(),
                1 - shares.sum(axis=0),
                np.where(levels, reached - program.pace * height, 1.0),
                1 - (program.use * shares).sum(axis=1),
                [1 - height],
            ]
        )
        self._prices = np.concatenate(
            [
                np.where(program.opened, cost + time_price - worth, 1.0).ravel(),
                time_price,
                level_price,
                gpu_price,
                [(1 - FIRST_LEVEL) * program.reward],
            ]
        )

    def gap(self) -> float:
        """Return the relative gap of value and bound: the sum of the products of all values and prices."""
        program = self._program
        self._of_values, self._of_prices = self._split(self._values), self._split(self._prices)
        self._pairs = self._values * self._prices * self._counts
        self._gap = float(self._pairs.sum())
        shares, below = self._of_values[0], self._of_values[4]
        value = float(np.einsum("an,an->", program.worth, shares)) + program.reward * (1 - float(below[0]))
        return self._gap / max(abs(value), 1e-300)

    def optimum(self) -> Optimum:
        """Return the optimum at this point. Raises SolverError when rounding has led the path astray."""
        program = self._program
        shares, time, above, _, below = self._of_values
        height = 1 - float(below[0])
        shares = np.where(program.opened, shares, 0.0)
        reached = (program.progress * shares).sum(axis=0) - program.pace * height
        off = np.maximum(
            np.abs(1 - shares.sum(axis=0) - time), np.where(self._levels, np.abs(reached - above), 0.0)
        )
        if not off.max() <= ALMOST:
            raise SolverError(f"the way to the optimum was lost: rows are off by {off.max():.1g}")
        prices = np.where(self._levels, self._of_prices[2] * program.pace, 0.0)
        highest = self._highest() if program.worth.any() else height
        return Optimum(shares, height, prices / program.reward, highest)

    def _highest(self) -> float:
        """Return an upper bound of the height; infinity where none is found.

        Any prices of levels and GPUs give a bound. Where the height already comes first, a larger reward adds
        to each price what the price would be if only the height counted. The bound is then the height itself.
        """
        program = self._program
        try:
            self._factorise()
            _, added = self._towards(np.zeros(len(self._values)), reward=program.reward)
        except np.linalg.LinAlgError:
            return np.inf
        _, _, levels, gpus, _ = self._split(np.maximum(added, 0.0))
        levels = np.where(self._levels, levels, 0.0)
        time = (program.progress * levels - program.use * gpus[:, None]).max(axis=0)
        return float((np.maximum(time, 0.0).sum() + gpus.sum()) / (program.pace @ levels))

    def _split(self, values: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        shares, time, above, gpus = self._ends
        return (
            values[:shares].reshape(self._program.use.shape),
            values[shares:time],
            values[time:above],
            values[above:gpus],
            values[gpus:],
        )

    def step(self) -> None:
        """Take one step: try the direct way to the optimum, and aim the more centrally the less is free."""
        self._factorise()
        change, price_change = self._towards(-self._pairs)
        first, second = _length(self._values, change), _length(self._prices, price_change)
        left = (self._counts * (self._values + first * change) * (self._prices + second * price_change)).sum()
        aim = self._gap / self._count * (max(float(left), 0.0) / self._gap) ** 3
        bent = np.minimum(np.maximum(change * price_change, -CORRECTION * aim), CORRECTION * aim)
        change, price_change = self._towards((aim - bent) * self._counts - self._pairs)
        self._values = self._values + _length(self._values, change, BOUNDARY) * change
        self._prices = self._prices + _length(self._prices, price_change, BOUNDARY) * price_change

    def _factorise(self) -> None:
        """Reduce the system of a step to the prices of GPUs and the height.

        With D = share ÷ its price, a job's time and level form a system M of two equations. `across` is
        D - D E M⁻¹ Eᵀ D, model × model, where the rows of E are ones and -progress. It is computed from sums
        of positive products: where D is large, differences would have no digits left.
        """
        program, rates = self._program, self._program.progress
        models = len(rates)
        shares, time, above, gpus, below = self._of_values
        share_price, time_price, level_price, gpu_price, height_price = self._of_prices
        part = program.opened * shares / share_price
        time, level = time / time_price, above / level_price
        both = time * level
        alone = part * (level + time * self._squares)
        parts = part[self._one] * part[self._two]
        apart = parts * self._apart
        det = both + np.add.reduce(alone) + np.add.reduce(apart)
        rest = (
            both + np.einsum("ab,bn->an", self._others, alone) + np.einsum("ap,pn->an", self._without, apart)
        )
        inner = level + time * self._together + np.einsum("cn,pcn->pn", part, self._triples)
        shrunk = part / det
        across = np.empty((models, *part.shape))
        across[self._one, self._two] = across[self._two, self._one] = -parts * inner / det
        across[range(models), range(models)] = shrunk * rest
        self._across = across
        # D E M⁻¹, and the second row of M⁻¹.
        weighted = part * rates
        self._by_time = shrunk * (level + np.einsum("bn,ban->an", weighted, self._faster))
        self._by_level = shrunk * (np.einsum("bn,ban->an", part, self._faster) - time * rates)
        self._level_time = np.add.reduce(weighted) / det
        self._level_level = (np.add.reduce(part) + time) / det
        system = np.empty((models + 1, models + 1))
        system[:models, :models] = np.einsum("abn,abn->ab", self._uses, across)
        system[range(models), range(models)] += gpus / gpu_price
        system[:models, models] = np.einsum("an,an,n->a", program.use, self._by_level, program.pace)
        system[models, :models] = -system[:models, models]
        system[models, models] = (
            np.einsum("n,n->", self._level_level, self._pace_squares) + (height_price / below)[0]
        )
        self._system = system

    def _towards(self, target: Floats, reward: float = 0.0) -> tuple[Floats, Floats]:
        """Return the changes of values and prices that change their products by `target`.

        The first point already satisfies all rows, so only the products are off; `reward` is added to the
        reward of the height.
        """
        program, values, prices = self._program, self._of_values, self._of_prices
        pairs = self._split(target)
        worth, time, level = pairs[0] / values[0], pairs[1] / prices[1], pairs[2] / prices[2]
        right = np.empty(len(self._system))
        right[:-1] = pairs[3] / prices[3] + np.einsum(
            "an,an->a", program.use, self._shares(worth, time, level)
        )
        level_price = self._level_prices(worth, time, level)
        right[-1] = reward - np.einsum("n,n->", program.pace, level_price) - (pairs[4] / values[4])[0]
        found = np.linalg.solve(self._system, right)
        gpu_price, rise = found[:-1], found[-1:]
        cost = program.use * gpu_price[:, None]
        worth, level = worth - cost, level + program.pace * rise
        shares = self._shares(worth, time, level)
        level_price = self._levels * self._level_prices(worth, time, level)
        # Computed from the rows, so that rounding does not violate them.
        less_time = -np.add.reduce(shares)
        time_price = (pairs[1] - prices[1] * less_time) / values[1]
        change = (
            shares.ravel(),
            less_time,
            np.einsum("an,an->n", program.progress, shares) - program.pace * rise,
            -np.einsum("an,an->a", program.use, shares),
            -rise,
        )
        share_price = program.opened * (cost + time_price - program.progress * level_price)
        height_price = (pairs[4] + prices[4] * rise) / values[4]
        price_change = (share_price.ravel(), time_price, level_price, gpu_price, height_price)
        return np.concatenate(change), np.concatenate(price_change)

    def _shares(self, worth: Floats, time: Floats, level: Floats) -> Floats:
        shares: Floats = (
            np.einsum("abn,bn->an", self._across, worth) - self._by_time * time - self._by_level * level
        )
        return shares

    def _level_prices(self, worth: Floats, time: Floats, level: Floats) -> Floats:
        prices: Floats = (
            np.einsum("an,an->n", self._by_level, worth) + self._level_time * time + self._level_level * level
        )
        return prices


def _length(values: Floats, change: Floats, boundary: float = 1.0) -> float:
    """Return the largest part of the change, 1 at most, that leaves every value positive."""
    steepest = float((change / values).min())
    return min(1.0, -boundary / steepest) if steepest < 0 else 1.0
