"""The event of a job that gets another number of GPUs: the old number, the new one, and why."""

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from scheduler.core.model import wording
from scheduler.core.model.plan import Action, Placement
from scheduler.core.model.snapshot import AllocationId, GpuId, JobId

RESIZED = "job.resized"


def resize_event(
    action: Action,
    had: Collection[Collection[GpuId]],
    takers: Mapping[GpuId, Collection[JobId]],
    givers: Mapping[GpuId, AllocationId],
    *,
    job: JobId,
    tenant_id: int,
    attempt: int,
    at: datetime,
    actor: str,
) -> tuple[Any, ...]:
    """Return the row of the event, in the order of `EVENT_COLUMNS`.

    `attempt`: the number of the attempt with the new size. For the rest see `resize_words`.
    """
    assert action.placement is not None
    before, after = sum(map(len, had)), len(action.placement.gpus)
    message = resize_words(action, had, takers, givers)
    data = {"gpus_before": before, "gpus": after, "attempt": attempt}
    return (
        at, RESIZED, "job", job, tenant_id, job, wording.gpus(before), wording.gpus(after), actor,
        message[:500], json.dumps(data),
    )  # fmt: skip


def resize_words(
    action: Action,
    had: Collection[Collection[GpuId]],
    takers: Mapping[GpuId, Collection[JobId]],
    givers: Mapping[GpuId, AllocationId],
) -> str:
    """Return the old and new number of GPUs, and why:
    `Resized from 2 to 4 GPUs: there were idle GPUs for it.`

    `had`: the GPUs of each replica so far. `takers`: the jobs that get each GPU in the round; `givers`: the
    allocations that had it before the round.
    """
    assert action.placement is not None
    before, after = sum(map(len, had)), len(action.placement.gpus)
    why = action.message or _why({gpu for replica in had for gpu in replica}, action, takers, givers)
    return f"Resized from {before} to {after} GPUs: {why}"


def takers_of(actions: Iterable[tuple[Action, Placement]]) -> dict[GpuId, tuple[JobId, ...]]:
    """Return which jobs get each GPU."""
    return {gpu: action.jobs for action, placement in actions for gpu in placement.gpus}


def _why(
    had: Collection[GpuId],
    action: Action,
    takers: Mapping[GpuId, Collection[JobId]],
    givers: Mapping[GpuId, AllocationId],
) -> str:
    assert action.placement is not None
    gets = set(action.placement.gpus)
    if len(gets) > len(had):
        # GPUs that it already had are not taken from another job.
        if all(gpu not in givers or givers[gpu] == action.allocation for gpu in gets):
            return "there were idle GPUs for it."
        return "its virtual cluster's policy gives it GPUs that others leave."
    others = sorted({job for gpu in had for job in takers.get(gpu, ()) if job not in action.jobs})
    if not others:
        return "its virtual cluster's policy gives it fewer."
    return f"GPUs that it leaves are for {wording.jobs(others)}."
