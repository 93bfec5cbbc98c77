"""The facts behind an allocation, as arrays: jobs, GPU models, and how well jobs share GPUs.

Notation of the paper: `throughput[i, j]` is T_ij, the steps per second of the whole gang of job i on model j.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Throughputs of two jobs on the same GPUs, by the jobs' classes (paper, section 3.1)."""

    #: The class of each of the two jobs, by pair.
    first: Ints
    second: Ints
    #: Steps per second of the first and of the second job: pair × 2 × model.
    throughput: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Jobs that compete for GPUs of several models; `checking.checked_instance` makes one.

    A throughput is zero where a job does not run, including where its gang needs more GPUs than the model
    has. A quantity that the instance leaves out is NaN (steps) or infinite (SLO).
    """

    names: tuple[str, ...]
    models: tuple[str, ...]
    #: The GPUs and the price of a GPU-hour, by model.
    gpus: Floats
    price: Floats
    #: Steps per second, job × model.
    throughput: Floats
    #: GPUs that the job needs at once.
    gang: Floats
    weight: Floats
    steps_left: Floats
    #: Time since the submission.
    age_seconds: Floats
    #: Time from now within which the job should finish.
    slo_seconds: Floats
    #: The time that the steps done so far would have taken on the job's own part of the cluster (Themis).
    isolated_seconds: Floats
    #: Indices into `entities`: the entity of each job.
    entity: Ints
    entities: tuple[str, ...]
    entity_weight: Floats
    #: Indices into `job_classes`, which `pairs` refers to.
    job_class: Ints
    job_classes: tuple[str, ...]
    pairs: Pairs | None = None

    @property
    def jobs(self) -> int:
        return len(self.names)

    @property
    def runs(self) -> Flags:
        """Return which jobs run on any model at all."""
        runs: Flags = self.throughput.max(axis=1, initial=0.0) > 0
        return runs

    @property
    def average_throughput(self) -> Floats:
        """Return the throughput of each job if its time were split in proportion to the GPUs of each model.

        Gavel's normaliser: progress 1 is one gang that always runs on an average GPU.
        """
        average: Floats = self.throughput @ self.gpus / self.gpus.sum()
        return average

    @property
    def fastest(self) -> Floats:
        """Return each job's throughput on its best model."""
        best: Floats = self.throughput.max(axis=1, initial=0.0)
        return best

    def isolated_shares(self) -> Floats:
        """Return the shares of m jobs that get an m-th of every model on which they run: job × model."""
        shares = np.where(self.throughput > 0, self.gpus / (self.jobs * self.gang[:, None]), 0.0)
        within_its_time: Floats = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        return within_its_time

    def isolated_throughput(self) -> Floats:
        """Return the throughput of each job on its own m-th of every model (Gavel's isolated policy)."""
        isolated: Floats = (self.throughput * self.isolated_shares()).sum(axis=1)
        return isolated

    def take(self, jobs: NDArray[Any], gpus: Floats | None = None) -> Instance:
        """Return the instance of some of the jobs, on some of the GPUs."""
        rows = {
            name: getattr(self, name)[jobs]
            for name in (
                "gang", "weight", "steps_left", "age_seconds", "slo_seconds", "isolated_seconds", "entity",
                "job_class",
            )
        }  # fmt: skip
        some = self.gpus if gpus is None else gpus
        throughput = np.where(rows["gang"][:, None] <= some, self.throughput[jobs], 0.0)
        names = tuple([self.names[job] for job in np.arange(self.jobs)[jobs]])
        return replace(self, names=names, gpus=some, throughput=throughput, **rows)


def blind(instance: Instance, *, to_speed: bool) -> Instance:
    """Return the instance as a policy sees it that treats all models alike.

    With `to_speed` every job is as fast everywhere as on its best model (Gavel's agnostic baselines use the
    V100's column, which is the best). Otherwise all jobs have throughput 1, and only time counts.
    """
    believed = instance.fastest[:, None] if to_speed else np.ones((instance.jobs, 1))
    return replace(instance, throughput=np.where(instance.throughput > 0, believed, 0.0), pairs=None)
