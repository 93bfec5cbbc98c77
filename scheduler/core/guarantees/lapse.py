"""Whose guarantee holds where GPUs are divided by counts: what `binding` does for cells.

When a virtual cluster is guaranteed less than its guaranteed jobs hold, because an operator took some away,
a loan ended or it lends GPUs that it uses, the newest of them *lapse* until the others fit: they run on as
opportunistic, and stop only when somebody who is guaranteed needs their place. A gang lapses as a whole. The
guarantee returns, to the oldest first, as soon as there is room for it; never at the cost of one that holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from scheduler.core.admit import Admission
from scheduler.core.facts import Facts
from scheduler.core.snapshot import AllocationId, JobId, Running

#: Virtual cluster and GPU model.
Line = tuple[str, str]


class Lapse:
    """Lets guarantees lapse and return; knows what guaranteed jobs hold of each line."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        self._facts, self._admission = facts, admission
        self._held: dict[Line, dict[AllocationId, Running]] = {}
        self._line_of: dict[AllocationId, Line] = {}
        self._gpus: Counter[Line] = Counter()
        #: Lines of which some allocation may not be what it was written down as.
        self._unsettled: set[Line] = set()

    def refresh(self, allocations: Collection[AllocationId]) -> set[JobId]:
        """Take in the allocations that changed; return the jobs whose guarantee lapsed or returned."""
        facts = self._facts
        lines: set[Line] = set()
        for allocation in sorted(allocations):
            lines.update(self._leave(allocation))
            running = facts.running.get(allocation)
            line = None if running is None else self._line(running)
            if running is not None and line is not None:
                self._line_of[allocation] = line
                self._held.setdefault(line, {})[allocation] = running
                self._gpus[line] += len(running.gpus)
                lines.add(line)
                if not running.guaranteed:
                    self._unsettled.add(line)
        return {job for line in sorted(lines) for job in self._settle(line)}

    def _leave(self, allocation: AllocationId) -> Iterator[Line]:
        line = self._line_of.pop(allocation, None)
        if line is not None:
            self._gpus[line] -= len(self._held[line].pop(allocation).gpus)
            yield line

    def _line(self, running: Running) -> Line | None:
        """Return what an allocation counts against; None: it is no guaranteed one, or about to end."""
        facts = self._facts
        jobs = [facts.jobs.get(job) for job in running.jobs]
        if not facts.is_live(running) or running.allocation in self._admission.endings:
            return None
        if facts.is_divided(running.gpu_model):
            return None
        first = jobs[0]
        if first is None or not all(job is not None and job.guaranteed for job in jobs):
            return None
        # Nobody decides about jobs whose virtual cluster was deleted under them.
        known = first.virtual_cluster in facts.virtual_clusters
        return (first.virtual_cluster, running.gpu_model) if known else None

    def _settle(self, line: Line) -> Iterator[JobId]:
        vc, model = line
        left = self._facts.virtual_clusters[vc].guaranteed.get(model, 0)
        if self._gpus[line] <= left and line not in self._unsettled:
            return
        self._unsettled.discard(line)
        # By what is written down, so that an action that was lost is decided again in the same way.
        order = sorted(
            self._held[line].values(),
            key=lambda running: (not running.guaranteed, running.since, running.allocation),
        )
        for running in order:
            fits = len(running.gpus) <= left
            left -= len(running.gpus) if fits else 0
            if not fits or not running.guaranteed:
                self._unsettled.add(line)
            if self._facts.regrade(running.allocation, fits):
                yield from running.jobs
