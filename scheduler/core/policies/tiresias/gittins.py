"""The Gittins index of attained service, from samples of the total service that jobs needed.

J. Gittins, "Bandit Processes and Dynamic Allocation Indices", Journal of the Royal Statistical Society B
41(2), 1979; as Tiresias uses it (NSDI'19, section 3.2.2), service being GPUs x seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate


class Gittins:
    """Answers for many jobs from the same samples, each in the time of two binary searches."""

    def __init__(self, samples: Iterable[float]) -> None:
        self._samples = sorted(samples)
        #: Sum of the first n samples, for n = 0, 1, ...
        self._sums = [0.0, *accumulate(self._samples)]

    def index(self, attained: float, delta: float) -> float:
        """Return P(S - a <= delta | S > a) / E[min(S - a, delta) | S > a], in 1/GPU-seconds.

        The chance that a job which has attained service `a` ends within the next `delta`, for the service
        which that is expected to cost. 0 where no sample is larger than `a`: nothing is known there.
        """
        first = bisect_right(self._samples, attained)
        beyond = bisect_right(self._samples, attained + delta)
        left = len(self._samples) - first
        if left == 0 or delta <= 0:
            return 0.0
        ending = beyond - first
        expected = self._sums[beyond] - self._sums[first] - attained * ending + delta * (left - ending)
        return ending / expected
