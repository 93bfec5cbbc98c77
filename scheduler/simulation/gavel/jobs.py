"""What Gavel's rounds know of jobs and GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Whose turn it is: one job, or two that share GPUs, the earlier one first. Jobs count from 0 by arrival.
Unit = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundJob:
    """A job of a workload. Rates are steps per second of the whole gang, by GPU model; 0: it does not run."""

    arrived_at: float
    gang: int
    steps: float
    rates: tuple[float, ...]
    #: What the rates of pairs speak of; jobs of a kind have the same gang.
    kind: int = 0
    weight: float = 1.0
    #: From when the rounds first see it.
    slo_seconds: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """GPUs by model, in the order in which a policy that knows speeds fills them: the fastest first."""

    models: tuple[str, ...]
    gpus: tuple[int, ...]
    #: For a GPU and an hour.
    prices: tuple[float, ...]
    #: The rates of two jobs on the same GPUs by their kinds, then by model; a pair that is not here never is.
    pairs: Mapping[tuple[int, int], tuple[tuple[float, float], ...]] = field(default_factory=dict)

    def together(self, first: RoundJob, second: RoundJob) -> tuple[tuple[float, float], ...] | None:
        """Return the rates of two jobs that share GPUs, by model; None when nothing is known of them."""
        if first.gang != second.gang:
            return None
        return self.pairs.get((first.kind, second.kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How things stand when shares are decided on. Jobs are in the order of their arrival."""

    now: float
    cluster: Cluster
    jobs: Mapping[int, RoundJob]
    steps_left: Mapping[int, float]
    #: When each should have finished; infinite without an SLO.
    due_at: Mapping[int, float]
