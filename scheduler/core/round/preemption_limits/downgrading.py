"""Jobs that prefer running on without their guarantee to stopping: HiveD's lazy preemption, job by job.

When the policy of its virtual cluster gives the job's guarantee to another job, the first job loses only its
guarantee. The other job is placed as if the first were opportunistic, so elsewhere if there is room. The
first job stops only if that job, or another guaranteed one, needs its GPUs after all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.core.fitting.capacity import Capacity
from scheduler.core.model.snapshot import DOWNGRADE, PREEMPT, AllocationId, JobId, Running
from scheduler.core.round.facts import Facts
from scheduler.core.round.preemption_limits.displacing import displaced, placed_by
from scheduler.core.round.run_view import ViewOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Downgrade:
    """An allocation whose guarantee its own virtual cluster gave to other jobs."""

    running: Running
    #: The jobs that were placed in the round.
    to: tuple[JobId, ...]


def downgrades(facts: Facts, outcome: ViewOutcome) -> dict[AllocationId, Downgrade]:
    """Return the victims of a guaranteed view that should run on as opportunistic if they can."""
    if not (gone := displaced(outcome)):
        return {}
    placed = placed_by(outcome)
    leaving = sorted(unit for unit in gone if placed.isdisjoint(unit))
    to = tuple(sorted(placed - outcome.view.running.keys()))
    running = [facts.current[unit[0]] for unit in leaving if _all_ask_for(DOWNGRADE, unit, facts)]
    return {each.allocation: Downgrade(running=each, to=to) for each in running}


def kept_on(
    facts: Facts, candidates: Iterable[Downgrade], left: Capacity
) -> tuple[Mapping[AllocationId, Downgrade], Capacity]:
    """Return the candidates whose GPUs no job took, and what is left when they keep these."""
    left = left.narrowed(None, may_evict=True)
    kept = [each for each in candidates if left.give_back(facts.holdings[each.running.allocation])]
    return {each.running.allocation: each for each in kept}, left


def stops_with_its_guarantee(running: Running, facts: Facts) -> bool:
    """Return whether an allocation stops when its guarantee lapses, rather than run on as opportunistic."""
    return any(facts.jobs[job].on_reclaim == PREEMPT for job in running.jobs if job in facts.jobs)


def _all_ask_for(what: str, unit: Iterable[JobId], facts: Facts) -> bool:
    return all(job in facts.jobs and facts.jobs[job].on_reclaim == what for job in unit)
