"""Arrays that run a limited number of tasks at once: the others wait under any policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import Job, JobId
from scheduler.core.round.facts import Facts


class ArrayLimits:
    """Gives the places of arrays to their tasks: tasks with GPUs keep theirs, then tasks by number."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._array_of: dict[JobId, int] = {}
        self._tasks: dict[int, set[JobId]] = {}
        self._taken: Counter[int] = Counter()

    def siblings(self, changed: Set[JobId]) -> set[JobId]:
        """Return all tasks of arrays with a changed task, and forget which tasks were given places."""
        arrays = set()
        for number in changed:
            job = self._facts.jobs.get(number)
            if job is not None and job.array is not None:
                self._array_of[number] = job.array.number
                self._tasks.setdefault(job.array.number, set()).add(number)
                arrays.add(job.array.number)
            elif number in self._array_of:
                array = self._array_of.pop(number)
                self._tasks[array].discard(number)
                arrays.add(array)
        for array in arrays:
            have = [job for job in self._tasks[array] if self._has_gpus(job)]
            self._taken[array] = len(have)
        return set().union(*[self._tasks[array] for array in arrays])

    def has_place(self, job: Job) -> bool:
        """Return whether a job's array lets it be considered; a waiting task takes a place by this call."""
        if job.array is None or self._has_gpus(job.id):
            return True
        if self._taken[job.array.number] >= job.array.at_most:
            return False
        self._taken[job.array.number] += 1
        return True

    def _has_gpus(self, job: JobId) -> bool:
        return job in self._facts.current or job in self._facts.stopping


def no_place(job: Job) -> Reason:
    """Return the reason for a task whose array has no place left."""
    assert job.array is not None
    return Reason(
        code="array_limit",
        tier=Tier.HELD,
        message=f"Of array {job.array.number} at most {job.array.at_most} run at once; as many run or come"
        " before it.",
        blocking={"array": job.array.number},
    )
