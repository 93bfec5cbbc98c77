"""What becomes of a job whose attempt was lost: with its node, or since its gang did not get together.

That is no failure of the job, as far as anybody knows, so it keeps its attempts. But some jobs take their
nodes down, by a driver that panics or memory that runs out, and one of those would walk through the cluster.
So a job waits longer after each loss in a row, and after so many it is held until a person looks at it: to
fail it would throw away work that is probably sound. (Slurm holds a job likewise, after five requeues,
`MaxBatchRequeue`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.failures.retrying import BACKOFF_SECONDS

#: With the waits between them so many losses take more than twenty minutes; most outages end before.
HELD_AFTER = 8
#: An attempt that ran for so long did well where it was: its loss is the first of a row.
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
    # Whoever is lost once in a while goes on at once.
    waits = (0.0, *BACKOFF_SECONDS)
    wait = waits[min(in_a_row, len(waits)) - 1]
    return AfterLoss(in_a_row, wait, is_held=in_a_row >= HELD_AFTER)
