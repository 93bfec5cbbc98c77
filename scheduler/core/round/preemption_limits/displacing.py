"""Preemption limits: a policy may not displace a job that has just begun, nor too many jobs at a time.

A view is served without any limit first. If its decision would displace a job that has run for less than the
minimum run time of its virtual cluster, it is served again with all such jobs *pinned*: the policy sees them
in place, and their GPUs are offered to no job (`Capacity.pinning`). So its decision fits around them, gangs
whole, and no GPU stays idle for a job that does not stop. The budget of a round works in the same way: it is
spent on victims for the most important grants that it can serve whole, and all other jobs are pinned.

Guarantees are exempt: a reclaimed job runs in another view, and is dropped before that view is served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.model import wording
from scheduler.core.model.plan import Reason, Tier
from scheduler.core.model.snapshot import JobId, Memory
from scheduler.core.round.facts import Facts
from scheduler.core.round.run_view import Plugins, ViewOutcome, run_view, staying_together

#: Jobs that hold GPUs together.
Unit = tuple[JobId, ...]


class PreemptionLimits:
    """Serves the views of one round within the limits on displacing running jobs."""

    def __init__(self, facts: Facts, *, moves: bool = True) -> None:
        self._facts, self._moves = facts, moves
        #: The number of jobs that may still be displaced in this round; None for any number.
        self._left = facts.frame.preemptions_per_round
        #: By virtual cluster that sets one: the minimum run time of an attempt, in seconds.
        self._least = {
            name: vc.min_run_seconds for name, vc in facts.virtual_clusters.items() if vc.min_run_seconds > 0
        }

    def run_view(self, view: View, plugins: Plugins, memory: Memory, overran: str = "") -> ViewOutcome:
        """Let the view's policy and placer decide, and again around jobs that must not be displaced."""
        outcome = self._served(view, plugins, memory, overran)
        return self._with_leaves_allowed(outcome) if outcome.decision.leaves else outcome

    def _with_leaves_allowed(self, outcome: ViewOutcome) -> ViewOutcome:
        """Return the outcome in which only jobs that may be displaced lose the GPUs that they share."""
        view, staying = outcome.view, set[JobId]()
        for job in outcome.decision.leaves:
            least = self._least.get(view.jobs[job].virtual_cluster, 0.0)
            is_young = view.running[job].since_of(job) + least > view.now + INSTANT_SECONDS
            if is_young or self._left == 0:
                staying.add(job)
            elif self._left is not None:
                self._left -= 1
        return replace(outcome, decision=staying_together(view, outcome.decision, staying))

    def _served(self, view: View, plugins: Plugins, memory: Memory, overran: str) -> ViewOutcome:
        reclaimed = set() if self._moves else self._reclaimed(view)
        if reclaimed:
            outcome = self._served(view.without(reclaimed), plugins, memory, overran)
            # These jobs are stopped, and may start again once they have left.
            decision = replace(outcome.decision, wake_at=view.now)
            return replace(outcome, view=view, decision=decision)
        outcome = run_view(view, plugins, memory, overran)
        if not self._moves:
            staying: set[Unit] = set()
            while movers := _movers(outcome) - staying:
                staying |= movers
                outcome = run_view(_pinning(view, staying), plugins, memory, overran)
        if self._left is None and not self._least:
            return outcome
        young = self._young(view)
        spared = sorted(displaced(outcome) & young.keys())
        if spared:
            freed_at = min(young.values())
            again = run_view(_pinning(view, young), plugins, memory, overran)
            outcome = _explained(again, outcome, self._too_young(spared, freed_at), freed_at)
        if self._left is None:
            return outcome
        leaving = displaced(outcome)
        if _count(leaving) > self._left:
            may_go = self._chosen(outcome, leaving)
            others = outcome.view.capacity.pending.keys() - may_go
            again = run_view(_pinning(view, others), plugins, memory, overran)
            next_round_at = view.now + view.round_seconds
            outcome = _explained(again, outcome, self._used_up(leaving), next_round_at)
            leaving = displaced(outcome)
        self._left -= _count(leaving)
        return outcome

    def _reclaimed(self, view: View) -> set[JobId]:
        """Return the jobs whose GPUs another view has claimed in this round."""
        facts, dropped = self._facts, view.capacity.dropped
        jobs = {job for held in dropped if held.running is not None for job in held.running.jobs}
        current = {job: facts.current[job] for job in jobs if job in view.jobs and job in facts.current}
        return {job for job, running in current.items() if facts.holdings[running.allocation] in dropped}

    def _young(self, view: View) -> Mapping[Unit, float]:
        """Return the jobs that may not be displaced yet, with the instant from which they may."""
        young: dict[Unit, float] = {}
        for unit, holding in view.capacity.pending.items():
            assert holding.running is not None
            running = holding.running
            until = max(
                [running.since_of(job) + self._least.get(view.jobs[job].virtual_cluster, 0.0) for job in unit]
            )
            if running.phase == "held" and until > view.now + INSTANT_SECONDS:
                young[unit] = until
        return young

    def _chosen(self, outcome: ViewOutcome, leaving: Iterable[Unit]) -> set[Unit]:
        """Choose the victims: those that make room for the first grants that they can serve whole."""
        assert self._left is not None
        unit_on = {gpu: unit for unit in leaving for gpu in outcome.view.running[unit[0]].gpus}
        chosen: set[Unit] = set()
        for position, placement in sorted(outcome.placements.items()):
            needed = {unit_on[gpu] for gpu in placement.gpus if gpu in unit_on}
            mover = outcome.view.running.get(outcome.decision.grants[position].jobs[0])
            if mover is not None and mover.jobs in unit_on.values():
                needed.add(mover.jobs)
            if _count(chosen | needed) <= self._left:
                chosen |= needed
        return chosen

    def _too_young(self, spared: list[Unit], freed_at: float) -> Reason:
        jobs = [job for unit in spared for job in unit]
        return Reason(
            code="minimum_run",
            tier=Tier.ORDER,
            message=f"It would have GPUs of {wording.jobs(jobs)}, which may not be displaced before having"
            f" run for the least time of the virtual cluster; one may be at {wording.instant(freed_at)}.",
            blocking={"jobs": jobs, "until": freed_at},
        )

    def _used_up(self, leaving: Iterable[Unit]) -> Reason:
        most = self._facts.frame.preemptions_per_round
        return Reason(
            code="preemption_budget",
            tier=Tier.ORDER,
            message=f"{_count(leaving)} jobs would have to leave their GPUs in this round, for it and others;"
            f" at most {most} may.",
            blocking={"preemptions_per_round": most},
            hint="It is considered again in the next round.",
        )


def displaced(outcome: ViewOutcome) -> set[Unit]:
    """Return the running jobs that are stopped, moved or resized."""
    return {running.jobs for running in outcome.dropped if running.phase == "held"}


def _movers(outcome: ViewOutcome) -> set[Unit]:
    """Return the running jobs that would move."""
    return {unit for unit in displaced(outcome) if unit[0] in placed_by(outcome)}


def _pinning(view: View, units: Iterable[Unit]) -> View:
    return replace(view, capacity=view.capacity.pinning(tuple(units)))


def _count(units: Iterable[Unit]) -> int:
    return sum(map(len, units))


def _explained(outcome: ViewOutcome, before: ViewOutcome, reason: Reason, wake_at: float) -> ViewOutcome:
    """Return the outcome with the reason, and its end, for jobs that would otherwise have had a place."""
    decision, placed = outcome.decision, placed_by(outcome)
    reasons = dict(decision.reasons)
    for job in sorted(placed_by(before) - placed):
        reasons[job] = (reason, *reasons.get(job, ()))
    wakes = [wake_at] if decision.wake_at is None else [wake_at, decision.wake_at]
    return replace(outcome, decision=replace(decision, reasons=reasons, wake_at=min(wakes)))


def placed_by(outcome: ViewOutcome) -> set[JobId]:
    """Return the jobs that have a place after a view was served."""
    granted = {job for position in outcome.placements for job in outcome.decision.grants[position].jobs}
    return granted | outcome.kept
