"""Decide whether a job is tried again after a failed or lost attempt, when, and which nodes it avoids.

On Philly every failed attempt was tried again, up to a fixed number (ATC 2019, section 4.3); one user's jobs
ran out of memory 185 times each. Here the class of the failure decides. A failure that the job itself causes
is retried only if its owner asks for it, a failure that libraries cause once, and a failure that the platform
causes as often as the job allows. A job that failed twice in a row in the same way, and not because of the
platform, is expected to fail again, so it is tried again only if its owner set the number of attempts.

An attempt lost with its node, or because its gang did not assemble, may not be the job's failure, so the job
keeps its attempts. But some jobs take their nodes down, by a driver that panics or memory that runs out, and
such a job could bring down one node after another. So a job waits longer after each loss in a row. After
`HELD_AFTER` losses it is held until a person looks at it; failing it would throw away work that is probably
sound. (Slurm holds a job likewise, after five requeues, `MaxBatchRequeue`.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.core.failures.taxonomy import FailureClass, Layer, signature_of

#: How long a job waits after its first, second, ... failure.
BACKOFF_SECONDS = (5.0, 20.0, 60.0, 180.0, 600.0)
#: The default attempts by layer; for failures of the platform they are all attempts that the job may have.
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
    #: Attempts by class of failure, or by layer.
    attempts: Mapping[str, int] = field(default_factory=dict)
    #: Attempts by a text that occurs in the message; these rules come first.
    matching: Mapping[str, int] = field(default_factory=dict)

    def attempts_for(self, failed: FailedAttempt) -> tuple[int, bool]:
        """Return how many attempts such a failure leaves the job in all, and whether its owner set that."""
        for text, attempts in self.matching.items():
            if text in failed.message:
                return attempts, True
        for name in (failed.failure.name, failed.failure.layer.value):
            if name in self.attempts:
                return self.attempts[name], True
        return min(self.max_attempts, ATTEMPTS.get(failed.failure.layer, self.max_attempts)), False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about the job after a failure."""

    retry: bool
    #: The name of the class of failure.
    name: str
    #: The reason, in words that follow "It is (not) tried again".
    why: str
    after_seconds: float = 0.0
    #: Whether it avoids the node where it failed.
    avoid_node: bool = False


def judge(failed: FailedAttempt, before: Sequence[FailedAttempt], rules: RetryRules) -> Verdict:
    """Return the decision about a job that just failed; `before` has its earlier failures, oldest first."""
    failures = len(before) + 1
    attempts, is_explicit = rules.attempts_for(failed)
    named = failed.failure.words
    if failures >= attempts:
        if attempts <= 1:
            return Verdict(False, failed.failure.name, f"{named}: the next attempt would fail the same way")
        return Verdict(False, failed.failure.name, f"{named}, and all its {attempts} attempts failed")
    alike = bool(before) and before[-1].signature == failed.signature
    if alike and failed.failure.layer is not Layer.PLATFORM and not is_explicit:
        return Verdict(False, failed.failure.name, f"{named}: it failed twice in the same way")
    after = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1]
    where = " on another node" if failed.failure.is_hardware else ""
    why = f"{named}; attempt {failures + 1} of {attempts}{where} after {after:g} s"
    return Verdict(True, failed.failure.name, why, after, failed.failure.is_hardware)


#: The losses in a row after which a job is held. With the waits between them they take more than twenty
#: minutes, which is longer than most outages.
HELD_AFTER = 8
#: An attempt that ran for this long was sound, so its loss is the first in a row.
RAN_WELL_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class AfterLoss:
    """What follows a loss: `wait_seconds` count from now, and `in_a_row` includes this loss."""

    in_a_row: int
    wait_seconds: float
    is_held: bool


def after_loss(ran_seconds: Sequence[float]) -> AfterLoss:
    """Return what follows a loss, given how long each lost attempt in a row ran, the latest first."""
    in_a_row = next(
        (number for number, ran in enumerate(ran_seconds, start=1) if ran >= RAN_WELL_SECONDS),
        len(ran_seconds),
    )
    # A job with only an occasional loss goes on at once.
    waits = (0.0, *BACKOFF_SECONDS)
    wait = waits[min(in_a_row, len(waits)) - 1]
    return AfterLoss(in_a_row, wait, is_held=in_a_row >= HELD_AFTER)
