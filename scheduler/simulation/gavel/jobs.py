"""What Gavel's rounds know about jobs and GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

#: What has a turn: one job, or two that share GPUs, the earlier one first. Jobs count from 0 by arrival.
Unit = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundJob:
    """A job of a workload. Rates are steps per second of the whole gang, by GPU model; 0 if it cannot run."""

    arrived_at: float
    gang: int
    steps: float
    rates: tuple[float, ...]
    #: The kind by which rates of pairs are known; jobs of a kind have the same gang size.
    kind: int = 0
    weight: float = 1.0
    #: Counted from when the rounds first see it.
    slo_seconds: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """GPUs by model, in the order in which a policy that knows speeds fills them: the fastest first."""

    models: tuple[str, ...]
    gpus: tuple[int, ...]
    #: The price of a GPU-hour.
    prices: tuple[float, ...]
    #: The rates of two jobs on the same GPUs, by their kinds, then by model; other pairs are never formed.
    pairs: Mapping[tuple[int, int], tuple[tuple[float, float], ...]] = field(default_factory=dict)

    def together(self, first: RoundJob, second: RoundJob) -> tuple[tuple[float, float], ...] | None:
        """Return the rates of two jobs that share GPUs, by model; None when they are unknown."""
        if first.gang != second.gang:
            return None
        return self.pairs.get((first.kind, second.kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state when shares are decided. Jobs are in the order of their arrival."""

    now: float
    cluster: Cluster
    jobs: Mapping[int, RoundJob]
    steps_left: Mapping[int, float]
    #: When each job should have finished; infinite without an SLO.
    due_at: Mapping[int, float]
