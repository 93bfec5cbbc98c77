"""The base of every objective: a way to choose shares in a polytope, and a number that rates them."""

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
    """What shares yield: steps per second by job, money per hour, and steps per second ÷ price in sum."""

    throughput: Floats
    spending: float
    per_price: float


class Objective(ABC):
    """One policy of the family. It sees only instances whose every job runs on some model."""

    #: The meaning of the value, with its unit.
    meaning: ClassVar[str]
    #: Whether its agnostic form treats every job as equally fast everywhere as on its best model; otherwise
    #: only time counts.
    agnostic_to_speed: ClassVar[bool] = False
    #: Whether two jobs may share GPUs.
    shares_gpus: ClassVar[bool] = True
    #: Whether it distinguishes models by their price, even when it treats them as equally fast.
    knows_prices: ClassVar[bool] = False
    #: Whether it considers SLOs.
    keeps_slos: bool = False

    def problems(self, instance: Instance) -> Iterable[Problem]:
        """Yield a problem for each fact about the jobs that the objective needs and the instance lacks."""
        return ()

    def marks(self, instance: Instance) -> Floats:
        """Return what it considers besides throughput and gang: job × mark. It separates unlike jobs."""
        return np.zeros((instance.jobs, 0))

    @abstractmethod
    def choose(self, polytope: Polytope) -> ColumnShares:
        """Return a Pareto-efficient optimum, always the same one; raise SolverError when none is found."""

    @abstractmethod
    def value(self, instance: Instance, rates: Rates) -> float:
        """Return the value of the objective when the jobs run at these rates."""


def needs_steps(instance: Instance) -> Iterable[Problem]:
    """Yield a problem for each job whose number of steps left is unknown."""
    for job in np.flatnonzero(np.isnan(instance.steps_left)):
        yield Problem(
            f"job {instance.names[job]}", "steps_left", "is not given", "this objective needs the steps left"
        )


def progress_of(instance: Instance, throughput: Floats) -> Floats:
    """Return throughputs converted to progress (module `polytope`)."""
    progress: Floats = throughput * instance.gang / instance.average_throughput
    return progress


def order_of_arrival(instance: Instance) -> Ints:
    """Return the jobs, the oldest first; between two equally old jobs, the one listed first."""
    order: Ints = np.argsort(-instance.age_seconds, kind="stable")
    return order
