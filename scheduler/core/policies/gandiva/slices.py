"""Time slices for the jobs of a view: which job has its turn, and until when.

A job's pass rises by the seconds it runs. At the end of a slice, gangs run in the order of their passes:
stride scheduling with equal tickets (C. Waldspurger and W. Weihl, MIT/LCS/TM-528, 1995), which is round robin
for gangs of one size and gives equal shares of time whatever the sizes. A newcomer begins level with the
lowest.
"""

from __future__ import annotations

from typing import Any

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS, executed_seconds
from scheduler.core.model.snapshot import Job, Memory


class Slices:
    """The passes of a view's jobs. Memory: `at`, `slice_ends`, and `passes` in seconds by job.

    If the memory is lost, all jobs begin level, the one that has run least first. The slice is then taken to
    have begun when the last running job started.
    """

    def __init__(self, seconds: float, view: View, memory: Memory) -> None:
        self._view = view
        known = {
            job: float(value) for job, value in memory.get("passes", {}).items() if int(job) in view.jobs
        }
        before = float(memory.get("at", view.now))
        for number, running in view.running.items():
            if str(number) in known and running.phase == "held":
                known[str(number)] += max(0.0, view.now - max(before, running.since_of(number)))
        level = min(known.values(), default=0.0)
        self._passes = {number: known.get(str(number), level) - level for number in view.jobs}
        begun = max([running.since for running in view.running.values()], default=view.now)
        ends = float(memory.get("slice_ends", begun + seconds))
        #: Whether a slice is over, so that those that run have to stand in line again.
        self.is_over = view.now >= ends - INSTANT_SECONDS
        #: When the present slice ends.
        self.ends_at = view.now + seconds if self.is_over else ends

    def rank(self, job: Job) -> tuple[Any, ...]:
        """Return the place in line: within a slice no job passes a running one of equal priority."""
        number, running = job.id, self._view.running.get(job.id)
        waits = running is None
        executed = executed_seconds(job, running, self._view.now)
        first = (self._passes[number], not waits) if self.is_over else (waits, self._passes[number])
        return -job.priority, *first, executed, job.submitted_at, number

    def remember(self) -> dict[str, Any]:
        """Return the memory for the next round."""
        passes = {str(number): value for number, value in self._passes.items()}
        return {"at": self._view.now, "slice_ends": self.ends_at, "passes": passes}
