"""Whether a tenant may submit more jobs, without counting its jobs anew for each of them.

To count ten thousand jobs takes longer than all the rest of submitting one. So a count is good for a second,
with what this process has let in since. What others let in within that second is missed: the bound is there
to stop queues without end, and one job more does no harm. Nobody is refused but by a fresh count.
"""

import time

from scheduler.core.model.lifecycle import JOB_FINAL
from scheduler.jobs.models import Job

COUNT_KEPT_SECONDS = 1.0

#: By tenant: its unfinished jobs, those let in since included, and when they were counted.
_counted: dict[int, tuple[int, float]] = {}


def jobs_before(tenant_id: int, more: int, *, most: int) -> int | None:
    """Return None where so many more jobs may be submitted, and count them in; else how many there are.

    `most`: how many unfinished jobs the tenant may have.
    """
    now = time.monotonic()
    unfinished, counted_at = _counted.get(tenant_id, (most, now))
    if unfinished + more > most or now - counted_at > COUNT_KEPT_SECONDS:
        unfinished, counted_at = _count(tenant_id), now
    if unfinished + more > most:
        return unfinished
    _counted[tenant_id] = unfinished + more, counted_at
    return None


def _count(tenant_id: int) -> int:
    return Job.objects.filter(tenant_id=tenant_id).exclude(state__in=JOB_FINAL).count()
