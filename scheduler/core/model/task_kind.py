"""The requests of the last days' jobs, which predict the next ones."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.model.gpu_parts import WHOLE_GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKind:
    """Replicas with equal requests, and how many of them there were recently."""

    gpus: int
    cpus: float = 0.0
    #: The share of each GPU, in thousandths.
    share: int = WHOLE_GPU
    #: Models that their jobs accept; empty: any.
    gpu_models: tuple[str, ...] = ()
    count: float = 1.0
