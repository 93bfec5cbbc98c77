"""One throughput: how fast a job class is in one setting, its source, and how far it can be trusted.

A *job class* is a tenant's application. A *setting* is where a gang of it runs, and with which partners: GPU
model, GPUs in all, near (on as few nodes as possible) or spread over more, alone or beside partners that
share all its GPUs, with whole GPUs or with parts up to a limit. Its throughput is in samples per second of
the whole gang; beside partners it is relative to running alone within the same limit, 1 at most. A throughput
of 0 means that the job class does not run there.

Where there are several sources, the first of these counts:

1. corrected: by a person, who is named;
2. measured, by at least `ENOUGH_SAMPLES` windows;
3. declared: in the job's specification;
4. measured, by fewer windows;
5. estimated: from other settings of this job class, and from how other job classes compare (`completion`);
6. assumed: as slow as the slowest of what is known. Where nothing is known, there is no throughput, and the
   job counts as equally fast on every model (`core.building_blocks.run_time`).

Confidence is 1 for a correction, 0.5 for a declaration and 0 for an assumption. For a measurement it is
n/(n+2) / (1 + deviation/average), n being the windows: 0.33 for one, 0.6 for three that agree, 0.9 for
eighteen. `estimator` defines it for an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from scheduler.core.model.gpu_parts import WHOLE_GPU

#: From this many windows on, a measurement overrules what the user declared.
ENOUGH_SAMPLES = 3
#: The weight of the newest window, as in Gavel's scheduler on a real cluster.
ALPHA = 0.5
#: The most samples a second of a gang, and the fewest of one that runs.
HIGHEST, LOWEST = 1e12, 1e-9
#: The largest ratio of the speeds of two GPU models.
LARGEST_RATIO = 1e6
#: The confidence of a throughput that a user declared.
DECLARED_CONFIDENCE = 0.5
#: The most gangs whose speeds together are measured: as many as Muri puts into a group.
MOST_TOGETHER = 4
#: The start of a gang is not measured, because it loads and compiles.
WARM_UP_SECONDS = 10.0
#: The length of one measurement.
WINDOW_SECONDS = 60.0


class Source(StrEnum):
    """The source of a throughput."""

    CORRECTED = "corrected"
    MEASURED = "measured"
    DECLARED = "declared"
    ESTIMATED = "estimated"
    ASSUMED = "assumed"


class JobClass(NamedTuple):
    """Jobs that run alike: one tenant's application, or its jobs of one name where they state none."""

    tenant: str
    application: str


def job_class_of(tenant: str, application: str, job_name: str) -> JobClass:
    """Return the job class of a job; a colon distinguishes the name of a job from that of an application."""
    return JobClass(tenant, application or f"name:{job_name}")


class Setting(NamedTuple):
    """Where a gang runs, and with which partners."""

    gpu_model: str
    gpus: int
    #: Whether it runs on more nodes than needed.
    spread: bool = False
    #: The application of the gang that shares all its GPUs, or several joined by `beside`; empty if it has
    #: them alone.
    partner: str = ""
    #: How much it may use of each GPU, in thousandths; below `WHOLE_GPU` it has parts.
    gpu_limit: int = WHOLE_GPU


_AND = "+"


def beside(applications: Iterable[str]) -> str:
    """Return the partner of a setting for gangs of these applications, in any order."""
    return _AND.join(sorted(applications))


def partners_of(partner: str) -> tuple[str, ...]:
    """Return the applications that `beside` joined; no name of an application contains a plus."""
    return tuple(partner.split(_AND)) if partner else ()


@dataclass(frozen=True, slots=True)
class Throughput:
    """A throughput with its source. `samples` is the number of measured windows, whatever the source."""

    value: float
    source: Source
    samples: int = 0
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class MovingAverage:
    """Running figures of one setting: exponential average and variance, and the number of windows."""

    average: float
    variance: float = 0.0
    samples: int = 1

    def then(self, value: float) -> MovingAverage:
        """Return the figures after one more window."""
        difference = value - self.average
        return replace(
            self,
            average=self.average + ALPHA * difference,
            variance=(1 - ALPHA) * (self.variance + ALPHA * difference * difference),
            samples=self.samples + 1,
        )

    @property
    def deviation(self) -> float:
        return math.sqrt(max(0.0, self.variance))

    @property
    def confidence(self) -> float:
        """Return the confidence, between 0 and 1, as the docstring of this module defines it."""
        if not self.average > 0:
            return 0.0
        return self.samples / (self.samples + 2) / (1 + self.deviation / self.average)


@dataclass(frozen=True, slots=True)
class Entry:
    """The record of one setting."""

    corrected: float | None = None
    measured: MovingAverage | None = None

    def best(self, declared: float | None = None) -> Throughput | None:
        """Return the throughput from the best source, in the order of this module's docstring, or None."""
        measured = self.measured
        samples = measured.samples if measured else 0
        if self.corrected is not None:
            return Throughput(self.corrected, Source.CORRECTED, samples, 1.0)
        if declared is not None and samples < ENOUGH_SAMPLES:
            return Throughput(declared, Source.DECLARED, samples, DECLARED_CONFIDENCE)
        if measured is None:
            return None
        return Throughput(measured.average, Source.MEASURED, samples, measured.confidence)


def problem_with(value: float, *, beside_partner: bool = False) -> str | None:
    """Return what is wrong with a throughput, or None."""
    if not math.isfinite(value):
        return f"{value} is not a finite number"
    if value < 0:
        return f"{value:g} is negative"
    if 0 < value < LOWEST:
        return f"{value:g} is less than {LOWEST:g}; where a gang does not run, it is 0"
    if beside_partner and value > 1:
        return f"{value:g} is more than 1: a gang that shares its GPUs is not faster than alone"
    if value > HIGHEST:
        return f"{value:g} is more than {HIGHEST:g} samples a second"
    return None


def too_far_apart(values: list[float]) -> bool:
    """Return whether the largest is implausible beside the smallest; a 0 (it does not run) is left out."""
    running = [value for value in values if value > 0]
    return bool(running) and max(running) > LARGEST_RATIO * min(running)
