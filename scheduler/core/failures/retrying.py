"""Whether a job that failed, or whose attempt was lost, is tried again, when, and on which nodes not.

On Philly every failed attempt was tried again, up to a fixed number (ATC 2019, section 4.3); there one user's
jobs ran out of memory 185 times each. Here it depends on the class of the failure. A failure that the job
itself causes is retried only if its owner asks for that, one that libraries cause once, and one that the
platform causes as often as the job allows. A job that failed twice in a row in the same way, not by the
platform's doing, would fail so again.

An attempt that was lost with its node, or because its gang did not get together, is not known to be a failure
of the job, so the job keeps its attempts. But some jobs take their nodes down, by a driver that panics or
memory that runs out, and one of those would walk through the cluster. So a job waits longer after each loss
in a row. After `HELD_AFTER` losses it is held until a person looks at it: to fail it would throw away work
that is probably sound. (Slurm holds a job likewise, after five requeues, `MaxBatchRequeue`.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.core.failures.taxonomy import FailureClass, Layer, signature_of

#: How long a job waits after its first, second, ... failure.
BACKOFF_SECONDS = (5.0, 20.0, 60.0, 180.0, 600.0)
#: Attempts by layer, where the job says nothing; those of the platform's failures are all that it may have.
ATTEMPTS: Mapping[Layer, int] = {Layer.USER: 1, Layer.ENGINE: 2, Layer.UNKNOWN: 2}


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that failed."""

    failure: FailureClass
    message: str

    @property
    def signature(self) -> str:
        return signature_of(self.failure, self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """How often a job is tried again after failures. The first attempt counts as one."""

    max_attempts: int = 3
    #: By class of failure, or by layer.
    attempts: Mapping[str, int] = field(default_factory=dict)
    #: By a text that occurs in the message; these come first.
    matching: Mapping[str, int] = field(default_factory=dict)

    def attempts_for(self, failed: FailedAttempt) -> tuple[int, bool]:
        """Return how many attempts such a failure leaves the job, and whether its owner said so."""
        for text, attempts in self.matching.items():
            if text in failed.message:
                return attempts, True
        for name in (failed.failure.name, failed.failure.layer.value):
            if name in self.attempts:
                return self.attempts[name], True
        return min(self.max_attempts, ATTEMPTS.get(failed.failure.layer, self.max_attempts)), False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of the job."""

    retry: bool
    #: The name of the class of failure.
    name: str
    #: Why, in words that follow on "It is (not) tried again".
    why: str
    after_seconds: float = 0.0
    #: Not on the node where it failed.
    avoid_node: bool = False


def judge(failed: FailedAttempt, before: Sequence[FailedAttempt], rules: RetryRules) -> Verdict:
    """Return what becomes of a job that failed just now, and before as listed, the oldest first."""
    failures = len(before) + 1
    attempts, is_explicit = rules.attempts_for(failed)
    named = failed.failure.words
    if failures >= attempts:
        if attempts <= 1:
            return Verdict(False, failed.failure.name, f"{named}: the next attempt would fail alike")
        return Verdict(False, failed.failure.name, f"{named}, and all its {attempts} attempts failed")
    alike = bool(before) and before[-1].signature == failed.signature
    if alike and failed.failure.layer is not Layer.PLATFORM and not is_explicit:
        return Verdict(False, failed.failure.name, f"{named}: it failed twice in the same way")
    after = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1]
    where = " on another node" if failed.failure.is_hardware else ""
    why = f"{named}; attempt {failures + 1} of {attempts}{where} after {after:g} s"
    return Verdict(True, failed.failure.name, why, after, failed.failure.is_hardware)


#: With the waits between them this many losses take more than twenty minutes; most outages end before.
HELD_AFTER = 8
#: An attempt that ran for this long did well where it was: its loss is the first of a row.
RAN_WELL_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class AfterLoss:
    """`wait_seconds` count from now. `in_a_row` counts this loss, too."""

    in_a_row: int
    wait_seconds: float
    is_held: bool


def after_loss(ran_seconds: Sequence[float]) -> AfterLoss:
    """Return what follows a loss, given how long each lost attempt of the row ran, this one first."""
    in_a_row = next(
        (number for number, ran in enumerate(ran_seconds, start=1) if ran >= RAN_WELL_SECONDS),
        len(ran_seconds),
    )
    # A job that is lost once in a while goes on at once.
    waits = (0.0, *BACKOFF_SECONDS)
    wait = waits[min(in_a_row, len(waits)) - 1]
    return AfterLoss(in_a_row, wait, is_held=in_a_row >= HELD_AFTER)
