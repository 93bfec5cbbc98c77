"""All that is known of speeds, and the best guess where nothing is.

For a gang of g GPUs of a kind, near and alone, on each model that is asked for:

1. What is on record for this very size, or declared for the job at hand, in the order of `speed`.
2. Otherwise an estimate from the kind's other cells (model x size, of any source above) and the reference
   kinds: all others of which two models are on record at one size, whoever's they are; who they are is told
   to nobody (`completion`). What others declare is only their word, and left out. It also tells sizes that
   were never measured, as far as references tell them.
3. Otherwise the nearest size at which this model is known or estimated (by ratio; the smaller of two as
   near), in proportion to the number of GPUs.
4. Otherwise the slowest of what 1 knows (else of what 2 and 3 estimate, else of all that is known, in
   proportion): nothing unknown is preferred to what is known. That is an assumption.

Where not even a cell with a positive speed is known, 2 to 4 say nothing.

The confidence of an estimate is half the mean confidence of the cells it comes from, times the likeness of
the reference (its cosine), and half of that again for one in proportion.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from scheduler.core.perf.completion import Cell, References
from scheduler.core.perf.speed import HIGHEST, Entry, Kind, Setting, Source, Speed

Entries = Mapping[Setting, Entry]

_NOTHING = Entry()


class Pair(NamedTuple):
    """Two applications whose gangs of one size share their GPUs, in alphabetical order."""

    first: str
    second: str
    gpus: int
    gpu_model: str


class Knowledge:
    """What is on record, by kind and setting. `references`: those to compare with, where they are known
    already; they may be a little older than the rest."""

    def __init__(self, entries: Mapping[Kind, Entries], references: References | None = None) -> None:
        self.entries = entries
        self._given = references

    def knows(self, kind: Kind) -> bool:
        return kind in self.entries

    def at(self, kind: Kind, setting: Setting, declared: float | None = None) -> Speed | None:
        """Return what is on record, or declared, for one setting; None: nothing."""
        return self.entries.get(kind, {}).get(setting, _NOTHING).best(declared)

    def speeds(
        self, kind: Kind, gpus: int, models: Iterable[str], declared: Mapping[str, float] | None = None
    ) -> dict[str, Speed]:
        """Return how fast a gang of the kind is, near and alone, on each of these models that something is
        known or guessed of. `declared`: what the job says of a gang of its size, by model."""
        cells = self._cells(kind, gpus, declared or {})
        here = {model: cells[model, gpus] for model in models if (model, gpus) in cells}
        missing = [model for model in models if model not in here]
        basis = {cell: speed for cell, speed in cells.items() if speed.value > 0}
        if not missing or not basis:
            return here
        found = {**here, **self._guessed(kind, gpus, missing, basis)}
        known = [speed.value for (_, size), speed in basis.items() if size == gpus]
        guessed = [speed.value for speed in found.values() if speed.value > 0]
        in_proportion = [speed.value * gpus / size for (_, size), speed in basis.items()]
        slowest = min(known or guessed or in_proportion)
        return found | {model: Speed(slowest, Source.ASSUMED) for model in missing if model not in found}

    def beside(self, kind: Kind, setting: Setting) -> float | None:
        """Return the speed beside the setting's partner relative to being alone; None: nobody measured."""
        speed = self.at(kind, setting)
        return None if speed is None else min(1.0, speed.value)

    @cached_property
    def pairs(self) -> dict[Pair, tuple[float, float]]:
        """How fast two applications are beside each other, where both sides are known, near.

        Kinds of several tenants that are named alike count as one application: the mean over their windows.
        """
        sides: dict[tuple[str, str, int, str], list[tuple[float, int]]] = {}
        for kind, settings in self.entries.items():
            for setting, entry in settings.items():
                if setting.partner and not setting.spread and (speed := entry.best()) is not None:
                    side = (kind.application, setting.partner, setting.gpus, setting.gpu_model)
                    sides.setdefault(side, []).append((min(1.0, speed.value), max(1, speed.samples)))
        means = {side: _mean(values) for side, values in sides.items()}
        return {
            Pair(one, other, gpus, model): (speed, means[other, one, gpus, model])
            for (one, other, gpus, model), speed in sorted(means.items())
            if one <= other and (other, one, gpus, model) in means
        }

    def _cells(self, kind: Kind, gpus: int, declared: Mapping[str, float]) -> dict[Cell, Speed]:
        """Return what is on record or declared for the kind, near and alone."""
        cells: dict[Cell, Speed] = {}
        for setting, entry in self.entries.get(kind, {}).items():
            if setting.spread or setting.partner:
                continue
            said = declared.get(setting.gpu_model) if setting.gpus == gpus else None
            speed = entry.best(said)
            if speed is not None:
                cells[setting.gpu_model, setting.gpus] = speed
        for model, value in declared.items():
            if (model, gpus) not in cells and (speed := _NOTHING.best(value)) is not None:
                cells[model, gpus] = speed
        return cells

    def _guessed(
        self, kind: Kind, gpus: int, models: Sequence[str], basis: Mapping[Cell, Speed]
    ) -> dict[str, Speed]:
        known = {cell: speed.value for cell, speed in sorted(basis.items())}
        trust = 0.5 * sum(speed.confidence for speed in basis.values()) / len(basis)
        estimated = self.references.estimate(known, but=kind)
        told: dict[Cell, Speed] = {}
        if estimated is not None:
            confidence = trust * estimated.likeness
            for cell, value in estimated.values.items():
                told[cell] = Speed(value, Source.ESTIMATED, 0, confidence)
        told |= basis
        guessed = {}
        for model in models:
            sizes = [size for known_model, size in told if known_model == model]
            if not sizes:
                continue
            size = min(sizes, key=lambda size: (abs(math.log(size / gpus)), size))
            speed = told[model, size]
            confidence = min(speed.confidence, trust) if size == gpus else min(speed.confidence, trust) / 2
            value = min(HIGHEST, speed.value * gpus / size)
            guessed[model] = Speed(value, Source.ESTIMATED, 0, confidence)
        return guessed

    @cached_property
    def references(self) -> References:
        """Every kind by what is on record of it, near and alone, with positive speed."""
        if self._given is not None:
            return self._given
        rows = {}
        for kind in sorted(self.entries):
            cells = sorted(self._cells(kind, 0, {}).items())
            rows[kind] = {cell: speed.value for cell, speed in cells if speed.value > 0}
        return References(rows)


def _mean(values: Sequence[tuple[float, int]]) -> float:
    return sum([value * weight for value, weight in values]) / sum([weight for _, weight in values])
