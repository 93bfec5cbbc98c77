"""What a job waits for of others before it may start: Slurm's `--dependency`."""

from __future__ import annotations

from dataclasses import dataclass

SUCCEEDED = "succeeded"
ENDED = "ended"
FAILED = "failed"
STARTED = "started"
#: The states of another job for which a job may wait: afterok, afterany, afternotok and after. A job that was
#: cancelled counts as failed, and as started.
WHEN = (SUCCEEDED, ENDED, FAILED, STARTED)
#: That an earlier job of the same name and user has ended. Each round computes it, so it is stated nowhere.
SINGLETON = "singleton"


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """One job that another waits for."""

    job: int
    #: One of `WHEN`, or SINGLETON.
    when: str = SUCCEEDED
    #: It ended otherwise, so that this can not happen any more.
    is_never: bool = False
    #: All tasks of this array are waited for, of which `job` is the last that has not ended; None: it alone.
    array: int | None = None
