"""The parameters of the workload generator, as JSON (docs/traces.md).

All draws are independent, except durations, which may depend on the size of the gang.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Literal

import msgspec

from scheduler.core.sim.workload import Status
from scheduler.simulation.errors import GeneratorError
from scheduler.simulation.traces.processors import MOST_GIB
from scheduler.simulation.traces.source import ANY_TENANT, ANY_VIRTUAL_CLUSTER

HOUR_SECONDS = 3600.0
#: The key of the entry for gangs whose size has none of its own.
ANY_SIZE = "*"
#: A part of a GPU, or a number of GPUs.
_SIZE = re.compile(r"0?\.[0-9]{1,3}|[0-9]{1,9}")
#: The fewest jobs a week; with fewer, drawing them would take forever.
_FEWEST_A_WEEK = 1e-4


def _need(right: bool, message: str) -> None:
    # msgspec adds the place in the file to a ValueError.
    if not right:
        raise ValueError(message)


class Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of the parts of a spec: they are immutable, and a misspelt field is an error."""


class LogNormal(Struct, tag="log_normal", tag_field="kind", frozen=True, kw_only=True):
    """Durations around a median; those above `most_seconds` are cut to it."""

    median_seconds: float
    #: Standard deviation of the logarithm.
    sigma: float
    most_seconds: float | None = None

    def __post_init__(self) -> None:
        _need(0 < self.median_seconds < math.inf, "median_seconds must be above 0")
        _need(0 <= self.sigma <= 20, "sigma must be from 0 to 20")
        _need(self.most_seconds is None or self.most_seconds > 0, "most_seconds must be above 0")

    def draw(self, rng: Random) -> float:
        drawn = self.median_seconds * math.exp(rng.gauss(0.0, self.sigma))
        return drawn if self.most_seconds is None else min(drawn, self.most_seconds)


class Piece(Struct, frozen=True, kw_only=True):
    """One stretch of a log-uniform distribution."""

    weight: float
    low_seconds: float
    high_seconds: float

    def __post_init__(self) -> None:
        _need(0 < self.weight < math.inf, "weight must be above 0")
        _need(
            0 < self.low_seconds <= self.high_seconds < math.inf,
            "it must be that 0 < low_seconds <= high_seconds",
        )


class LogUniform(Struct, tag="log_uniform", tag_field="kind", frozen=True, kw_only=True):
    """A piece by weight, then a duration whose logarithm is uniform in it."""

    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        _need(bool(self.pieces), "pieces must not be empty")

    def draw(self, rng: Random) -> float:
        piece = rng.choices(self.pieces, [piece.weight for piece in self.pieces])[0]
        return math.exp(rng.uniform(math.log(piece.low_seconds), math.log(piece.high_seconds)))


class Arrivals(Struct, frozen=True, kw_only=True):
    """When jobs come. The first one comes at 0.

    static: all at 0. poisson: at a constant rate. diurnal: at jobs_per_hour x by_hour x by_weekday, where
    hour 0 of day 0 begins with the first submission, since a workload has no other clock.
    """

    process: Literal["static", "poisson", "diurnal"] = "poisson"
    jobs_per_hour: float = 1.0
    #: 24 and 7 factors, about 1 on average.
    by_hour: tuple[float, ...] = (1.0,) * 24
    by_weekday: tuple[float, ...] = (1.0,) * 7

    def __post_init__(self) -> None:
        _need(0 < self.jobs_per_hour < math.inf, "jobs_per_hour must be above 0")
        for name, factors, count in (("by_hour", self.by_hour, 24), ("by_weekday", self.by_weekday, 7)):
            _need(len(factors) == count, f"{name} must be {count} factors")
            _need(all(0 <= factor < math.inf for factor in factors), f"{name}: factors must be at least 0")
        week = self.jobs_per_hour * sum(self.by_hour) * sum(self.by_weekday)
        _need(_FEWEST_A_WEEK <= week < math.inf, "by_hour and by_weekday leave no jobs in a week")

    def draw(self, rng: Random) -> Iterator[float]:
        """Yield the times of submissions in seconds, without end."""
        yield 0.0
        at = 0.0
        while True:
            if self.process == "poisson":
                at += rng.expovariate(self.jobs_per_hour) * HOUR_SECONDS
            elif self.process == "diurnal":
                at = self._next(at, rng.expovariate(1.0))
            yield at

    def _next(self, at: float, expected: float) -> float:
        """Return when `expected` jobs are expected after `at`: the rate is constant within each hour."""
        while True:
            hour = math.floor(at / HOUR_SECONDS)
            ends = (hour + 1) * HOUR_SECONDS
            rate = self.jobs_per_hour * self.by_hour[hour % 24] * self.by_weekday[hour // 24 % 7]
            if expected * HOUR_SECONDS <= rate * (ends - at):
                return min(ends, at + expected * HOUR_SECONDS / rate)
            expected -= rate * (ends - at) / HOUR_SECONDS
            at = ends


class Application(Struct, frozen=True, kw_only=True):
    """A kind of training job; drawn only for gangs of at most `largest_gpus`."""

    name: str
    weight: float = 1.0
    largest_gpus: int | None = None

    def __post_init__(self) -> None:
        _need(0 < self.weight < math.inf, "weight must be above 0")


class Submitter(Struct, frozen=True, kw_only=True):
    """A tenant that submits to a virtual cluster, and its part of the jobs."""

    tenant: str = ANY_TENANT
    virtual_cluster: str = ANY_VIRTUAL_CLUSTER
    weight: float = 1.0

    def __post_init__(self) -> None:
        _need(0 < self.weight < math.inf, "weight must be above 0")


class GeneratorSpec(Struct, frozen=True, kw_only=True):
    """All parameters of a generated workload but its seed."""

    jobs: int
    arrivals: Arrivals = Arrivals()
    #: GPUs of a gang, or a part of one such as "0.25", -> weight. Keys are texts, as in JSON.
    sizes: dict[str, float] = msgspec.field(default_factory=lambda: {"1": 1.0})
    #: GPUs of a gang -> CPUs, and GiB of memory, of each of its replicas; "*" for all other sizes.
    cpus: dict[str, float] = msgspec.field(default_factory=dict)
    memory_gib: dict[str, float] = msgspec.field(default_factory=dict)
    #: GPUs of a gang -> how long such jobs run; "*" for all other sizes.
    durations: dict[str, LogNormal | LogUniform] = msgspec.field(
        default_factory=lambda: {ANY_SIZE: LogNormal(median_seconds=3600.0, sigma=1.5)}
    )
    applications: tuple[Application, ...] = ()
    submitters: tuple[Submitter, ...] = (Submitter(),)
    #: passed, killed or failed -> weight.
    statuses: dict[Status, float] = msgspec.field(default_factory=lambda: {"passed": 1.0})

    def __post_init__(self) -> None:
        _need(1 <= self.jobs <= 10_000_000, "jobs must be from 1 to 10,000,000")
        for name, amounts in (("cpus", self.cpus), ("memory_gib", self.memory_gib)):
            for size, amount in amounts.items():
                _need(size == ANY_SIZE or _is_size(size), f'{name}: {size!r} is neither GPUs nor "*"')
                _need(0 <= amount < math.inf, f"{name}: that of {size} must be at least 0")
        for size, gib in self.memory_gib.items():
            _need(gib <= MOST_GIB, f"memory_gib: that of {size} must be at most {MOST_GIB:,}")
        for size, weight in self.sizes.items():
            _need(
                _is_size(size),
                f"sizes: {size!r} is neither a whole number nor a part such as 0.25",
            )
            _need(
                float(size) > 0 or self.cpus_of(size) > 0 or self.memory_of(size) > 0,
                f"sizes: jobs of {size} GPUs need cpus or memory_gib",
            )
            _need(0 < weight < math.inf, f"sizes: the weight of {size} must be above 0")
            _need(
                size in self.durations or ANY_SIZE in self.durations,
                f'durations: there is none for {size} GPUs, and none for all others ("*")',
            )
            _need(
                not self.applications
                or any(
                    app.largest_gpus is None or app.largest_gpus >= float(size) for app in self.applications
                ),
                f"applications: none takes {size} GPUs",
            )
        for size in self.durations:
            _need(
                size == ANY_SIZE or _is_size(size),
                f'durations: {size!r} is neither GPUs nor "*"',
            )
        _need(bool(self.sizes), "sizes must not be empty")
        _need(bool(self.submitters), "submitters must not be empty")
        _need(bool(self.statuses), "statuses must not be empty")
        _need(
            all(0 < weight < math.inf for weight in self.statuses.values()),
            "statuses: weights must be above 0",
        )

    def cpus_of(self, size: str) -> float:
        """Return the CPUs of each replica of a gang of that size."""
        return self.cpus.get(size, self.cpus.get(ANY_SIZE, 0.0))

    def memory_of(self, size: str) -> int:
        """Return the bytes of memory of each replica of a gang of that size."""
        return round(self.memory_gib.get(size, self.memory_gib.get(ANY_SIZE, 0.0)) * 2**30)


def _is_size(text: str) -> bool:
    return text.isascii() and _SIZE.fullmatch(text) is not None


def to_json(spec: GeneratorSpec) -> str:
    """Return a spec as JSON that `parse_generator` reads back."""
    return msgspec.json.format(msgspec.json.encode(spec), indent=2).decode() + "\n"


def parse_generator(text: str | bytes, name: str = "generator") -> GeneratorSpec:
    """Read a spec from JSON. Raise GeneratorError that names the field."""
    try:
        return msgspec.json.decode(text, type=GeneratorSpec)
    except msgspec.DecodeError as error:
        raise GeneratorError(f"{name}: {error}") from None


def read_generator(path: str | Path) -> GeneratorSpec:
    """Read a spec from a JSON file. Raise GeneratorError."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GeneratorError(f"{path.name}: cannot be read: {error.strerror}") from None
    return parse_generator(data, path.name)
