"""Optimistic profiling: the amounts of CPUs to try a running job with, and the curve that these trials give.

J. Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters" (Synergy), OSDI 2022: only
the axis of CPUs is measured, at about eight amounts found by binary search, in about a minute. Deviations:
the paper profiles a job before it is queued, while here the job keeps running and keeps its work; and the
axis of memory is not derived, because caches are a separate resource here (`core.fitting.storage`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

#: The most amounts that are tried.
TRIALS_MOST = 8
#: No amount is tried between two whose speeds differ by at most this factor, once it is known how many CPUs
#: are enough.
GAIN = 1.1
#: Nor between two amounts that differ by at most this factor.
NEAR = 1.25
#: Trials range from a quarter of the proportional share to eight times the share.
LEAST_SHARE, MOST_SHARE = 0.25, 8.0
#: Lines of the first seconds after a change do not count: the node adapts, and queues of input drain.
SETTLING_SECONDS = 3.0
WINDOW_SECONDS = 5.0
#: The most time for the trials; they end even if the job has reported too little by then.
MOST_SECONDS = 300.0
#: Fewer amounts than this make no curve while others are left to try.
TRIALS_LEAST = 3
#: Speeds this near to the highest count as the highest, so that noise wins a job no CPUs.
NOISE = 0.05

#: When a job wrote a progress line, in seconds, and how many steps or samples it had done.
Line = tuple[float, float]
Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTrials:
    """The trials of one replica. Amounts are in CPUs; times are those of its progress lines."""

    #: The replica's proportional share, and the most that its node could give.
    share: float
    most: float
    #: (CPUs, steps or samples a second) of each finished trial.
    rates: tuple[tuple[float, float], ...] = ()
    #: How many CPUs it has, and the time from which its lines count; 0 before the first line.
    has: float = 0.0
    since: float = 0.0
    #: When the trials of this attempt began; 0 before the first line.
    began_at: float = 0.0

    @property
    def next(self) -> float | None:
        """The amount to try now; None once enough is known."""
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
            # First find how much is enough, then how much each step below that gains.
            (place + 1 == knee, faster / slower, math.sqrt(less * more))
            for place, ((less, slower), (more, faster)) in enumerate(pairwise(points[: knee + 1]))
            if more > less * NEAR
        ]
        is_knee, gain, between = max(gaps, default=(False, 0.0, 0.0))
        return round(between, 3) if is_knee or gain > GAIN else None

    def after(self, lines: Sequence[Line], has: float) -> CpuTrials:
        """Return the trials after more lines (ascending) from a replica that now `has` that many CPUs."""
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
        """Return whether nothing is left to try, or the time for trials has run out."""
        return self.next is None or (self.began_at > 0 and now - self.began_at > MOST_SECONDS)

    def curve(self) -> Curve:
        """Return speeds by CPUs, relative to the fastest (`Sensitivity`); empty if too little is known."""
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
