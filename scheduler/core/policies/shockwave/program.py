"""How many of the coming rounds each gang gets, by GPU model: the integer program of Shockwave (NSDI'23).

The authors decide about every job and round, a binary each, and interpolate the logarithm with one more for
each of its corners. Here:

- Rounds are alike, so only how many of them a gang runs is decided, an integer for each model. For gangs of
  one GPU an assignment of such numbers to rounds always exists. Larger gangs can block each other;
  constraints that hold for every assignment exclude most of that, and `planning` assigns the rest.
- The logarithm is concave, so a maximum fills its linear pieces in their order without binaries.
- What is common to all solutions is left out of the objective. The solver's gap is relative, and a constant
  would let it stop far from the best choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.core.model.errors import PolicyError
from scheduler.core.policies.shockwave.bidding import Bidder, PlanningWindow

Floats = NDArray[np.float64]
#: By bidder and model, or by round and model.
Counts = NDArray[np.int64]

#: Parts of a job's epochs between which its utility, their logarithm, is a line; it begins near 0, at ORIGIN.
CORNERS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
ORIGIN = 1e-6
#: How far from the optimum a solution may be, relative to it.
GAP = 1e-3
#: Branches after which the best solution so far is taken; unlike a time limit, equal on every machine.
NODES = 500
#: The largest ratio of two jobs' weights; beyond it the solver's tolerance would show.
MOST_WEIGHT = 1e6
#: A speed below the first, relative to a job's fastest model, counts as 0; no job has less work left than the
#: second, in rounds.
LEAST_SPEED, LEAST_WORK = 1e-3, 1e-2
#: A value within this of an integer counts as whole.
ROUNDING = 1e-6
#: The status of SciPy's `milp` when there is no solution.
_INFEASIBLE = 2


class Program:
    """The program for the bidders of one priority. `room` is the GPUs left, by round and model."""

    def __init__(self, window: PlanningWindow, bidders: Sequence[Bidder], room: Counts) -> None:
        self._window, self._bidders, self._room = window, bidders, room
        #: (bidder, model) where there is a variable, and the places of these variables by bidder.
        self._pairs: list[tuple[int, int]] = []
        self._of_bidder: list[list[int]] = [[] for _ in bidders]
        for place, bidder in enumerate(bidders):
            for model, speed in enumerate(bidder.speeds):
                if speed >= LEAST_SPEED and self._rounds_for(bidder, model) > 0:
                    self._of_bidder[place].append(len(self._pairs))
                    self._pairs.append((place, model))

    def solve(self) -> tuple[Counts, Floats]:
        """Return the rounds by bidder and model, and the weight of each bidder's utility.

        First, no job may end after its fair end. Where that is impossible, jobs that would be late get more
        weight instead. Raises PolicyError when the solver finds nothing.
        """
        even = np.ones(len(self._bidders))
        least_work = self._least_work()
        if least_work is not None and (found := self._maximise(even, least_work)) is not None:
            return found, even
        weights = _weights(self._bidders, self._window)
        found = self._maximise(weights, np.zeros(len(self._bidders)))
        if found is None:
            raise PolicyError("no solution of the market's program was found")
        return found, weights

    def _rounds_for(self, bidder: Bidder, model: int) -> int:
        """Return in how many rounds the model has room for the gang."""
        return int((self._room[:, model] >= bidder.gpus).sum())

    def _work(self, place: int) -> list[tuple[int, float]]:
        """Return the work that each of the bidder's variables does, in rounds where it is fastest."""
        speeds = self._bidders[place].speeds
        return [(pair, speeds[self._pairs[pair][1]]) for pair in self._of_bidder[place]]

    def _most_work(self, place: int) -> float:
        """Return an upper bound of the bidder's work in all rounds, in rounds."""
        return self._window.rounds * max([speed for _, speed in self._work(place)], default=0.0)

    def _left(self, place: int) -> float:
        """Return the work that the bidder has left, in rounds."""
        return max(self._bidders[place].left_seconds / self._window.round_seconds, LEAST_WORK)

    def _least_work(self) -> Floats | None:
        """Return the work in rounds that each bidder must do to end in time; None when one cannot.

        After the last round a bidder is assumed to have its uniform share and to end no sooner than that
        round, as in the paper: a bidder that is due earlier cannot end in time by this count.
        """
        window = self._window
        least_work = np.zeros(len(self._bidders))
        for place, bidder in enumerate(self._bidders):
            later = bidder.due_seconds / window.round_seconds - window.rounds
            least_work[place] = max(0.0, self._left(place) - later * window.uniform_share)
            if later < 0 or least_work[place] > self._most_work(place):
                return None
        return least_work

    def _maximise(self, weights: Floats, least_work: Floats) -> Counts | None:
        """Return the best rounds by bidder and model; None when there are none."""
        counts = np.zeros((len(self._bidders), len(self._window.gpus)), dtype=np.int64)
        if not self._pairs:
            return counts
        rows = _Rows()
        self._add_rounds(rows)
        self._add_capacity(rows)
        for place in range(len(self._bidders)):
            if self._of_bidder[place]:
                self._add_utility(rows, place, weights[place], least_work[place])
        self._add_longest_run(rows)
        found = rows.solve(integers=len(self._pairs), seconds=self._window.solve_seconds)
        if found is None:
            return None
        for (place, model), value in zip(self._pairs, found, strict=False):
            counts[place, model] = math.floor(value + ROUNDING)
        return counts

    def _add_rounds(self, rows: _Rows) -> None:
        """Add: no bidder runs in more rounds than there are, nor in more than it needs."""
        for place, model in self._pairs:
            bidder = self._bidders[place]
            needed = max(1, math.ceil(self._left(place) / bidder.speeds[model] - ROUNDING))
            rows.variable(most=min(self._rounds_for(bidder, model), needed))
        for pairs in self._of_bidder:
            if len(pairs) > 1:
                rows.add([(pair, 1.0) for pair in pairs], most=self._window.rounds)

    def _add_capacity(self, rows: _Rows) -> None:
        """Add: no model gives more GPUs than it has, nor more places for gangs of a size and above.

        With 8 GPUs, gangs of 3 and of 4 take two places at once, and those of 6 one of two.
        """
        for model in range(len(self._window.gpus)):
            gangs = [
                (pair, self._bidders[place].gpus)
                for pair, (place, on) in enumerate(self._pairs)
                if on == model
            ]
            room = self._room[:, model]
            for size in sorted({gpus for _, gpus in gangs} | {1}):
                terms = [(pair, float(gpus // size)) for pair, gpus in gangs if gpus >= size]
                if terms:
                    rows.add(terms, most=float((room // size).sum()))

    def _add_utility(self, rows: _Rows, place: int, weight: float, least: float) -> None:
        """Add the gain in the logarithm of the bidder's finished epochs, and its floor."""
        done, work = self._bidders[place].done, self._work(place)
        a_round, reach = (1.0 - done) / self._left(place), self._most_work(place)
        pieces = []
        for slope, length in _pieces(done):
            if reach > 0:
                # In rounds, as all the program is, so that its numbers are of one size.
                rounds = min(length / a_round, reach)
                pieces.append((rows.variable(cost=-weight * slope * a_round, most=rounds), 1.0))
                reach -= rounds
        rows.add([*pieces, *((pair, -speed) for pair, speed in work)], most=0.0)
        if least > 0:
            rows.add(work, least=least - ROUNDING)

    def _add_longest_run(self, rows: _Rows) -> None:
        """Add the excess of the longest remaining run over its minimum."""
        window = self._window
        running = [place for place in range(len(self._bidders)) if self._of_bidder[place]]
        must_be = max([max(0.0, self._left(place) - self._most_work(place)) for place in running])
        a_round = window.makespan_weight * window.round_seconds * len(self._bidders) * window.rounds
        more = rows.variable(cost=a_round)
        for place in running:
            if self._left(place) > must_be:
                rows.add([*self._work(place), (more, 1.0)], least=self._left(place) - must_be)


class _Rows:
    """The rows of a program: minimise costs, all variables at least 0."""

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._most: list[float] = []
        self._terms: list[tuple[int, int, float]] = []
        self._bounds: list[tuple[float, float]] = []

    def variable(self, *, cost: float = 0.0, most: float = math.inf) -> int:
        """Return the place of a new variable."""
        self._costs.append(cost)
        self._most.append(most)
        return len(self._costs) - 1

    def add(
        self, terms: Iterable[tuple[int, float]], *, least: float = -math.inf, most: float = math.inf
    ) -> None:
        """Add the row of these (variable, factor)."""
        self._terms += [(len(self._bounds), variable, factor) for variable, factor in terms]
        self._bounds.append((least, most))

    def solve(self, *, integers: int, seconds: float) -> Floats | None:
        """Return the best solution found, its first `integers` variables whole; None: there is none.

        If the time is too short to find one, they need not be whole.
        """
        # SciPy takes a third of a second to load, and most processes that know this never compute with it.
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        row, column, factor = zip(*self._terms, strict=True)
        matrix = csr_array((factor, (row, column)), (len(self._bounds), len(self._costs)))
        least, most = zip(*self._bounds, strict=True)
        whole = np.arange(len(self._costs)) < integers
        for integrality in (whole, np.zeros_like(whole)):
            found = milp(
                np.array(self._costs),
                integrality=integrality,
                bounds=Bounds(0.0, np.array(self._most)),
                constraints=LinearConstraint(matrix, np.array(least), np.array(most)),
                options={"mip_rel_gap": GAP, "time_limit": seconds, "node_limit": NODES},
            )
            if found.x is not None:
                return np.asarray(found.x, dtype=np.float64)
            if found.status == _INFEASIBLE:
                break
        return None


def _weights(bidders: Sequence[Bidder], window: PlanningWindow) -> Floats:
    """Return how much the utility of each bidder counts: the later the more.

    A late bidder that would end within a round counts most.
    """
    most = math.log(MOST_WEIGHT)
    powers = [
        window.fairness_power * math.log(bidder.lateness) if _is_late(bidder, window) else 0.0
        for bidder in bidders
    ]
    # Where a job is too late for the solver's tolerance, the weights of less late jobs are reduced instead.
    above = max(0.0, max(powers) - most)
    return np.array(
        [
            MOST_WEIGHT
            if _is_late(bidder, window) and bidder.left_seconds < window.round_seconds
            else math.exp(max(0.0, power - above))
            for bidder, power in zip(bidders, powers, strict=True)
        ]
    )


def _is_late(bidder: Bidder, window: PlanningWindow) -> bool:
    return bidder.lateness > window.fairness_bound


def _pieces(done: float) -> list[tuple[float, float]]:
    """Return (slope, length) of the pieces of the utility from `done` on."""
    heights = [math.log(corner or ORIGIN) for corner in CORNERS]
    pieces = zip(CORNERS, CORNERS[1:], heights, heights[1:], strict=False)
    return [
        ((above - below) / (end - begin), end - max(begin, done))
        for begin, end, below, above in pieces
        if end > done
    ]
