"""The polytope of shares: like jobs form a group, and each group or pair of groups has a column per model.

A share is the sum over a group's jobs of the parts of wall-clock time they spend on a model. A policy may
choose shares under these constraints (paper, sections 3.1 and 3.2): shares are not negative; no job is busy
for more than all of its time; no more GPUs are used than there are; a pair uses its GPUs once.

Jobs in a group have the same throughputs, gang and marks (what else the objective considers). Averaging any
optimum over their permutations leaves it an optimum, so a policy decides only on sums, which are then divided
evenly.

Progress is gang × throughput ÷ average throughput: the number of GPUs of average speed that do as much. It
makes jobs comparable, and its scale is that of a number of GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scheduler.core.solvers.errors import ObjectiveError
from scheduler.core.solvers.instance import Flags, Floats, Instance, Ints, Pairs
from scheduler.core.solvers.terms import Terms

#: A problem with more columns is refused: it would not fit into memory.
MOST_COLUMNS = 4_000_000
#: A pair is useless if its jobs together are at most this much faster than one after the other.
USELESS = 1e-9

#: Many columns: the model of each, its first and second group, and the rate of each of the two.
_Block = tuple[NDArray[np.intp], Ints, Ints, Floats, Floats]


@dataclass(frozen=True, kw_only=True)
class Polytope:
    """Groups of jobs, and columns: a group, or two that share GPUs, on a model."""

    gpus: Floats
    price: Floats
    #: Jobs in each group; each job's group.
    size: Floats
    group: Ints
    gang: Floats
    #: What an objective considers besides throughputs, group × mark.
    marks: Floats
    #: The steps per second that make progress 1, by group.
    unit: Floats
    #: For each column: its model, its group, its other group (the same group where it is alone), and for each
    #: of the two the progress of one job while it runs.
    model: NDArray[np.intp]
    first: Ints
    second: Ints
    rate_first: Floats
    rate_second: Floats
    paired: NDArray[np.bool_]

    @property
    def columns(self) -> int:
        return len(self.model)

    @property
    def groups(self) -> int:
        return len(self.size)

    @cached_property
    def use(self) -> Terms:
        """Return the GPUs of each model that a share of each column takes."""
        return Terms(self.model, np.arange(self.columns), self.gang[self.first], len(self.gpus))

    @cached_property
    def time(self) -> Terms:
        """Return the time of each group that a share of each column takes."""
        return self._of_groups(np.ones(self.columns), np.ones(self.columns))

    @cached_property
    def progress(self) -> Terms:
        """Return the progress of one job of each group that a share of each column makes."""
        return self._of_groups(
            self.rate_first / self.size[self.first], self.rate_second / self.size[self.second]
        )

    @cached_property
    def best(self) -> Floats:
        """Return the progress of a job of each group at its fastest, alone or in a pair."""
        best = np.zeros(self.groups)
        np.maximum.at(best, self.first, self.rate_first)
        np.maximum.at(best, self.second, self.rate_second)
        return best

    def columns_of(self, shares: Floats) -> Floats:
        """Return the shares of one job of each group, group × model, as shares by column; without pairs."""
        columns: Floats = shares[self.first, self.model] * self.size[self.first]
        return columns

    def without_others(self, chosen: Flags) -> tuple[Polytope, Flags]:
        """Return the polytope of the chosen groups, and which columns are theirs; without pairs."""
        columns: Flags = chosen[self.first]
        number = np.cumsum(chosen) - 1
        first = number[self.first[columns]]
        part = Polytope(
            gpus=self.gpus,
            price=self.price,
            size=self.size[chosen],
            group=self.group,
            gang=self.gang[chosen],
            marks=self.marks[chosen],
            unit=self.unit[chosen],
            model=self.model[columns],
            first=first,
            second=first,
            rate_first=self.rate_first[columns],
            rate_second=self.rate_second[columns],
            paired=self.paired[columns],
        )
        return part, columns

    def _of_groups(self, first: Floats, second: Floats) -> Terms:
        paired = np.flatnonzero(self.paired)
        rows = np.concatenate([self.first, self.second[paired]])
        columns = np.concatenate([np.arange(self.columns), paired])
        values = np.concatenate([first, second[paired]])
        # Two jobs of the same group are two terms of one row and column, which add up.
        return Terms(rows, columns, values, self.groups)


def polytope_of(instance: Instance, marks: Floats) -> Polytope:
    """Return the polytope of an instance whose every job runs somewhere; `marks` is job × mark.

    Groups are ordered by their values, not by the order of the jobs, so that this order does not affect what
    a solver finds. Raises ObjectiveError when there would be too many columns.
    """
    job_class = instance.job_class if instance.pairs is not None else np.zeros(instance.jobs)
    looks = np.column_stack([instance.gang, job_class, instance.throughput, marks])
    _, members, group, size = np.unique(
        looks, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    alike = instance.take(members)
    unit = alike.average_throughput / alike.gang
    rates = alike.throughput / unit[:, None]
    blocks = list(_columns(instance, alike, rates, size))
    model, first, second, rate_first, rate_second = (
        np.concatenate(parts) for parts in zip(*blocks, strict=True)
    )
    return Polytope(
        gpus=instance.gpus,
        price=instance.price,
        size=size.astype(np.float64),
        group=group.reshape(-1),
        gang=alike.gang,
        marks=marks[members],
        unit=unit,
        model=model,
        first=first,
        second=second,
        rate_first=rate_first,
        rate_second=rate_second,
        paired=np.arange(len(model)) >= len(blocks[0][0]),
    )


def _columns(instance: Instance, alike: Instance, rates: Floats, size: Ints) -> Iterator[_Block]:
    """Yield the columns of jobs alone, then those of pairs."""
    alone, model = np.nonzero(rates)
    yield model, alone, alone, rates[alone, model], np.zeros(len(model))
    if instance.pairs is not None:
        first, second, pair = _partners(instance.pairs, alike, size)
        yield _useful(alike, rates, first, second, instance.pairs.throughput[pair])


def _partners(pairs: Pairs, alike: Instance, size: Ints) -> tuple[Ints, Ints, Ints]:
    """Return each two groups that may share GPUs, and their pair of classes."""
    members = {int(each): np.flatnonzero(alike.job_class == each) for each in np.unique(alike.job_class)}
    empty = np.zeros(0, dtype=np.intp)
    first, second, number = [empty], [empty], [empty]
    total = 0
    for pair, (one, other) in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)):
        ours, theirs = members.get(one, empty), members.get(other, empty)
        total += len(ours) * len(theirs) * alike.throughput.shape[1]
        if total > MOST_COLUMNS:
            raise ObjectiveError(
                f"sharing makes more than {MOST_COLUMNS:,} pairs of jobs: solve it in parts (parts=8), give "
                "fewer pairs, or turn sharing off"
            )
        first.append(np.repeat(ours, len(theirs)))
        second.append(np.tile(theirs, len(ours)))
        number.append(np.full(len(first[-1]), pair))
    one, two, pair_of = (np.concatenate(parts) for parts in (first, second, number))
    # Each two groups once, also where both are of a class; two jobs of one group only when it has two.
    same = (pairs.first == pairs.second)[pair_of] if len(pair_of) else pair_of.astype(bool)
    possible = ~same | (one < two) | ((one == two) & (size[one] > 1))
    return one[possible], two[possible], pair_of[possible]


def _useful(alike: Instance, rates: Floats, first: Ints, second: Ints, throughputs: Floats) -> _Block:
    """Return the pairs and models where two jobs get more done together than one after the other.

    `throughputs` is pair of groups × 2 × model.
    """
    ours, theirs = alike.throughput[first], alike.throughput[second]
    both = (ours > 0) & (theirs > 0)
    relative_first = throughputs[:, 0] / np.where(both, ours, 1.0)
    relative_second = throughputs[:, 1] / np.where(both, theirs, 1.0)
    pair, model = np.nonzero(both & (relative_first + relative_second > 1 + USELESS))
    return (
        model,
        first[pair],
        second[pair],
        rates[first[pair], model] * relative_first[pair, model],
        rates[second[pair], model] * relative_second[pair, model],
    )


def evenly(polytope: Polytope, shares: Floats) -> Floats:
    """Return shares of the same time for each group, on models by their GPUs as far as that is possible.

    It is for policies that treat all models alike; without it they get what the solver happens to prefer.
    """
    weight = polytope.gpus[polytope.model]
    time = polytope.time.of(shares) / np.maximum(polytope.time.of(weight), 1e-300)
    even = time[polytope.first] * weight
    before, after = polytope.use.of(shares), polytope.use.of(even)
    over = after > np.maximum(polytope.gpus, before)
    # Both ends have the same value, and so does everything between them.
    room = (polytope.gpus - before)[over] / (after - before)[over]
    part = min(1.0, float(room.min(initial=1.0)))
    mixed: Floats = part * even + (1 - part) * shares
    return mixed
