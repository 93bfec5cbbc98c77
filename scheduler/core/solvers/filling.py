"""Water filling: a job that cannot rise any more stops, and all others keep rising (paper, section 4.3).

The paper finds the jobs that can still rise with a mixed-integer program, and its code sometimes stops early.
Here a job has reached its end when its row of the linear program has a positive dual, since it is then no
higher in any optimum. Each program ends the rise of at least one group, so the fill is exact: lexicographic
max-min.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduler.core.solvers.errors import Problem
from scheduler.core.solvers.instance import Flags, Floats, Instance
from scheduler.core.solvers.levels import hand_out, raise_levels
from scheduler.core.solvers.objective import ColumnShares, Objective, Rates, order_of_arrival, progress_of
from scheduler.core.solvers.objectives import MaxMin
from scheduler.core.solvers.polytope import Polytope

#: A group with a larger part of the blame, which sums to 1, has reached its end; less may be solver error.
BLAMED = 1e-7
#: A job this near to its best, relatively, counts as at its best.
AT_BEST = 1e-9
#: A gain smaller than this part of a job's best does not count as a rise.
NO_RISE = 1e-7

#: Return how fast each group rises, given the groups that have reached their end.
Paces = Callable[[Flags], Floats]


@dataclass(frozen=True, slots=True)
class _Water:
    """How far each group has risen, and whether it has reached its end."""

    progress: Floats
    ended: Flags


def fill(polytope: Polytope, paces: Paces) -> Floats:
    """Return the progress of a job of each group when every group has risen as far as it can."""
    water = _Water(np.zeros(polytope.groups), np.zeros(polytope.groups, dtype=bool))
    while (pace := paces(water.ended)).any():
        raised = raise_levels(polytope, pace, water.progress, water.progress)
        rise = pace * raised.height
        # What the slack in other jobs' floors yields is not a rise, and it could not be kept as a floor.
        progress = water.progress + (rise if (rise > NO_RISE * polytope.best).any() else 0.0)
        at_best = progress >= polytope.best * (1 - AT_BEST)
        rising = pace > 0
        blamed = rising & (raised.blame > BLAMED)
        ending = rising & (blamed | at_best)
        if not ending.any():
            ending[np.argmax(np.where(rising, raised.blame, -1.0))] = True
        water = _Water(progress, water.ended | ending)
        if not (blamed & ~at_best).any():
            # No job was short of GPUs, only of time; one by one, this could take as many programs as jobs.
            water = _skip_ahead(polytope, paces, water)
    return water.progress


def _skip_ahead(polytope: Polytope, paces: Paces, water: _Water) -> _Water:
    """Return the last state for which the GPUs suffice, if every group rises until it is at its best.

    A state that needs too many GPUs yields prices at which it is worth more than the whole cluster. Every
    other state worth more than that at these prices needs too many, too, so few states remain to be tried.
    """
    states = list(_unhindered(polytope, paces, water))
    last = len(states) - 1
    while last > 0:
        progress = states[last].progress
        raised = raise_levels(polytope, progress)
        if raised.height >= 1 - AT_BEST:
            break
        price = raised.blame / np.where(progress > 0, progress, 1.0)
        last -= 1
        while last > 0 and price @ states[last].progress > raised.height * (1 + AT_BEST):
            last -= 1
    return states[last]


def _unhindered(polytope: Polytope, paces: Paces, water: _Water) -> Iterable[_Water]:
    """Yield the states in which one group after another reaches its best, as if there were GPUs for all."""
    yield water
    while (pace := paces(water.ended)).any():
        rising = pace > 0
        progress, best = water.progress, polytope.best
        height = ((best - progress)[rising] / pace[rising]).min()
        progress = np.minimum(progress + pace * height, best)
        water = _Water(progress, water.ended | (rising & (progress >= best * (1 - AT_BEST))))
        yield water


class WaterFilling(MaxMin):
    """Lexicographic max-min fairness: the least progress is as large as possible, then the next least."""

    def choose(self, polytope: Polytope) -> ColumnShares:
        weight = polytope.marks[:, 0]
        progress = fill(polytope, lambda ended: np.where(ended, 0.0, weight))
        return ColumnShares(hand_out(polytope, progress))


class Hierarchical(Objective):
    """Divide fairly between entities by weight, and within one between its jobs or first come, first served.

    Section 4.3. A job that has reached its end leaves its part of the entity's weight to the entity's other
    jobs. Within a FIFO entity the earliest job that can still rise has all of the weight.
    """

    meaning: ClassVar[str] = "least progress ÷ part of its entity's weight, in GPUs of average speed"

    def __init__(self, *, fifo: bool = False) -> None:
        self._fifo = fifo

    def problems(self, instance: Instance) -> Iterable[Problem]:
        weights = instance.entity_weight[instance.entity] * instance.weight
        if instance.jobs and not weights.any():
            yield Problem(
                "", "entities", "the weights sum to zero", "a positive weight for an entity with jobs"
            )

    def marks(self, instance: Instance) -> Floats:
        owner, weight = instance.entity_weight[instance.entity], instance.weight
        turn = np.zeros(instance.jobs)
        if self._fifo:
            turn[order_of_arrival(instance)] = np.arange(instance.jobs)
        return np.column_stack([instance.entity, owner, weight, turn])

    def choose(self, polytope: Polytope) -> ColumnShares:
        marks, size = polytope.marks, polytope.size
        return ColumnShares(hand_out(polytope, fill(polytope, lambda ended: self._paces(marks, size, ended))))

    def value(self, instance: Instance, rates: Rates) -> float:
        pace = self._paces(self.marks(instance), np.ones(instance.jobs), np.zeros(instance.jobs, dtype=bool))
        claims = pace > 0
        return float((progress_of(instance, rates.throughput)[claims] / pace[claims]).min(initial=np.inf))

    def _paces(self, marks: Floats, size: Floats, ended: Flags) -> Floats:
        """Return the part of its entity's weight that each job has while groups in `ended` stand still."""
        entity, owner, weight, turn = marks.T
        index = entity.astype(np.intp)
        weight = np.where(ended, 0.0, weight)
        if self._fifo:
            first = np.full(int(index.max(initial=0)) + 1, np.inf)
            np.minimum.at(first, index[weight > 0], turn[weight > 0])
            weight = np.where((weight > 0) & (turn == first[index]), 1.0, 0.0)
        total = np.bincount(index, weight * size)[index]
        paces: Floats = np.where(weight > 0, owner * weight / np.where(total > 0, total, 1.0), 0.0)
        return paces
