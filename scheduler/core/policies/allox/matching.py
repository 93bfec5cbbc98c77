"""Jobs on unrelated machines with the least sum of completion times, as a matching of jobs to positions.

W. Horn, "Minimizing Average Flow Time with Parallel Machines", Operations Research 21(3), 1973; J. Bruno, E.
Coffman and R. Sethi, "Scheduling Independent Tasks to Reduce Mean Finishing Time", Communications of the ACM
17(7), 1974: the job that is k-th from the end on a machine adds its run time k times to the sum, once for
itself and once for each job behind it, so the best schedule is a matching of jobs to (machine, k) of minimum
cost. The machines here are the lanes of a few kinds, all lanes of a kind being equally fast, and each lane is
free from an instant of its own. Four things keep the matching small:

- *Collapsed*. With n jobs to match, a position of a kind is a column of the matching only if fewer than n
  others are at least as good for every job: as near to the end, on a lane that is free as early. This loses
  nothing. Lanes that are free at the same instant share n positions between them.
- *Shallow*. Lanes get one or two more positions than a greedy matching fills, a tenth of all where many jobs
  wait. Where a matching fills all positions of the lanes that are free at an instant, they get more, and
  it is made again. This loses nothing either: a schedule that uses a deeper position would be as good with
  the one that is left over.
- *Grouped*. Where more than `MANY_LANES` lanes of a kind are busy, they count as `GROUPS` groups, each twice
  as large as the one before, with the mean instant of its lanes: those that are free soonest are
  distinguished best. On random instances the plan cost less than 1 % more than the exact one, in a third of
  its time.
- *In order*. Jobs enter the matching by run time times load, the longest first. Each shorter one goes in
  front of those that are there already, and hardly displaces any (a fifth of the time on 1,024 jobs, an
  eighth on 2,048).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MANY_LANES = 16
GROUPS = 3

#: A kind's positions: the lane of each, how far from its end it is, and when the lane is free.
Slots = tuple[Integers, Floats, Floats]


@dataclass(frozen=True, slots=True)
class Matching:
    """Where each job runs in the best schedule, and when the lanes are free after it."""

    #: By job: its kind of lane, and in how many seconds it starts there.
    kind: Integers
    start: Floats
    #: By kind, then lane: the seconds until it has served all jobs matched to it.
    free: tuple[Floats, ...]


def match(seconds: Floats, ready: Floats, lanes: Sequence[Floats], load: Floats) -> Matching:
    """Match every job to a position on a lane.

    `seconds`: the run time by job and kind, infinite where the job does not run. `ready`: the seconds until
    the job could start there at the earliest. `lanes`: for each kind the seconds until each lane is free,
    ascending. `load`: for each job the part of its run time by which it delays each job behind it, 1 for jobs
    that take a lane each. Each job must run on a kind that has a lane.
    """
    grouped = [_grouped(free) for free in lanes]
    most = [_useful_positions(free, len(seconds)) for free in grouped]
    # A greedy matching leaves lanes that are free late with fewer jobs than the best one.
    mean = len(seconds) / max(1, sum(map(len, grouped)))
    depths = [
        np.minimum(depth + 1 + (depth < mean), limit)
        for depth, limit in zip(_greedy_depths(grouped, seconds, ready, load), most, strict=True)
    ]
    while True:
        slots = [_slots(free, depth) for free, depth in zip(grouped, depths, strict=True)]
        kinds, picks = _cheapest(slots, seconds, ready, load)
        deeper = [
            _deepened(free, depth, limit, lane[picks[kinds == kind]])
            for kind, (free, depth, limit, (lane, _, _)) in enumerate(
                zip(grouped, depths, most, slots, strict=True)
            )
        ]
        if all(map(np.array_equal, deeper, depths)):
            return _timed(kinds, picks, slots, seconds, ready, lanes, load)
        depths = deeper


def shortest_first(seconds: Floats) -> Integers:
    """Return the jobs in an order in which, by turns, the next shortest on each kind comes."""
    ranks = np.argsort(np.argsort(seconds, axis=0, kind="stable"), axis=0, kind="stable")
    first = np.min(np.where(np.isfinite(seconds), ranks, len(seconds)), axis=1)
    return np.argsort(first, kind="stable")


def _grouped(free: Floats) -> Floats:
    """Return when lanes are free; where many are busy, as groups with the mean instant of each."""
    busy = free[free > 0]
    if len(busy) <= MANY_LANES:
        return free
    ends = len(busy) * (2 ** np.arange(1, GROUPS) - 1) // (2**GROUPS - 1)
    means = [np.full(len(group), group.mean()) for group in np.split(busy, ends)]
    return np.concatenate([free[: len(free) - len(busy)], *means])


def _useful_positions(free: Floats, jobs: int) -> Integers:
    """Return how many positions of each lane matter for this number of jobs.

    Positions 1 to k-1 of all lanes that are free as early are as good as position k of a lane. So is position
    k of the lanes before it.
    """
    no_later = np.searchsorted(free, free, side="right")
    positions: Integers = np.maximum((jobs - 1 - np.arange(len(free))) // no_later + 1, 0)
    return positions


def _longest_first(seconds: Floats, load: Floats) -> Integers:
    """Return the jobs by run time times load, the longest first."""
    order: Integers = np.argsort(-np.min(seconds, axis=1) * load, kind="stable")
    return order


def _greedy_depths(lanes: Sequence[Floats], seconds: Floats, ready: Floats, load: Floats) -> list[Integers]:
    """Return, by kind and lane, how many positions are filled when each job takes the cheapest left to it.

    The longest job chooses first. Lanes of a kind that are free at the same instant are filled evenly.
    """
    instants, alike, sizes = zip(
        *(np.unique(free, return_inverse=True, return_counts=True) for free in lanes), strict=True
    )
    kinds = np.repeat(np.arange(len(lanes)), [len(found) for found in instants])
    size, filled = np.concatenate(sizes), np.zeros(len(kinds), dtype=np.int64)
    begins, runs = np.maximum(np.concatenate(instants), ready[:, kinds]), seconds[:, kinds]
    depth = np.zeros(len(kinds))
    for job in _longest_first(seconds, load).tolist():
        cheapest = np.argmin(begins[job] + runs[job] * (1 + load[job] * depth))
        filled[cheapest] += 1
        depth[cheapest] = filled[cheapest] // size[cheapest]
    depths = -(-filled // size)
    return [depths[kinds == kind][lane] for kind, lane in enumerate(alike)]


def _slots(free: Floats, depth: Integers) -> Slots:
    """Return each position's lane, how far from the end it is, and when its lane is free."""
    lane: Integers = np.repeat(np.arange(len(free)), depth)
    before = np.repeat(np.cumsum(depth) - depth, depth)
    position = np.arange(len(lane), dtype=np.float64) - before + 1
    return lane, position, free[lane]


def _cheapest(
    slots: Sequence[Slots], seconds: Floats, ready: Floats, load: Floats
) -> tuple[Integers, Integers]:
    """Return the kind and the number of the position of each job in the matching of least cost."""
    # SciPy takes half a second to load, and most processes that know this policy never plan with it.
    from scipy.optimize import linear_sum_assignment

    costs = np.concatenate(
        [
            np.maximum(free[None, :], ready[:, kind, None])
            + seconds[:, kind, None] * (1 + load[:, None] * (position - 1)[None, :])
            for kind, (_, position, free) in enumerate(slots)
        ],
        axis=1,
    )
    order = _longest_first(seconds, load)
    rows, columns = linear_sum_assignment(costs[order])
    chosen = np.empty(len(seconds), dtype=np.int64)
    chosen[order[rows]] = columns
    begins = np.cumsum([0] + [len(position) for _, position, _ in slots])
    kinds = np.searchsorted(begins, chosen, side="right") - 1
    return kinds, chosen - begins[kinds]


def _deepened(free: Floats, depth: Integers, limit: Integers, matched: Integers) -> Integers:
    """Return how many positions each lane needs: half as many again where its instant has none left over.

    `matched`: the lane of each position that is taken.
    """
    taken = np.bincount(matched, minlength=len(free))
    has_left = np.isin(free, free[taken < depth])
    return np.where(has_left, depth, np.minimum(depth + depth // 2 + 1, limit))


def _timed(
    kinds: Integers,
    picks: Integers,
    slots: Sequence[Slots],
    seconds: Floats,
    ready: Floats,
    lanes: Sequence[Floats],
    load: Floats,
) -> Matching:
    """Note when each job starts, the positions that are furthest from the end first.

    Jobs of a kind in the same position may change lanes at no cost. Those with the least work go where they
    start soonest: then what is submitted next waits least. Where they are not ready by then, those that are
    ready first do, which costs least.
    """
    start = np.zeros(len(kinds))
    ends = [free.copy() for free in lanes]
    for kind, (lane, position, free) in enumerate(slots):
        jobs = np.flatnonzero(kinds == kind)
        positions = position[picks[jobs]]
        for number in np.unique(positions)[::-1]:
            here = jobs[positions == number]
            # Where not all lanes that are free at an instant are taken, the first of them are.
            instants = np.sort(free[picks[here]])
            alike = np.arange(len(here)) - np.searchsorted(instants, instants)
            there = lane[np.searchsorted(free, instants)] + alike
            there = there[np.argsort(ends[kind][there], kind="stable")]
            work = seconds[here, kind] * load[here]
            order = np.lexsort((work, np.maximum(ready[here, kind], ends[kind][there[0]])))
            here = here[order]
            start[here] = np.maximum(ends[kind][there], ready[here, kind])
            ends[kind][there] = start[here] + work[order]
    return Matching(kinds, start, tuple(ends))
