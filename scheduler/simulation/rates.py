"""How fast kinds of training job run, by GPU model, number of nodes, and partners on the same GPUs.

Two assumptions are ours: a gain from spreading or sharing is noise and counts as 1, and a gang size that was
not measured has the relative speeds of the nearest smaller measured one (the smallest, if none is smaller).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scheduler.core.model import wording
from scheduler.core.model.interference import GroupSpeeds, PairSpeeds
from scheduler.simulation.errors import ThroughputError


@dataclass(frozen=True, kw_only=True)
class ThroughputTable:
    """Measured rates. Answers are relative, and None where nothing is known. Model names ignore case.

    Keys are (application, gang size in GPUs, GPU model in lower case).
    """

    name: str
    #: The GPU model that counts as 1, in lower case; empty when no rates by model are known.
    reference: str = ""
    #: Steps (or samples, or epochs) a second of a gang that is alone and near; 0 if it does not fit.
    alone: Mapping[tuple[str, int, str], float] = field(default_factory=dict)
    #: The same for a gang spread over nodes.
    spread: Mapping[tuple[str, int, str], float] = field(default_factory=dict)
    #: (application, gang size) -> number of nodes -> speed relative to one node.
    by_nodes: Mapping[tuple[str, int], Mapping[int, float]] = field(default_factory=dict)
    #: (application, other, gang size, GPU model or "") -> speed of the first relative to running alone; 0 if
    #: the two do not fit together.
    pairs: Mapping[tuple[str, str, int, str], float] = field(default_factory=dict)
    #: The same beside several others, in alphabetical order.
    groups: Mapping[tuple[str, tuple[str, ...], int, str], float] = field(default_factory=dict)

    @cached_property
    def applications(self) -> frozenset[str]:
        """Every kind of job with a known rate."""
        return frozenset(
            key[0] for keys in (self.alone, self.by_nodes, self.pairs, self.groups) for key in keys
        )

    @cached_property
    def gpu_models(self) -> tuple[str, ...]:
        return tuple(sorted({model for _, _, model in self.alone}))

    @cached_property
    def _sizes(self) -> Mapping[str, tuple[int, ...]]:
        sizes: dict[str, set[int]] = {}
        for application, gpus, model in self.alone:
            if model == self.reference:
                sizes.setdefault(application, set()).add(gpus)
        return {application: tuple(sorted(found)) for application, found in sizes.items()}

    def measured_size(self, application: str, gpus: int) -> int | None:
        """Return the gang size whose measurements represent this one; None if the application is unknown."""
        sizes = self._sizes.get(application)
        if not sizes:
            return None
        return max([size for size in sizes if size <= gpus], default=sizes[0])

    def reference_rate(self, application: str, gpus: int) -> float | None:
        """Return the steps a second of a gang alone and near on the reference model."""
        size = self.measured_size(application, gpus)
        return None if size is None else self.alone[application, size, self.reference]

    def rate(self, application: str, gpus: int, gpu_model: str, of_gpus: int | None = None) -> float | None:
        """Return the speed of a gang on this model, relative to the reference model; 0 if it does not fit.

        The reference is a gang of the same size, or of `of_gpus` for an elastic job whose work is that of
        another size. The latter needs measurements of both sizes.
        """
        size = self.measured_size(application, gpus)
        if size is None:
            return None
        of_size = size
        if of_gpus is not None and of_gpus != gpus:
            of_size = of_gpus
            if (application, gpus, self.reference) not in self.alone:
                return None
        here = self.alone.get((application, size, gpu_model.lower()))
        reference = self.alone.get((application, of_size, self.reference))
        return None if here is None or not reference else here / reference

    def locality(self, application: str, gpus: int, nodes: int, gpu_model: str | None = None) -> float | None:
        """Return the speed of a gang on `nodes` nodes, relative to as few as possible; at most 1.

        If it was measured by number of nodes, it is linear between two numbers, and constant beyond the last.
        Otherwise it is the single "spread" measurement of this model (by default, the reference model).
        """
        if nodes <= 1 or gpus <= 1:
            return 1.0
        if by_nodes := self.by_nodes.get((application, gpus)):
            return min(1.0, _between(by_nodes, nodes))
        key = (application, gpus, (gpu_model or self.reference).lower())
        alone, spread = self.alone.get(key), self.spread.get(key)
        return None if not alone or spread is None else min(1.0, spread / alone)

    def interference(self, application: str, other: str, gpu_model: str, gpus: int = 1) -> float | None:
        """Return the speed of a gang that shares all its GPUs with one of `other`; alone is 1, the most.

        It is 0 if the two do not fit on the GPUs together. Both gangs have `gpus` GPUs.
        """
        for model in (gpu_model.lower(), ""):
            found = self.pairs.get((application, other, gpus, model))
            if found is not None:
                return min(1.0, found)
        return None

    def among(self, application: str, others: Sequence[str], gpu_model: str, gpus: int = 1) -> float | None:
        """Return the same for a gang that shares all its GPUs with one of each of several others."""
        found = self.groups.get((application, tuple(sorted(others)), gpus, gpu_model.lower()))
        return None if found is None else min(1.0, found)

    def throughput(self, application: str, gpus: int) -> Mapping[str, float]:
        """Return the steps a second by GPU model, for `Job.throughput`, if this gang size was measured."""
        found = {model: self.alone.get((application, gpus, model)) for model in self.gpu_models}
        return {model: rate for model, rate in found.items() if rate}

    def pair_speeds(
        self, applications: Collection[str], gpu_models: Collection[str]
    ) -> tuple[PairSpeeds, ...]:
        """Return the measured speeds of two of these applications on the same GPUs of these models."""
        known = []
        for (one, other, gpus, model), speed in sorted(self.pairs.items()):
            reverse = self.pairs.get((other, one, gpus, model))
            if one > other or reverse is None or not {one, other} <= set(applications):
                continue
            speeds = min(1.0, speed), min(1.0, reverse)
            known += [
                PairSpeeds(applications=(one, other), gpus=gpus, gpu_model=name, speeds=speeds)
                for name in gpu_models
                if model in ("", name.lower())
            ]
        return tuple(known)

    def group_speeds(
        self, applications: Collection[str], gpu_models: Collection[str]
    ) -> tuple[GroupSpeeds, ...]:
        """Return the same for three and more of these applications, where all of a group were measured."""
        names, known = {name.lower(): name for name in gpu_models}, []
        for application, others, gpus, model in sorted(self.groups):
            everyone = (application, *others)
            if application > others[0] or model not in names or not set(everyone) <= set(applications):
                continue  # The first of a group represents it.
            sides = [
                self.among(one, everyone[:place] + everyone[place + 1 :], model, gpus)
                for place, one in enumerate(everyone)
            ]
            speeds = tuple([speed for speed in sides if speed is not None])
            if len(speeds) == len(everyone):
                known.append(
                    GroupSpeeds(applications=everyone, gpus=gpus, gpu_model=names[model], speeds=speeds)
                )
        return tuple(known)


def _between(speeds: Mapping[int, float], nodes: int) -> float:
    known = sorted(speeds.items())
    low = max((entry for entry in known if entry[0] <= nodes), default=(1, 1.0))
    high = min((entry for entry in known if entry[0] >= nodes), default=low)
    if high[0] == low[0]:
        return low[1]
    return low[1] + (high[1] - low[1]) * (nodes - low[0]) / (high[0] - low[0])


def merged(first: ThroughputTable, *others: ThroughputTable) -> ThroughputTable:
    """Return several tables as one; an entry of an earlier table overrides the same entry of later ones."""
    tables = (first, *others)
    alone: dict[tuple[str, int, str], float] = {}
    spread: dict[tuple[str, int, str], float] = {}
    by_nodes: dict[tuple[str, int], Mapping[int, float]] = {}
    pairs: dict[tuple[str, str, int, str], float] = {}
    groups: dict[tuple[str, tuple[str, ...], int, str], float] = {}
    references = {table.reference for table in tables if table.reference}
    if len(references) > 1:
        raise ThroughputError(
            f"tables with the reference models {wording.listed(sorted(references))} cannot be joined; "
            "choose one reference for all"
        )
    for table in reversed(tables):
        alone |= table.alone
        spread |= table.spread
        by_nodes |= table.by_nodes
        pairs |= table.pairs
        groups |= table.groups
    return ThroughputTable(
        name=" + ".join(table.name for table in tables),
        reference=next(iter(references), ""),
        alone=alone,
        spread=spread,
        by_nodes=by_nodes,
        pairs=pairs,
        groups=groups,
    )
