"""By what predictors of peaks are measured: the peak oracle and the baseline of `core.perf.peaks`'s paper."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from scheduler.core.perf.peaks import JobUse

BORG_PART = 0.9


def borg_default(jobs: Sequence[JobUse]) -> float:
    """Return a fixed part of what the jobs ask for: a baseline that reads no sample."""
    return BORG_PART * fsum([job.request for job in jobs])


def oracle_peak(futures: Sequence[Sequence[float]]) -> float:
    """Return the largest sum of what jobs will use at one instant, which is known afterwards only."""
    longest = max(map(len, futures), default=0)
    return max(
        [fsum([use[at] for use in futures if at < len(use)]) for at in range(longest)],
        default=0.0,
    )
