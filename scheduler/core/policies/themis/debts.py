"""The time by which an app came before its turn because its declared run time was shorter than measured.

An app that declares a shorter run time looks worse off the longer it waits, and wins sooner. An app of work T
that was declared as D, and won after waiting for e, should have waited for e T / D to look as badly off. So
it came (T / D - 1) e before its turn. Once its run time is measured, it counts as submitted later by that, as
if declared correctly from the beginning. An app that declared too much has waited longer than needed, and
gets no compensation. Without measured run times no app owes anything.

Rho counts a lease of waiting in advance. The debt does not, since many apps would have won as early with a
correct estimate: an app with a wrong estimate would then pay for more than it gained (docs/reproduction.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import whole_seconds
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.snapshot import Job, JobId
from scheduler.core.policies.themis.apps import App


class Debts:
    """The declared run times of jobs that won before their run time was measured.

    Memory: by job, the run time as it was then, and for how long its app had waited, in seconds.
    """

    def __init__(self, memory: Mapping[str, Sequence[float]], view: View) -> None:
        self._view = view
        self._said = {job: (*memory[str(job)],) for job in view.jobs if str(job) in memory}

    def win(self, jobs: Iterable[JobId], waited_seconds: float) -> None:
        """Record the declared run times of the unmeasured jobs among these, which have won now."""
        for job in jobs:
            if not self._view.jobs[job].measured:
                self._said[job] = self._seconds(self._view.jobs[job]), waited_seconds

    def of(self, app: App) -> float:
        """Return the seconds by which an app is known to have come before its turn; 0: none."""
        work = said = waited = 0.0
        for job in app.jobs:
            seconds = self._seconds(job)
            before, since = self._said.get(job.id, (seconds, 0.0))
            work += amount_of(job) * seconds
            said += amount_of(job) * (min(before, seconds) if job.measured else seconds)
            waited = max(waited, since)
        return (work / said - 1.0) * waited if 0 < said < work else 0.0

    def _seconds(self, job: Job) -> float:
        return whole_seconds(job, self._view.default_time_limit_seconds)

    def remember(self) -> dict[str, Any]:
        """Return the memory for the next round."""
        return {str(job): list(entry) for job, entry in sorted(self._said.items())}
