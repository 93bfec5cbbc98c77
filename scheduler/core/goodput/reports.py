"""What the progress lines of an adaptive job state about how it scales: times, gradient noise and limits.

A line may state three things, each completely or not at all: the limits of its batch with its present batch;
how long a gradient and an iteration took since the line before, with that batch; and the squared norm and
variance of its gradient. It does not state nodes and replicas, because these are known. Every number comes
from the user's program. A line with a number that makes no sense is ignored, and what was known stays.

Times are kept as means, one for each way of running. A mean remembers `WEIGHT_MOST` iterations, because
machines change. When there are more than `WAYS_MOST` ways, those with the oldest reports are forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.core.goodput.batch import Limits, Noise
from scheduler.core.goodput.fit import Measurement
from scheduler.core.goodput.throughput import LEAST_SECONDS

#: The most ways of running that are kept.
WAYS_MOST = 64
#: How many iterations a mean remembers.
WEIGHT_MOST = 2_000.0
#: The weight of a line in the noise; the library already averages over a thousand iterations.
NOISE_PART = 0.3
#: Larger numbers make no sense.
BATCH_MOST, ACCUMULATION_MOST, ITERATIONS_MOST = 2**31, 10**6, 10**12
SECONDS_MOST, NOISE_MOST, FACTOR_MOST = 1e6, 1e30, 1e9
#: Means that differ from the fitted ones by less than this part need no new fit.
FITTED_WITHIN = 0.05


class Way(NamedTuple):
    """A way of running: on which GPUs, and how the batch is divided."""

    gpu_model: str
    nodes: int
    replicas: int
    local_batch: int
    accumulation: int


class Times(NamedTuple):
    """Mean times of a gradient without synchronising and of an iteration, and the iterations behind them."""

    gradient_seconds: float
    iteration_seconds: float
    iterations: float


class Batch(NamedTuple):
    """The present batch of a job, and the factor by which its learning rate is scaled for that batch.

    `overhead` is the part of an iteration that measuring and adapting take; None until reported.
    """

    size: int
    local_batch: int
    accumulation: int
    lr_factor: float
    overhead: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A progress line: its attempt, where that ran, and its values.

    `is_alone` if no other job shared its GPUs, so that its times are undisturbed.
    """

    attempt: int
    sequence: int
    gpu_model: str
    nodes: int
    replicas: int
    is_alone: bool = True
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputReport:
    """What is known after a line."""

    attempt: int = 0
    sequence: int = 0
    #: None until reported, like the two after it.
    limits: Limits | None = None
    batch: Batch | None = None
    noise: Noise | None = None
    #: By way of running, the most recently reported one last.
    times: Mapping[Way, Times] = field(default_factory=dict)
    #: The most replicas of any timed way.
    most_replicas: int = 0

    def after(self, line: Line) -> GoodputReport:
        """Return the report after one more line; unchanged if the line was counted or has nothing of use."""
        if (line.attempt, line.sequence) <= (self.attempt, self.sequence):
            return self
        try:
            limits, batch = _limits_of(line.values), _batch_of(line.values)
            noise, times = _noise_of(line.values), _times_of(line.values)
        except _Nonsense:
            return self
        if limits is None or batch is None:
            return self
        if batch.overhead is None and self.batch is not None:
            batch = batch._replace(overhead=self.batch.overhead)
        # The unit of the noise is the initial batch, so noise known at another one is void.
        known = self.noise if self.limits and self.limits.initial_batch == limits.initial_batch else None
        kept = self.times
        most_replicas = self.most_replicas
        if times is not None and line.is_alone:
            way = Way(line.gpu_model, line.nodes, line.replicas, batch.local_batch, batch.accumulation)
            kept = _with(self.times, way, times)
            most_replicas = max(most_replicas, line.replicas)
        return GoodputReport(
            attempt=line.attempt,
            sequence=line.sequence,
            limits=limits,
            batch=batch,
            noise=_smoothed(known, noise),
            times=kept,
            most_replicas=most_replicas,
        )

    def measurements(self) -> dict[str, list[Measurement]]:
        """Return the measurements for a fit, by GPU model."""
        found: dict[str, list[Measurement]] = {}
        for way, times in sorted(self.times.items()):
            gradient, iteration, _ = times
            measured = Measurement(*way[1:], gradient_seconds=gradient, iteration_seconds=iteration)
            found.setdefault(way.gpu_model, []).append(measured)
        return found

    def has_news(self, fitted: Mapping[Way, Times]) -> bool:
        """Return whether a fit of these times is outdated: there is a new way, or a mean moved."""
        return any(way not in fitted or _differs(times, fitted[way]) for way, times in self.times.items())


class _Nonsense(Exception):
    """A line has an impossible value."""


def _limits_of(values: Mapping[str, float]) -> Limits | None:
    names = ("initial_batch", "max_batch", "min_local_batch", "max_local_batch")
    if not _says(values, names):
        return None
    initial, most, min_local, max_local = [_whole(values[name], 1, BATCH_MOST) for name in names]
    if initial > most or min_local > max_local:
        raise _Nonsense
    return Limits(initial_batch=initial, max_batch=most, min_local_batch=min_local, max_local_batch=max_local)


def _batch_of(values: Mapping[str, float]) -> Batch | None:
    if not _says(values, ("batch_size", "local_batch", "accumulation")):
        return None
    return Batch(
        _whole(values["batch_size"], 1, BATCH_MOST),
        _whole(values["local_batch"], 1, BATCH_MOST),
        _whole(values["accumulation"], 0, ACCUMULATION_MOST),
        _number(values.get("lr_factor", 1.0), 0.0, FACTOR_MOST),
        _number(values["overhead"], 0.0, 1.0) if "overhead" in values else None,
    )


def _noise_of(values: Mapping[str, float]) -> Noise | None:
    if not _says(values, ("grad_sqr", "grad_var")):
        return None
    return Noise(
        _number(values["grad_sqr"], 0.0, NOISE_MOST),
        _number(values["grad_var"], 0.0, NOISE_MOST),
    )


def _times_of(values: Mapping[str, float]) -> Times | None:
    if not _says(values, ("gradient_seconds", "iteration_seconds", "timed_iterations")):
        return None
    return Times(
        _number(values["gradient_seconds"], LEAST_SECONDS, SECONDS_MOST),
        _number(values["iteration_seconds"], LEAST_SECONDS, SECONDS_MOST),
        float(_whole(values["timed_iterations"], 1, ITERATIONS_MOST)),
    )


def _says(values: Mapping[str, float], names: Iterable[str]) -> bool:
    """Return whether a line has all of these values; to have only some makes no sense."""
    said = [name in values for name in names]
    if any(said) and not all(said) and "initial_batch" in values:
        raise _Nonsense
    return all(said)


def _number(value: float, least: float, most: float) -> float:
    if not least <= value <= most:  # Also a value that is not a number.
        raise _Nonsense
    return float(value)


def _whole(value: float, least: int, most: int) -> int:
    if not (least <= value <= most and float(value).is_integer()):
        raise _Nonsense
    return int(value)


def _smoothed(known: Noise | None, measured: Noise | None) -> Noise | None:
    if known is None or measured is None:
        return measured or known
    return Noise(*[old + NOISE_PART * (new - old) for old, new in zip(known, measured, strict=True)])


def _with(times: Mapping[Way, Times], way: Way, measured: Times) -> dict[Way, Times]:
    """Return the times with one more report of a way, which comes last."""
    found = {each: kept for each, kept in times.items() if each != way}
    before = times.get(way)
    if before is not None:
        weight = min(before.iterations, WEIGHT_MOST)
        part = measured.iterations / (weight + measured.iterations)
        measured = Times(
            before.gradient_seconds + part * (measured.gradient_seconds - before.gradient_seconds),
            before.iteration_seconds + part * (measured.iteration_seconds - before.iteration_seconds),
            min(before.iterations + measured.iterations, ITERATIONS_MOST),
        )
    found[way] = measured
    for forgotten in list(found)[: max(len(found) - WAYS_MOST, 0)]:
        del found[forgotten]
    return found


def _differs(times: Times, fitted: Times) -> bool:
    pairs = zip(times[:2], fitted[:2], strict=True)
    return any(abs(math.log(now / before)) > FITTED_WITHIN for now, before in pairs)
