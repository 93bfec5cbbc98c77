"""Attempts that fail: Philly's classes of failures, and how the simulator treats them.

Source: M. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX
ATC 2019, table 7: how many trials failed in each class, and its part of all time until a failure. Assumed
here: times until a failure are exponential, with the class's mean (its part of the time over its part of the
trials) in proportion; a failure caused by the user ends every attempt at the same point; any other failure
strikes each attempt independently.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureClass:
    """A row of the table. `rtf_percent` is its part of all run time to failure."""

    name: str
    trials: int
    rtf_percent: float
    #: Caused by the job itself, so that another attempt fails alike.
    is_deterministic: bool


def _row(name: str, trials: int, rtf_percent: float, layer: str) -> FailureClass:
    deterministic = layer == "user"
    return FailureClass(name=name, trials=trials, rtf_percent=rtf_percent, is_deterministic=deterministic)


PHILLY: tuple[FailureClass, ...] = (
    _row("cpu_out_of_memory", 12_076, 6.62, "user"),
    _row("incorrect_inputs", 9_690, 30.43, "user"),
    _row("semantic_error", 2_943, 9.22, "user"),
    _row("core_dump", 2_912, 3.35, "engine"),
    _row("invalid_memory_access", 2_602, 3.82, "engine"),
    _row("model_checkpoint_error", 1_995, 21.73, "infrastructure"),
    _row("no_signature", 1_684, 0.0, "unknown"),
    _row("cuda_failure", 1_484, 0.62, "engine"),
    _row("syntax_error", 1_132, 0.19, "user"),
    _row("traceback_from_crash", 777, 2.34, "engine"),
    _row("mpi_error", 634, 3.70, "infrastructure"),
    _row("gpu_out_of_memory", 487, 1.08, "user"),
    _row("mpi_runtime_failure", 478, 14.63, "infrastructure"),
    _row("permission_error", 299, 0.07, "user"),
    _row("import_error", 148, 0.06, "user"),
    _row("job_preempted", 147, 1.66, "infrastructure"),
    _row("cuda_init_failed", 141, 0.03, "engine"),
    _row("model_diverged", 84, 0.01, "user"),
    _row("cuda_version_mismatch", 49, 0.0, "user"),
    _row("gpu_ecc_error", 10, 0.03, "infrastructure"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure that will end an attempt, and the work after which it does."""

    cause: FailureClass
    after_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Which attempts fail, and how often a job is tried again."""

    #: Probability that an attempt meets a failure at all (if it lasts that long); 0 turns failures off.
    probability: float = 0.0
    #: Mean time until a failure over all classes.
    mean_seconds: float = 3_600.0
    #: Attempts after the first that a job may have when it fails.
    retries: int = 3
    #: Before the n-th retry a job waits n times this.
    backoff_seconds: float = 60.0
    #: Whether causes are distinguished: then a job that would fail in the same way is not retried.
    classify: bool = True
    classes: Sequence[FailureClass] = PHILLY

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability is {self.probability}; it must be from 0 to 1")
        if not 0 < self.mean_seconds < float("inf"):
            raise ValueError(f"mean_seconds is {self.mean_seconds}; it must be a number of seconds above 0")
        if not 0 <= self.backoff_seconds < float("inf"):
            raise ValueError(
                f"backoff_seconds is {self.backoff_seconds}; it must be a number of seconds of at least 0"
            )
        # The command line gives all of them as floats.
        if not (0 <= self.retries < float("inf") and self.retries == int(self.retries)):
            raise ValueError(f"retries is {self.retries}; it must be a whole number of at least 0")
        if self.classify not in (0, 1):
            raise ValueError(f"classify is {self.classify}; it must be 0 or 1")

    def strike(self, seed: int, job: int, attempt: int) -> Failure | None:
        """Return the failure that a job's attempt will meet, or None; the same for the same arguments."""
        doom = self._draw(random.Random(f"{seed}:{job}"))
        if doom is not None and doom.cause.is_deterministic:
            return doom
        strike = self._draw(random.Random(f"{seed}:{job}:{attempt}"))
        return strike if strike is not None and not strike.cause.is_deterministic else None

    def is_worth_retrying(self, failure: Failure, failures: int) -> bool:
        """Return whether a job that has failed `failures` times, this time by `failure`, is tried again."""
        hopeless = self.classify and failure.cause.is_deterministic
        return not hopeless and failures <= self.retries

    def _draw(self, dice: random.Random) -> Failure | None:
        if dice.random() >= self.probability:
            return None
        bounds = list(accumulate(each.trials for each in self.classes))
        cause = dice.choices(self.classes, cum_weights=bounds)[0]
        part_of_trials = cause.trials / bounds[-1]
        part_of_time = cause.rtf_percent / sum(each.rtf_percent for each in self.classes)
        mean = self.mean_seconds * part_of_time / part_of_trials
        return Failure(cause=cause, after_seconds=dice.expovariate(1 / mean) if mean else 0.0)
