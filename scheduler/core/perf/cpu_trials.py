"""Optimistic profiling: which CPUs a running job is tried with, and the curve that these trials make.

J. Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters" (Synergy), OSDI 2022: only
the axis of CPUs is measured, at about eight amounts found by binary search, in about a minute. Deviations:
the job runs meanwhile and keeps its work, where the paper profiles before it is queued; the axis of memory is
not derived, because caches are a resource of their own here (`core.fitting.storage`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

#: As many amounts are tried at most.
TRIALS_MOST = 8
#: Between two amounts whose speeds differ by less than this factor no other is tried, once enough is known of
#: how many are of use.
GAIN = 1.1
#: Nor between amounts that are nearer to each other than this.
NEAR = 1.25
#: From a quarter of its proportional share to eight times that.
LEAST_SHARE, MOST_SHARE = 0.25, 8.0
#: Lines of the first seconds after a change do not count: the node follows, and queues of input drain.
SETTLING_SECONDS = 3.0
WINDOW_SECONDS = 5.0
#: A job that tells too little in this time is not tried any longer.
MOST_SECONDS = 300.0
#: Fewer amounts than these make no curve while others are left to try.
TRIALS_LEAST = 3
#: Speeds this near to the highest count as the highest, so that noise earns no CPUs.
NOISE = 0.05

#: When a job wrote a progress line, in seconds, and how many steps or samples it had done then.
Line = tuple[float, float]
Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTrials:
    """The trials of one replica, all amounts in CPUs; instants are those of its progress lines."""

    #: Its proportional share, and the most that its node could give.
    share: float
    most: float
    #: (CPUs, steps or samples a second) of the trials that are done.
    rates: tuple[tuple[float, float], ...] = ()
    #: With how many it runs, and from when on its lines count; 0: nothing was seen yet.
    has: float = 0.0
    since: float = 0.0
    #: When the trials began with this attempt.
    began_at: float = 0.0

    @property
    def next(self) -> float | None:
        """What is to be tried now; None once enough is known."""
        rates, least = dict(self.rates), self.share * LEAST_SHARE
        for amount in (self.share, min(self.most, self.share * MOST_SHARE), min(self.most, least)):
            if not any([_is_same(amount, tried) for tried in rates]):
                return amount
        if len(rates) >= TRIALS_MOST:
            return None
        top = max(rates.values()) * (1 - NOISE)
        points = sorted(rates.items())
        knee = next(place for place, (_, rate) in enumerate(points) if rate >= top)
        gaps = [
            # First how much is enough, then how much faster each of the steps before is.
            (place + 1 == knee, faster / slower, math.sqrt(less * more))
            for place, ((less, slower), (more, faster)) in enumerate(pairwise(points[: knee + 1]))
            if more > less * NEAR
        ]
        is_knee, gain, between = max(gaps, default=(False, 0.0, 0.0))
        return round(between, 3) if is_knee or gain > GAIN else None

    def after(self, lines: Sequence[Line], has: float) -> CpuTrials:
        """Return the trials after more lines, ascending, by a replica that `has` that number of CPUs now."""
        if not lines:
            return self
        newest = lines[-1][0]
        known = replace(self, began_at=self.began_at or newest)
        if not _is_same(has, known.has):
            return replace(known, has=has, since=newest + SETTLING_SECONDS)
        counted = [line for line in lines if line[0] >= known.since]
        if not counted or newest - counted[0][0] < WINDOW_SECONDS:
            return known
        rate = max(counted[-1][1] - counted[0][1], 0.0) / (newest - counted[0][0])
        sought = known.next
        if rate > 0:
            rates = {amount: speed for amount, speed in known.rates if not _is_same(amount, has)}
            known = replace(known, rates=tuple(sorted({**rates, has: rate}.items())))
        if sought is not None and sought > has and not _is_same(sought, has):
            # The node has no more to give.
            known = replace(known, most=has)
        return replace(known, since=newest + SETTLING_SECONDS)

    def is_over(self, now: float) -> bool:
        """Whether nothing is left to try, or there was no more time for it."""
        return self.next is None or (self.began_at > 0 and now - self.began_at > MOST_SECONDS)

    def curve(self) -> Curve:
        """Return speeds by CPUs relative to the fastest (`Sensitivity`); empty: too little is known."""
        if not self.rates or (len(self.rates) < TRIALS_LEAST and self.next is not None):
            return ()
        amounts, rates = zip(*self.rates, strict=True)
        top = max(rates)
        speeds = [
            1.0 if rate >= top * (1 - NOISE) else round(rate / top, 3) for rate in accumulate(rates, max)
        ]
        least = speeds.index(1.0)
        return tuple(zip(amounts[: least + 1], speeds, strict=False))


def _is_same(amount: float, other: float) -> bool:
    return math.isclose(amount, other, rel_tol=0.01, abs_tol=0.002)
