"""The reasons of a job that waits for other jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.core.model import wording
from scheduler.core.model.awaited import ENDED, FAILED, SINGLETON, STARTED, SUCCEEDED, Awaited
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import JobId

_WORDS = {
    SUCCEEDED: ("has succeeded", "have succeeded"),
    ENDED: ("has ended", "have ended"),
    FAILED: ("has failed", "have failed"),
    STARTED: ("has started", "have started"),
}


def awaiting(awaits: Sequence[Awaited]) -> Iterator[Reason]:
    """Yield the reasons for a job that waits for other jobs.

    They are conditions that can no longer hold, conditions that still may, and an earlier job of its name.
    """
    never = [each for each in awaits if each.is_never]
    if never:
        yield Reason(
            code="dependency_never",
            tier=Tier.NEVER,
            message=f"It starts when {_what_is_awaited(never)}, which can no longer happen.",
            blocking=_blocking(never),
            hint="Cancel it, or submit it again without what it waits for.",
        )
    open_ = [each for each in awaits if not each.is_never and each.when != SINGLETON]
    if open_:
        yield Reason(
            code="dependency",
            tier=Tier.HELD,
            message=f"It starts when {_what_is_awaited(open_)}.",
            blocking=_blocking(open_),
        )
    earlier = [each for each in awaits if each.when == SINGLETON]
    if earlier:
        jobs = [JobId(each.job) for each in earlier]
        yield Reason(
            code="singleton",
            tier=Tier.HELD,
            message=f"Only one job of its name and user runs at a time; {wording.jobs(jobs)} came first.",
            blocking=_blocking(earlier),
        )


def _what_is_awaited(awaits: Sequence[Awaited]) -> str:
    """Return "jobs 7 and 8 have succeeded and job 9 has ended"."""
    phrases = []
    for when, (of_one, of_many) in _WORDS.items():
        jobs = [JobId(each.job) for each in awaits if each.when == when and each.array is None]
        if jobs:
            phrases.append(f"{wording.jobs(jobs)} {of_one if len(jobs) == 1 else of_many}")
        arrays = [each.array for each in awaits if each.when == when and each.array is not None]
        phrases += [f"all of array {array} {of_many}" for array in arrays]
    return wording.listed(phrases)


def _blocking(awaits: Sequence[Awaited]) -> dict[str, list[int]]:
    return {"jobs": [each.job if each.array is None else each.array for each in awaits]}
