"""What every objective is: a way to choose shares in a polytope, and a number that says how good they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scheduler.core.solvers.errors import Problem
from scheduler.core.solvers.instance import Floats, Instance, Ints
from scheduler.core.solvers.polytope import Polytope


@dataclass(frozen=True, slots=True)
class ColumnShares:
    """Shares by column of the polytope, and the groups whose SLO cannot be kept."""

    shares: Floats
    missed: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


@dataclass(frozen=True, slots=True)
class Rates:
    """What comes of shares: steps per second by job, money per hour, and steps per second ÷ price in sum."""

    throughput: Floats
    spending: float
    per_price: float


class Objective(ABC):
    """One policy of the family. All jobs of the instances it sees run on some model."""

    #: What the value is, with its unit.
    meaning: ClassVar[str]
    #: Whether its agnostic form believes every job as fast everywhere as on its best model; else time is
    #: all that counts.
    agnostic_to_speed: ClassVar[bool] = False
    #: Whether two jobs may share GPUs.
    shares_gpus: ClassVar[bool] = True
    #: Whether it distinguishes models by their price, even when it treats them as equally fast.
    knows_prices: ClassVar[bool] = False
    #: Whether it considers SLOs.
    keeps_slos: bool = False

    def problems(self, instance: Instance) -> Iterable[Problem]:
        """Yield what it needs to know of the jobs and is not given."""
        return ()

    def marks(self, instance: Instance) -> Floats:
        """Return what it considers besides throughput and gang, job × mark; unlike jobs are kept apart."""
        return np.zeros((instance.jobs, 0))

    @abstractmethod
    def choose(self, polytope: Polytope) -> ColumnShares:
        """Return an optimum, Pareto-efficient and always the same; raise SolverError when none is found."""

    @abstractmethod
    def value(self, instance: Instance, rates: Rates) -> float:
        """Return how good it is that the jobs run at these rates."""


def needs_steps(instance: Instance) -> Iterable[Problem]:
    """Yield the jobs of which it is not known how many steps are left."""
    for job in np.flatnonzero(np.isnan(instance.steps_left)):
        yield Problem(
            f"job {instance.names[job]}", "steps_left", "is not given", "this objective needs the steps left"
        )


def progress_of(instance: Instance, throughput: Floats) -> Floats:
    """Return throughputs as progress (module `polytope`)."""
    progress: Floats = throughput * instance.gang / instance.average_throughput
    return progress


def order_of_arrival(instance: Instance) -> Ints:
    """Return the jobs, the oldest first; between two equally old ones, the one listed first."""
    order: Ints = np.argsort(-instance.age_seconds, kind="stable")
    return order
