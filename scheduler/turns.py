"""Whose turn it is among attempts that share their GPUs one at a time."""

from collections import defaultdict
from collections.abc import Iterable

from nodeagent.messages import Turn
from scheduler.core.model.lifecycle import ATTEMPT_LIVE
from scheduler.models import Attempt


def turns_of(attempts: Iterable[Attempt]) -> dict[int, Turn]:
    """Return the turns of those attempts that take some, by id; one that is left alone runs all the time.

    All nodes of a gang get the same answer, and by the wall clock that is all they need to agree.
    """
    slices = {
        attempt.allocation_id: attempt.allocation.slice_seconds
        for attempt in attempts
        if attempt.allocation.slice_seconds is not None
    }
    if not slices:
        return {}
    sharing: dict[int, list[int]] = defaultdict(list)
    live = Attempt.objects.filter(allocation__in=slices, state__in=ATTEMPT_LIVE).order_by("id")
    for allocation, attempt in live.values_list("allocation_id", "id"):
        sharing[allocation].append(attempt)
    return {
        attempt: Turn(index=index, count=len(group), seconds=slices[allocation])
        for allocation, group in sharing.items()
        if len(group) > 1
        for index, attempt in enumerate(group)
    }
