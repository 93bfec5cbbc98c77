"""The plan of a window: which job runs in which of the coming rounds, on which GPU model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.core.policies.shockwave.bidding import Bidder, PlanningWindow
from scheduler.core.policies.shockwave.program import Counts, Floats, Program

#: By round: the place of the GPU model of each bidder that runs in it, by the bidder's number.
Timetable = list[dict[int, int]]


def plan(window: PlanningWindow) -> Timetable:
    """Return the best timetable that was found; the job with the higher priority chooses first."""
    room = np.tile(np.array(window.gpus, dtype=np.int64), (window.rounds, 1))
    table: Timetable = [{} for _ in range(window.rounds)]
    for bidders in window.levels:
        counts, weights = Program(window, bidders, room).solve()
        for runs, more in zip(table, assign(bidders, counts, weights, room), strict=True):
            runs.update(more)
    return table


# Which of the coming rounds each gang runs in, given in how many it runs.


#: A running job goes on unless another is this many times more urgent: a stop and a start cost time.
CONSTANCY = 3.0


@dataclass(slots=True)
class _Line:
    """A gang and the rounds that it has yet to get."""

    bidder: Bidder
    #: By model.
    left: list[int]
    #: The gain of running it a round earlier, for each GPU and round that it takes.
    urgency: float
    #: Model that it runs on in the round before, by place; -1: none.
    model: int

    def rank(self, rounds_left: int) -> tuple[bool, float, int]:
        urgency = self.urgency * (CONSTANCY if self.model >= 0 else 1.0)
        return sum(self.left) < rounds_left, -urgency, self.bidder.number

    def model_in(self, room: NDArray[np.int64]) -> int:
        """Return the model on which the gang runs next: the one before, else its fastest; -1: there is no
        room.
        """
        models = [model for model, left in enumerate(self.left) if left and room[model] >= self.bidder.gpus]
        speeds = self.bidder.speeds
        return max(models, key=lambda model: (model == self.model, speeds[model], -model), default=-1)


def assign(bidders: Sequence[Bidder], counts: Counts, weights: Floats, room: Counts) -> list[dict[int, int]]:
    """Return, by round, the place of the model of every bidder that runs in it, by the bidder's number.

    `counts` has the rounds by bidder and model, `room` the GPUs by round and model, from which what is
    assigned is taken. The authors' second program minimises the sum of weight times mean round. Here the
    bidder that gains most by an earlier round, for each GPU and round that it takes, goes first: the rule of
    W. Smith (1956) for that sum on one machine. Bidders that need all rounds that are left come first. Rounds
    that gangs of different sizes cannot get because they block each other are dropped.
    """
    lines = [
        _Line(bidder, count.tolist(), float(weight) / (bidder.gpus * int(count.sum())), bidder.runs_on)
        for bidder, count, weight in zip(bidders, counts, weights, strict=True)
        if count.any()
    ]
    found: list[dict[int, int]] = []
    for number in range(len(room)):
        rounds_left = len(room) - number
        lines.sort(key=lambda line: line.rank(rounds_left))
        runs: dict[int, int] = {}
        for line in lines:
            line.model = line.model_in(room[number])
            if line.model >= 0:
                room[number, line.model] -= line.bidder.gpus
                line.left[line.model] -= 1
                runs[line.bidder.number] = line.model
        lines = [line for line in lines if any(line.left)]
        found.append(runs)
    return found
