"""The result: how much of its time each job spends where, and how good that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.core.solvers.instance import Floats, Instance


@dataclass(frozen=True, slots=True)
class SharedTime:
    """The time that two groups of jobs run in pairs, one job of each (or two of the same), by model.

    Every possible pair has an equal part of the time, so that all jobs of a group fare alike.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    #: Parts of wall-clock time, summed over all pairs.
    time: Floats

    @property
    def alike(self) -> bool:
        """Return whether both are the same group."""
        return bool(self.first[0] == self.second[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Shares of wall-clock time by job and model, alone and shared, for the jobs of the instance."""

    instance: Instance
    #: Time that each job is alone on its GPUs, job × model.
    alone: Floats
    shared: tuple[SharedTime, ...]
    #: Steps per second that these shares yield, by job.
    throughput: Floats
    #: The value of the objective as the policy sees it, and the true one; they differ for an agnostic policy.
    objective: float
    achieved: float
    #: Money per hour.
    spending: float
    #: Jobs that run on no model, and jobs whose SLO cannot be kept or was missed already.
    stuck: NDArray[np.intp]
    missed: NDArray[np.intp]
    #: The size of the problem that was solved.
    groups: int
    columns: int

    @property
    def shares(self) -> Floats:
        """Return the part of its time that each job runs on each model, alone or in pairs."""
        shares = self.alone.copy()
        for part in self.shared:
            if part.alike:
                shares[part.first] += 2 * part.time / len(part.first)
            else:
                shares[part.first] += part.time / len(part.first)
                shares[part.second] += part.time / len(part.second)
        return shares

    @property
    def used(self) -> Floats:
        """Return the GPUs of each model that are busy on average."""
        used = self.instance.gang @ self.alone
        for part in self.shared:
            used = used + self.instance.gang[part.first[0]] * part.time
        return np.asarray(used)
