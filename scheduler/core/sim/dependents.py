"""Jobs that wait for others, in virtual time; the live counterpart is `jobs.services.dependencies`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from scheduler.core.model.awaited import ENDED, FAILED, SINGLETON, STARTED, SUCCEEDED
from scheduler.core.model.snapshot import Job, JobId
from scheduler.core.round.facts import Facts

_WHEN_IT_SUCCEEDED = frozenset({SUCCEEDED, ENDED, STARTED, SINGLETON})
_WHEN_IT_FAILED = frozenset({FAILED, ENDED, STARTED, SINGLETON})


class Dependents:
    """Removes from jobs the conditions that have been met."""

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self._facts = facts
        #: By awaited job: the jobs that wait for it.
        self._by_awaited: dict[int, list[JobId]] = defaultdict(list)

    def add(self, job: Job) -> None:
        """Record which jobs a new job waits for."""
        for each in job.awaits:
            self._by_awaited[each.job].append(job.id)

    def started(self, job: JobId) -> bool:
        """Release the jobs that waited for this job to start; return whether there are any."""
        return job in self._by_awaited and self._happened(job, frozenset({STARTED}))

    def ended(self, job: JobId, *, well: bool) -> None:
        """Release the jobs that waited for this job to end in this way; the others wait forever."""
        if job in self._by_awaited:
            self._happened(job, _WHEN_IT_SUCCEEDED if well else _WHEN_IT_FAILED)

    def _happened(self, job: JobId, what: frozenset[str]) -> bool:
        facts, is_news = self._facts(), False
        for waiting in self._by_awaited[job]:
            known = facts.jobs.get(waiting)
            if known is None:
                continue
            left = tuple([each for each in known.awaits if each.job != job or each.when not in what])
            if left != known.awaits:
                facts.put_job(replace(known, awaits=left))
                is_news = True
        return is_news
