"""The fraction of its demanded GPU time that each job got over the last hour (Singularity, section 2).

Only GPU time up to the job's own size counts. A job demands its own size as long as it is in the view, but
not while it is held, backs off or waits for its tenant's quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import attained_service
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.snapshot import Job

#: The most stretches of time remembered for a job; beyond that the two oldest are merged.
STRETCHES = 24
#: Digits of a part of time: enough for 0.1 s of a day.
_DIGITS = 6

#: (seconds, part of the job's own size that it used), the latest last.
Stretches = list[list[float]]


class Fractions:
    """The fractions of a view's jobs in this round.

    Memory: `at`, its instant, and by job the GPU-seconds received and the stretches. If it is lost, the
    window is assumed to have been like the job's whole life.
    """

    def __init__(self, view: View, memory: Mapping[str, Any], window_seconds: float) -> None:
        self._window, self._at = window_seconds, view.now
        known: Mapping[str, Any] = memory.get("jobs", {})
        before = memory.get("at")
        self._received: dict[str, float] = {}
        self._stretches: dict[str, Stretches] = {}
        for job in view.jobs.values():
            name, received = str(job.id), attained_service(job, view.running.get(job.id), view.now)
            if before is not None and name in known:
                had, stretches = known[name]
                # A stopping job is neither running nor waiting, and its service is not counted yet.
                self._received[name] = max(received, had)
                self._stretches[name] = [list(stretch) for stretch in stretches]
                self._add(name, job, view.now - before, received - had)
            else:
                begun = max(job.submitted_at, job.eligible_at, before or 0.0)
                self._received[name], self._stretches[name] = received, []
                self._add(name, job, view.now - begun, received)

    def of(self, job: Job) -> float:
        """Return the fraction, 0 to 1; 0 for a job that has just come."""
        stretches = self._stretches[str(job.id)]
        demanded = sum([seconds for seconds, _ in stretches])
        return sum([seconds * part for seconds, part in stretches]) / demanded if demanded > 0 else 0.0

    def remember(self) -> dict[str, Any]:
        """Return the memory for the next round."""
        jobs = {name: [self._received[name], stretches] for name, stretches in self._stretches.items()}
        return {"at": self._at, "jobs": jobs}

    def _add(self, name: str, job: Job, seconds: float, received: float) -> None:
        """Add a stretch of time, and forget what is older than the window."""
        stretches = self._stretches[name]
        if seconds > 0:
            part = round(min(max(received / (amount_of(job) * seconds), 0.0), 1.0), _DIGITS)
            if stretches and stretches[-1][1] == part:
                stretches[-1][0] += seconds
            else:
                stretches.append([seconds, part])
        beyond = sum([length for length, _ in stretches]) - self._window
        while beyond > 0:
            cut = min(beyond, stretches[0][0])
            stretches[0][0] -= cut
            beyond -= cut
            if stretches[0][0] <= 0:
                del stretches[0]
        while len(stretches) > STRETCHES:
            (first, part), (second, other) = stretches[:2]
            stretches[:2] = [[first + second, (first * part + second * other) / (first + second)]]
