"""Arrays of jobs, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from allot.output import plural

if TYPE_CHECKING:
    from allot.schema import Job, JobCounts


def task_name(job: Job) -> str:
    """`train`; for a task of an array `train[7]`."""
    array = job["array"]
    return f"{job['name']}[{array['index']}]" if array else job["name"]


def array_name(job: Job) -> str:
    """`train (100 tasks)`, for an array as a whole."""
    array = job["array"]
    assert array is not None
    return f"{job['name']} ({plural(array['size'], 'task')})"


def array_state(counts: JobCounts) -> str:
    """The first of these states that one of its tasks is in, as on the page."""
    numbers: Mapping[str, Any] = counts
    states = ("running", "queued", "failed", "cancelled", "succeeded")
    return next((state.upper() for state in states if numbers[state]), "")


def array_detail(counts: JobCounts) -> str:
    """`3 queued, 1 failed`."""
    return ", ".join(f"{number} {state}" for state, number in counts.items() if number)


def array_words(job: Job) -> str:
    """`17, of which this is one of 100 tasks; at most 8 run at once`."""
    array = job["array"]
    if not array:
        return ""
    limit = f"; at most {array['at_most']} run at once" if array["at_most"] else ""
    return f"{array['number']}, of which this is one of {plural(array['size'], 'task')}{limit}"
