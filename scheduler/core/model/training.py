"""Facts about a job's training: its progress, its scaling, its use of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """The epochs that a job trains with one batch size (Shockwave, section 3)."""

    batch_size: int
    #: Done so far.
    epochs: float = 0.0
    #: How long an epoch takes the job's own gang, alone on the GPU model that its run time is stated for.
    epoch_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The progress of a job whose batch size may change while it runs."""

    #: To be done in all.
    epochs: float
    #: At present.
    batch_size: int
    #: The batch sizes that it may use, ascending.
    regimes: tuple[Regime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """The measured scaling of an elastic job; `core.goodput` computes speedups from it."""

    #: By GPU model: the seven parameters of the throughput, in the order of `goodput.throughput.Parameters`.
    parameters: Mapping[str, tuple[float, float, float, float, float, float, float]]
    #: Squared norm and variance of the gradient at the initial batch.
    noise: tuple[float, float]
    #: Samples of a whole batch, and of one gradient of one replica.
    initial_batch: int
    max_batch: int
    min_local_batch: int = 1
    max_local_batch: int
    #: The most replicas that it was ever measured with.
    most_replicas: int = 1
    #: The GPU models of `parameters` on which it never ran; theirs are projected from its speeds.
    projected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A job's use of GPUs that it has alone, averaged over them; None: unknown."""

    #: Parts of the time, 0 to 1: the device computes; its memory is read or written.
    utilisation: float | None = None
    memory_utilisation: float | None = None
    #: The most that it ever had of one device.
    memory_bytes: int | None = None
    #: It trains with automatic mixed precision.
    amp: bool | None = None
    #: Seconds of one iteration on storage and CPUs, on the GPU, and on the network.
    stages: tuple[float, float, float] | None = None
