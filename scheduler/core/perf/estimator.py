"""Return known throughputs, and the best guess where none is known.

For a gang of g GPUs of a job class, near and alone, each model gets the first of these that exists:

1. The throughput on record for this very size, or declared for the job at hand, in the order of `throughput`.
2. An estimate from the job class's other cells (model x size, of any source above) and the reference job
   classes (`completion`). The references are all other classes with two models on record at one size,
   whichever tenant owns them; which classes they are is never shown. What other jobs declare is unproven, so
   it is left out. The estimate also covers sizes that were never measured, if references have them.
3. The throughput at the nearest size at which this model is known or estimated (by ratio; the smaller of two
   equally near), in proportion to the number of GPUs.
4. An assumption: the slowest of what 1 knows, else of what 2 and 3 estimate, else of everything known, in
   proportion. So nothing unknown is preferred to what is known.

Where no cell has a known positive throughput, 2 to 4 return nothing.

The confidence of an estimate is half the mean confidence of the cells behind it, times the likeness of the
reference (its cosine). An estimate in proportion has half of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.perf.completion import Cell, References
from scheduler.core.perf.throughput import (
    HIGHEST,
    Entry,
    JobClass,
    Setting,
    Source,
    Throughput,
    beside,
    partners_of,
)

Entries = Mapping[Setting, Entry]

_NOTHING = Entry()


class Pair(NamedTuple):
    """Two applications whose gangs of one size share their GPUs, in alphabetical order."""

    first: str
    second: str
    gpus: int
    gpu_model: str


class Group(NamedTuple):
    """Applications, in alphabetical order, whose gangs of one size share their GPUs."""

    applications: tuple[str, ...]
    gpus: int
    gpu_model: str


class ThroughputEstimator:
    """Throughputs on record, by job class and setting, and estimates from them.

    `references` are the rows to compare with, where they were computed before; they may be a little older
    than the record.
    """

    def __init__(self, entries: Mapping[JobClass, Entries], references: References | None = None) -> None:
        self.entries = entries
        self._given = references

    def knows(self, job_class: JobClass) -> bool:
        return job_class in self.entries

    def at(self, job_class: JobClass, setting: Setting, declared: float | None = None) -> Throughput | None:
        """Return the throughput on record or declared for one setting, or None."""
        return self.entries.get(job_class, {}).get(setting, _NOTHING).best(declared)

    def throughputs(
        self,
        job_class: JobClass,
        gpus: int,
        models: Iterable[str],
        declared: Mapping[str, float] | None = None,
    ) -> dict[str, Throughput]:
        """Return how fast a gang of the job class is, near and alone, on each model with a value or a guess.

        `declared` is what the job declares for a gang of its size, by model.
        """
        if not gpus:
            # Measurements of jobs of the class that have GPUs say nothing about a job without any.
            return {}
        cells = self._cells(job_class, gpus, declared or {})
        here = {model: cells[model, gpus] for model in models if (model, gpus) in cells}
        missing = [model for model in models if model not in here]
        basis = {cell: throughput for cell, throughput in cells.items() if throughput.value > 0}
        if not missing or not basis:
            return here
        found = {**here, **self._guessed(job_class, gpus, missing, basis)}
        known = [throughput.value for (_, size), throughput in basis.items() if size == gpus]
        guessed = [throughput.value for throughput in found.values() if throughput.value > 0]
        in_proportion = [throughput.value * gpus / size for (_, size), throughput in basis.items()]
        slowest = min(known or guessed or in_proportion)
        return found | {model: Throughput(slowest, Source.ASSUMED) for model in missing if model not in found}

    def beside(self, job_class: JobClass, setting: Setting) -> float | None:
        """Return the throughput beside the partners, relative to running alone; None if not measured."""
        throughput = self.at(job_class, setting)
        return None if throughput is None else min(1.0, throughput.value)

    def together(self, job_classes: Sequence[JobClass], gpu_model: str, gpus: int) -> list[float] | None:
        """Return the speeds of gangs of these classes that share their GPUs, each relative to running alone.

        They run near, and may use all of each GPU. None if one of the speeds was not measured.
        """
        speeds = []
        for place, job_class in enumerate(job_classes):
            others = [other.application for other in (*job_classes[:place], *job_classes[place + 1 :])]
            speeds.append(self.beside(job_class, Setting(gpu_model, gpus, partner=beside(others))))
        known = [speed for speed in speeds if speed is not None]
        return known if len(known) == len(speeds) else None

    @property
    def pairs(self) -> dict[Pair, tuple[float, float]]:
        """Return how fast two applications are beside each other, taken from `groups`."""
        return {
            Pair(*group.applications, group.gpus, group.gpu_model): (speeds[0], speeds[1])
            for group, speeds in self.groups.items()
            if len(group.applications) == 2
        }

    @cached_property
    def groups(self) -> dict[Group, tuple[float, ...]]:
        """Return the speeds of applications that share their GPUs, where all of a group are known.

        They run near, and may use all of each GPU. Job classes of several tenants with the same name count as
        one application: the mean over their windows.
        """
        sides: dict[tuple[str, str, int, str], list[tuple[float, int]]] = {}
        for job_class, settings in self.entries.items():
            for setting, entry in settings.items():
                if (
                    setting.partner
                    and _is_near_and_whole(setting)
                    and (throughput := entry.best()) is not None
                ):
                    side = (job_class.application, setting.partner, setting.gpus, setting.gpu_model)
                    sides.setdefault(side, []).append(
                        (min(1.0, throughput.value), max(1, throughput.samples))
                    )
        means = {side: _mean(values) for side, values in sides.items()}
        found: dict[Group, tuple[float, ...]] = {}
        for application, partner, gpus, model in sorted(means):
            names = partners_of(partner)
            if application > names[0]:
                continue  # The first class of the group represents it.
            everyone = (application, *names)
            others = [beside([*everyone[:place], *everyone[place + 1 :]]) for place in range(len(everyone))]
            speeds = [
                means.get((name, rest, gpus, model)) for name, rest in zip(everyone, others, strict=True)
            ]
            known = tuple([speed for speed in speeds if speed is not None])
            if len(known) == len(everyone):
                found[Group(everyone, gpus, model)] = known
        return found

    def _cells(self, job_class: JobClass, gpus: int, declared: Mapping[str, float]) -> dict[Cell, Throughput]:
        """Return the cells on record or declared for the job class, near and alone."""
        cells: dict[Cell, Throughput] = {}
        for setting, entry in self.entries.get(job_class, {}).items():
            if setting.partner or not _is_near_and_whole(setting):
                continue
            said = declared.get(setting.gpu_model) if setting.gpus == gpus else None
            throughput = entry.best(said)
            if throughput is not None:
                cells[setting.gpu_model, setting.gpus] = throughput
        for model, value in declared.items():
            if (model, gpus) not in cells and (throughput := _NOTHING.best(value)) is not None:
                cells[model, gpus] = throughput
        return cells

    def _guessed(
        self, job_class: JobClass, gpus: int, models: Sequence[str], basis: Mapping[Cell, Throughput]
    ) -> dict[str, Throughput]:
        known = {cell: throughput.value for cell, throughput in sorted(basis.items())}
        trust = 0.5 * sum(throughput.confidence for throughput in basis.values()) / len(basis)
        estimated = self.references.estimate(known, but=job_class)
        estimates: dict[Cell, Throughput] = {}
        if estimated is not None:
            confidence = trust * estimated.likeness
            for cell, value in estimated.values.items():
                estimates[cell] = Throughput(value, Source.ESTIMATED, 0, confidence)
        estimates |= basis
        guessed = {}
        for model in models:
            sizes = [size for known_model, size in estimates if known_model == model]
            if not sizes:
                continue
            size = min(sizes, key=lambda size: (abs(math.log(size / gpus)), size))
            throughput = estimates[model, size]
            confidence = (
                min(throughput.confidence, trust) if size == gpus else min(throughput.confidence, trust) / 2
            )
            value = min(HIGHEST, throughput.value * gpus / size)
            guessed[model] = Throughput(value, Source.ESTIMATED, 0, confidence)
        return guessed

    @cached_property
    def references(self) -> References:
        """Return the positive throughputs on record, near and alone, of every job class."""
        if self._given is not None:
            return self._given
        rows = {}
        for job_class in sorted(self.entries):
            cells = sorted(self._cells(job_class, 0, {}).items())
            rows[job_class] = {cell: throughput.value for cell, throughput in cells if throughput.value > 0}
        return References(rows)


def _is_near_and_whole(setting: Setting) -> bool:
    return not setting.spread and setting.gpu_limit == WHOLE_GPU


def _mean(values: Sequence[tuple[float, int]]) -> float:
    return sum([value * weight for value, weight in values]) / sum([weight for _, weight in values])
