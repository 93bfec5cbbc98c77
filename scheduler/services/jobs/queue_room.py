"""Whether a tenant may queue more jobs, without counting its queue anew for each of them.

To count ten thousand jobs takes longer than all the rest of submitting one. So a count is good for a second,
with what this process has let in since. What others let in within that second is missed: the bound is there
to stop queues without end, and one job more does no harm. Nobody is refused but by a fresh count.
"""

import time

from scheduler.core.lifecycle import JobState
from scheduler.models import Job

COUNT_KEPT_SECONDS = 1.0

#: By tenant: jobs that were queued, those let in since included, and when they were counted.
_counted: dict[int, tuple[int, float]] = {}


def queue_takes(tenant_id: int, more: int, *, most: int) -> bool:
    """Return whether so many more may be queued where `most` may be; counts them as queued if so."""
    now = time.monotonic()
    queued, counted_at = _counted.get(tenant_id, (most, now))
    if queued + more > most or now - counted_at > COUNT_KEPT_SECONDS:
        queued, counted_at = _count(tenant_id), now
    if queued + more > most:
        return False
    _counted[tenant_id] = queued + more, counted_at
    return True


def _count(tenant_id: int) -> int:
    return Job.objects.filter(tenant_id=tenant_id, state=JobState.QUEUED).count()
