"""The speed of a job where it was placed, relative to its own gang, consolidated on the reference model.

The tables behind it are measured (`scheduler.simulation.throughputs` reads them). Unknown speeds are assumed,
and all assumptions are here. Unknown models and applications run at the reference rate, elastic gangs scale
linearly, and spreading over nodes costs what `default_locality` states. Jobs that share GPUs without a
measurement take turns on the resources that their stages need (`perf.interleaving`), or each get an equal
part of the GPUs where stages are unknown. A gang on as few nodes as possible counts as near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler.core.model.snapshot import Job
from scheduler.core.perf.interleaving import PLACES, speed_in_group


class Tables(Protocol):
    """Measured rates; None where nothing was measured."""

    def rate(self, application: str, gpus: int, gpu_model: str, of_gpus: int | None = None) -> float | None:
        """Return the rate of a consolidated gang on that model, relative to the reference model.

        With `of_gpus`, it is relative to a gang of that many GPUs: the gain of resizing an elastic job.
        """
        ...

    def locality(self, application: str, gpus: int, nodes: int) -> float | None:
        """Return the rate over `nodes` nodes relative to one, or as few as possible."""
        ...

    def interference(self, application: str, other: str, gpu_model: str, gpus: int = 1) -> float | None:
        """Return the rate beside another application on the same GPUs, relative to having them alone."""
        ...

    def among(self, application: str, others: Sequence[str], gpu_model: str, gpus: int = 1) -> float | None:
        """Return the same beside several others."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Rates from tables, and assumptions where tables have none."""

    tables: Tables | None = None
    #: The factor on a gang's rate for each node more than it needs, where no table has it; 1 costs nothing.
    default_locality: float = 1.0
    #: The GPUs of a full node, which decide on how few nodes a gang fits.
    gpus_per_node: int = 8

    def alone(self, job: Job, gpu_model: str, gpus: int, nodes: int) -> float:
        """Return the seconds of reference work done in a second, with these GPUs to itself."""
        tables = self.tables
        if not job.gpus:
            return 1.0
        rate = tables.rate(job.application, gpus, gpu_model, job.gpus) if tables else None
        if rate is None:
            rate = gpus / job.gpus
        too_many = nodes - -(-gpus // self.gpus_per_node)
        if too_many > 0:
            near = tables.locality(job.application, gpus, nodes) if tables else None
            rate *= self.default_locality**too_many if near is None else near
        return rate

    def together(self, job: Job, others: Sequence[Job], gpu_model: str) -> float:
        """Return the rate beside others on the same GPUs, relative to having them alone."""
        factor, measured = 1.0, None
        if self.tables and len(others) > 1:
            names = [other.application for other in others]
            measured = self.tables.among(job.application, names, gpu_model, job.gpus)
        if measured is not None:
            return measured
        for other in others:
            measured = None
            if self.tables:
                measured = self.tables.interference(job.application, other.application, gpu_model, job.gpus)
            if measured is None:
                return self._by_stages(job, others)
            factor *= measured
        return factor

    def _by_stages(self, job: Job, others: Sequence[Job]) -> float:
        own = job.profile.stages if job.profile else None
        theirs = [other.profile.stages for other in others if other.profile and other.profile.stages]
        if own is None or len(theirs) < len(others) or len(others) >= PLACES:
            return 1 / (1 + len(others))
        return speed_in_group(own, theirs)

    def best(self, job: Job, gpu_models: Sequence[str]) -> float:
        """Return the rate of the consolidated gang on the best model of the cluster that the job accepts."""
        accepted = [model for model in gpu_models if not job.gpu_models or model in job.gpu_models]
        return max([self.alone(job, model, job.gpus, 1) for model in accepted], default=1.0)
