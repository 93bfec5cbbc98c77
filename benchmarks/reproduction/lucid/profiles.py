"""What Lucid's authors measured: of a job alone its memory and how well it shares, of pairs their speeds."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler.simulation.errors import InputError

#: Models of which no pair was measured: they are not slowed down, nor their partners.
_NO_PAIRS = frozenset({"NeuMF", "ResNet50", "BERT", "Transformer"})


@dataclass(frozen=True, slots=True)
class Configuration:
    """A model, its data and batch, measured alone."""

    model: str
    dataset: str
    batch: int
    mixed_precision: bool
    #: MiB on the GPU.
    memory: float
    #: 0: it hardly disturbs, 1: somewhat, 2: only those that do not disturb at all may join it.
    score: int


@dataclass(frozen=True, slots=True)
class Profiles:
    """Everything measured."""

    configurations: tuple[Configuration, ...]
    #: By two configurations, in either order: speed of each relative to being alone.
    _speeds: Mapping[tuple[Configuration, Configuration], tuple[float, float]]

    def speeds(self, one: Configuration, other: Configuration) -> tuple[float, float]:
        """Return how fast two are together, relative to alone; raise InputError for a pair not measured."""
        if one.model in _NO_PAIRS or other.model in _NO_PAIRS:
            return 1.0, 1.0
        if (one, other) in self._speeds:
            return self._speeds[one, other]
        if (other, one) in self._speeds:
            return self._speeds[other, one][::-1]
        raise InputError(f"{one.model} and {other.model} were not measured together")


def read_profiles(folder: Path) -> Profiles:
    """Return what single_profile.csv and colocate_pairs.csv have; raise InputError."""
    known: dict[tuple[str, str, int, bool], Configuration] = {}
    for row in rows_of(folder / "single_profile.csv"):
        key = _key(row, "")
        known[key] = Configuration(*key, float(row["gmem"]), int(row["label"]))
    speeds = {}
    for row in rows_of(folder / "colocate_pairs.csv"):
        one, other = known.get(_key(row, "1")), known.get(_key(row, "2"))
        if one is None or other is None:
            raise InputError(f"colocate_pairs.csv: {row['model1']} or {row['model2']} was not measured alone")
        speeds[one, other] = float(row["speed1"]), float(row["speed2"])
    return Profiles(tuple(known.values()), speeds)


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file; raise InputError."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from None


def _key(row: Mapping[str, str], which: str) -> tuple[str, str, int, bool]:
    try:
        batch, precision = int(row[f"batchsize{which}"]), bool(int(row[f"amp{which}"]))
        return row[f"model{which}"], row[f"dataset{which}"], batch, precision
    except (KeyError, ValueError) as error:
        raise InputError(f"a profile of Lucid's cannot be read: {error}") from None
