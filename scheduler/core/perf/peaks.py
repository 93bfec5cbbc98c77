"""Predict the most that running jobs will use of a node from what they used.

N. Bashir et al., "Take it to the limit: peak prediction-driven resource overcommitment in datacenters",
EuroSys 2021. A node needs to reserve only the largest sum of what its jobs will use at one instant. With the
future known, that sum is the *peak oracle* (section 3); a *predictor* (section 4) approximates it from the
past alone:

    RC-like        the sum of a percentile of what each job used
    N-sigma        the mean of the sum, plus N standard deviations
    max            the largest of several of these; the paper deploys RC-like and N-sigma together

The peak oracle, and the paper's baseline (borg-default), are in the tests, which measure these by them.

Amounts are of one resource, in one unit: CPUs, or bytes of memory. Samples are a minute apart.

Deviations. The history is an hour and the warm-up ten minutes, where the paper uses hours for both: jobs here
run for hours, not for weeks, so with hours of warm-up nothing would be lent. N-sigma is computed as in the
authors' simulator: on use relative to what the jobs present at that time asked for. So jobs that come and go
do not look like jobs that use more and less. A job that is still warming up counts in addition, with all that
it asks for. A prediction is at least what is used now, and at most what the jobs ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, fsum, sqrt
from typing import TypeAlias

#: The most samples that count, and the number from which a job is no longer new.
HISTORY = 60
WARM_UP = 10
#: The standard deviations of N-sigma, and the percentile of RC-like.
SIGMAS = 5.0
PERCENTILE = 99.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUse:
    """What a job asks for on a node, and what it used of it."""

    request: float
    #: The newest last, at the same instants for all jobs of a node; a job that came later has fewer.
    samples: tuple[float, ...] = ()

    @property
    def capped(self) -> tuple[float, ...]:
        """The samples of the history, each at most what the job asks for: use beyond that lends nothing."""
        return tuple([min(max(used, 0.0), self.request) for used in self.samples[-HISTORY:]])


#: Return a predicted peak for jobs that are not new.
Predictor: TypeAlias = Callable[[Sequence[JobUse]], float]


def rc_like(jobs: Sequence[JobUse]) -> float:
    """Return the sum of a percentile of each job's use."""
    return fsum([_percentile(job.capped) for job in jobs])


def n_sigma(jobs: Sequence[JobUse]) -> float:
    """Return mean plus N standard deviations of what the jobs used together, scaled to their requests now."""
    requested = fsum([job.request for job in jobs])
    history = [job.capped for job in jobs]
    parts = []
    for back in range(1, max(map(len, history), default=0) + 1):
        there = [number for number, samples in enumerate(history) if len(samples) >= back]
        asked_then = fsum([jobs[number].request for number in there])
        if asked_then > 0:
            parts.append(fsum([history[number][-back] for number in there]) / asked_then)
    if not parts:
        return 0.0
    mean = fsum(parts) / len(parts)
    variance = fsum([(part - mean) ** 2 for part in parts]) / max(len(parts) - 1, 1)
    return min(mean + SIGMAS * sqrt(variance), 1.0) * requested


def largest_of(*predictors: Predictor) -> Predictor:
    """Return the predictor that takes the largest of several predictions."""
    return lambda jobs: max([predict(jobs) for predict in predictors])


USUAL_PREDICTOR = largest_of(rc_like, n_sigma)


def predicted_peak(jobs: Sequence[JobUse], predict: Predictor = USUAL_PREDICTOR) -> float:
    """Return the most that the jobs will use together: at least what they use now, at most their requests."""
    known = [job for job in jobs if len(job.samples) >= WARM_UP]
    new = fsum([job.request for job in jobs if len(job.samples) < WARM_UP])
    now = fsum([job.capped[-1] for job in known])
    requested = fsum([job.request for job in known])
    return new + min(max(predict(known), now), requested) if known else new


def _percentile(samples: Sequence[float]) -> float:
    """Return the percentile, interpolated linearly between two samples."""
    if not samples:
        return 0.0
    line = sorted(samples)
    place = PERCENTILE / 100 * (len(line) - 1)
    below = floor(place)
    above = min(below + 1, len(line) - 1)
    return line[below] + (line[above] - line[below]) * (place - below)
