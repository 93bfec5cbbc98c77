"""By how much an app came before its turn, because it was said to be shorter than its steps show it to be.

Who says that it is shorter than it is looks worse off the longer it waits, and wins sooner. An app of work T
that was said to be D, and won when it had waited for e, would have looked as bad in truth after T / D times
e. So it came (T / D - 1) e before its turn, and counts as submitted later by that from when its run time is
measured, as if it had been told rightly from the beginning. Who said too much has waited in vain, and is not
paid for it. Without measured run times nobody owes anything.

Rho counts a lease of waiting in advance. The debt does not, since many would have won just as soon in truth:
with it, whoever errs would pay for more than came of it (docs/reproduction.md).
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
