"""Let guarantees lapse and return where GPUs are divided by counts, as `binding` does for cells.

A virtual cluster can be guaranteed less than its guaranteed jobs hold: an operator reduced its guarantee, a
loan ended, or it lends GPUs that it uses. Then the guarantees of its jobs *lapse*, those of the lowest
priority first and then of the newest jobs, until the others fit. Lapsed jobs run on as opportunistic, and
stop only when a guaranteed job needs their place. In their own virtual cluster they still make room only for
higher priorities. A gang lapses as a whole. GPUs that have left the cluster do not count, and a GPU of which
several jobs have parts counts once. Guarantees return in the opposite order, as soon as there is room, but
never at the cost of a guarantee that holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from scheduler.core.fitting.holding import Holding
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import AllocationId, JobId, Running
from scheduler.core.round.admit import Admission
from scheduler.core.round.facts import Facts

#: Virtual cluster and GPU model.
Line = tuple[str, str]
#: Model, node and GPU, as in `Holding.shared`.
OpenGpu = tuple[str, int, int]


class Lapse:
    """Lets guarantees lapse and return, and counts what guaranteed jobs hold of each line."""

    def __init__(self, facts: Facts, admission: Admission) -> None:
        self._facts, self._admission = facts, admission
        self._held: dict[Line, dict[AllocationId, Running]] = {}
        self._line_of: dict[AllocationId, Line] = {}
        self._gpus: Counter[Line] = Counter()
        #: By line and GPU: the number of allocations with parts of it.
        self._opened: Counter[tuple[Line, OpenGpu]] = Counter()
        #: The holding with which each allocation counts in its line.
        self._counted: dict[AllocationId, Holding] = {}
        self._lapsed: dict[AllocationId, str] = {}
        #: Lines with an allocation whose recorded guarantee may be out of date.
        self._unsettled: set[Line] = set()

    def refresh(self, allocations: Collection[AllocationId]) -> set[JobId]:
        """Update the allocations that changed; return the jobs whose guarantee lapsed or returned."""
        facts = self._facts
        lines: set[Line] = set()
        for allocation in sorted(allocations):
            lines.update(self._leave(allocation))
            running = facts.running.get(allocation)
            line = None if running is None else self._line(running)
            if running is not None and line is not None:
                self._line_of[allocation] = line
                self._held.setdefault(line, {})[allocation] = running
                self._count(line, allocation, facts.holdings[allocation])
                lines.add(line)
                if not running.guaranteed:
                    self._unsettled.add(line)
        return {job for line in sorted(lines) for job in self._settle(line)}

    def _leave(self, allocation: AllocationId) -> Iterator[Line]:
        line = self._line_of.pop(allocation, None)
        if line is not None:
            del self._held[line][allocation]
            holding = self._counted.pop(allocation)
            self._gpus[line] -= holding.gpus
            for gpu in holding.shared:
                self._opened[line, gpu] -= 1
                self._gpus[line] += self._opened[line, gpu] > 0
            self._lapsed.pop(allocation, None)
            yield line

    def _count(self, line: Line, allocation: AllocationId, holding: Holding) -> None:
        self._counted[allocation] = holding
        self._gpus[line] += holding.gpus
        for gpu in holding.shared:
            self._gpus[line] -= self._opened[line, gpu] > 0
            self._opened[line, gpu] += 1

    def lapsed(self, vc: str) -> Mapping[Holding, int]:
        """Return the holdings of a virtual cluster's jobs whose guarantee has lapsed, with their priorities.

        Among jobs that share GPUs the highest priority counts. Holdings that may not be reclaimed now are
        left out.
        """
        found: dict[Holding, int] = {}
        for allocation, owner in sorted(self._lapsed.items()):
            holding = self._facts.holdings[allocation]
            if owner == vc and holding.evictable:
                found[holding] = self._facts.priority_of(self._facts.running[allocation].jobs)
        return found

    @property
    def any_lapsed(self) -> bool:
        """Whether any job's guarantee has lapsed."""
        return bool(self._lapsed)

    def _line(self, running: Running) -> Line | None:
        """Return the line in which an allocation counts; None if it is not guaranteed, or about to end."""
        facts = self._facts
        if not facts.is_live(running) or running.allocation in self._admission.endings:
            return None
        if facts.is_divided(running.gpu_model):
            return None
        for number in running.jobs:
            job = facts.jobs.get(number)
            if job is None or not job.guaranteed:
                return None
        owner = facts.jobs[running.jobs[0]].virtual_cluster
        # No view decides about jobs whose virtual cluster was deleted.
        return (owner, running.gpu_model) if owner in facts.virtual_clusters else None

    def _settle(self, line: Line) -> Iterator[JobId]:
        vc, model = line
        left = self._facts.virtual_clusters[vc].guaranteed.get(model, 0)
        if self._gpus[line] <= left and line not in self._unsettled:
            return
        self._unsettled.discard(line)
        # Sort by what is stored, so that a lost action is decided again in the same way.
        order = sorted(
            self._held[line].values(),
            key=lambda running: (
                not running.guaranteed,
                -self._facts.priority_of(running.jobs),
                running.since,
                running.allocation,
            ),
        )
        opened: set[OpenGpu] = set()
        for running in order:
            holding = self._counted[running.allocation]
            shared = holding.shared
            gpus = holding.gpus - len(opened.intersection(shared))
            fits = gpus <= left
            if fits:
                left -= gpus
                opened.update(shared)
                self._lapsed.pop(running.allocation, None)
            else:
                self._lapsed[running.allocation] = vc
            if not fits or not running.guaranteed:
                self._unsettled.add(line)
            if self._facts.regrade(running.allocation, fits):
                yield from running.jobs


def held_by_lapsed(vc: str, what: str, lapsed: Sequence[Running]) -> Reason:
    """Return why a job waits for guaranteed GPUs that lapsed jobs hold; `what` is "cells", or "4 V100"."""
    jobs = [job for running in lapsed for job in running.jobs]
    return Reason(
        code="held_by_lapsed",
        tier=Tier.GUARANTEE,
        message=f"Virtual cluster {vc} has {what} for it, but only on GPUs of {wording.jobs(jobs)}, whose"
        " guarantee has lapsed. In their own virtual cluster they make room for higher priorities only.",
        blocking={"jobs": jobs},
        hint="It starts when they end, or when other hardware comes free.",
    )
