"""The speed of simulated jobs with the CPUs and memory that they leave to the platform."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.building_blocks.auxiliary_division import speed_with
from scheduler.core.model.auxiliary import AuxiliaryShare
from scheduler.core.model.snapshot import Job, JobId


class Shares:
    """Each job's present share, by the last round."""

    def __init__(self) -> None:
        self._now: Mapping[JobId, AuxiliaryShare] = {}

    def turn_to(self, shares: Mapping[JobId, AuxiliaryShare]) -> list[JobId]:
        """Apply a round's shares; return the jobs whose share changed."""
        before, self._now = self._now, shares
        return [job for job, share in shares.items() if share != before.get(job)]

    def factor(self, job: Job) -> float:
        """Return the job's speed relative to its proportional share."""
        return speed_with(job, self._now[job.id]) if job.id in self._now else 1.0
