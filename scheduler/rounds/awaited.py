"""What waiting jobs await from other jobs, as a fact of a round."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from scheduler.core.model.awaited import SINGLETON, Awaited

_OPEN = """
WITH open AS (
    SELECT * FROM scheduler_dependency WHERE is_open
), last AS (
    SELECT array_id, max(id) AS id FROM scheduler_job
    WHERE array_id IN (SELECT awaited_id FROM open) AND state IN ('queued', 'running') GROUP BY array_id
)
SELECT job_id, coalesce(last.id, awaited_id), "when", open.state = 'never', last.array_id
FROM open LEFT JOIN last ON last.array_id = awaited_id ORDER BY open.id
"""


def read_awaited(cursor: Any) -> dict[int, tuple[Awaited, ...]]:
    """Return by job what it awaits that has not happened yet."""
    cursor.execute(_OPEN)
    found: dict[int, list[Awaited]] = defaultdict(list)
    for job, awaited, when, is_never, array in cursor.fetchall():
        found[job].append(Awaited(job=awaited, when=when, is_never=is_never, array=array))
    return {job: tuple(awaits) for job, awaits in found.items()}


def earlier_namesakes(
    singletons: Collection[int], jobs: Iterable[tuple[int, tuple[str, str, str]]]
) -> dict[int, Awaited]:
    """Return by singleton the last unfinished job before it that has its tenant, user and name.

    `jobs`: those that have not ended, with these three, by their numbers.
    """
    found: dict[int, Awaited] = {}
    last: dict[tuple[str, str, str], int] = {}
    for job, name in jobs:
        if job in singletons and name in last:
            found[job] = Awaited(job=last[name], when=SINGLETON)
        last[name] = job
    return found
