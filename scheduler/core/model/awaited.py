"""What a job waits for before it may start: states of other jobs, as with Slurm's `--dependency`."""

from __future__ import annotations

from dataclasses import dataclass

SUCCEEDED = "succeeded"
ENDED = "ended"
FAILED = "failed"
STARTED = "started"
#: The states of another job for which a job may wait: afterok, afterany, afternotok and after. A job that was
#: cancelled counts as failed, and as started.
WHEN = (SUCCEEDED, ENDED, FAILED, STARTED)
#: An earlier job of the same name and user has ended. Each round computes it, so no job states it.
SINGLETON = "singleton"


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """One job that another waits for."""

    job: int
    #: One of `WHEN`, or SINGLETON.
    when: str = SUCCEEDED
    #: It ended otherwise, so that this can no longer happen.
    is_never: bool = False
    #: The awaited array, of which `job` is the last task that has not ended; None: only `job` is awaited.
    array: int | None = None
