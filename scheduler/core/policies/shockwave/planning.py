"""The plan of a market: who runs in which of the coming rounds, on which GPU model."""

from __future__ import annotations

import numpy as np

from scheduler.core.policies.shockwave.bidding import Market
from scheduler.core.policies.shockwave.program import Program
from scheduler.core.policies.shockwave.timetable import assign

#: By round: the place of the GPU model of each bidder that runs in it, by the bidder's number.
Timetable = list[dict[int, int]]


def plan(market: Market) -> Timetable:
    """Return the best timetable that was found; whoever has a higher priority chooses first."""
    room = np.tile(np.array(market.gpus, dtype=np.int64), (market.rounds, 1))
    table: Timetable = [{} for _ in range(market.rounds)]
    for bidders in market.levels:
        counts, weights = Program(market, bidders, room).solve()
        for runs, more in zip(table, assign(bidders, counts, weights, room), strict=True):
            runs.update(more)
    return table
