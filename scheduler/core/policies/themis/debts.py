"""By how much an app came before its turn, because its declared run time was shorter than its steps show.

An app that declares a shorter run time looks worse off the longer it waits, and wins sooner. An app of work T
that was declared as D, and won when it had waited for e, would have looked as bad in truth after T / D times
e. So it came (T / D - 1) e before its turn. From when its run time is measured it counts as submitted later
by that, as if it had been declared rightly from the beginning. An app that declared too much has waited
without need, and is not paid for it. Without measured run times no app owes anything.

Rho counts a lease of waiting in advance. The debt does not, since many would have won just as soon in truth:
with it, an app with a wrong estimate would pay for more than came of it (docs/reproduction.md).
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
    """What was said of jobs that won before their run time was measured.

    Memory: by job, the run time as it was then, and for how long its app had waited, in seconds.
    """

    def __init__(self, memory: Mapping[str, Sequence[float]], view: View) -> None:
        self._view = view
        self._said = {job: (*memory[str(job)],) for job in view.jobs if str(job) in memory}

    def win(self, jobs: Iterable[JobId], waited_seconds: float) -> None:
        """Note what is said of those of these jobs that were not measured yet; they have won now."""
        for job in jobs:
            if not self._view.jobs[job].measured:
                self._said[job] = self._seconds(self._view.jobs[job]), waited_seconds

    def of(self, app: App) -> float:
        """Return by how many seconds an app came before its turn; 0: not at all, as far as is known."""
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
