"""Rounds of leases that bring jobs to their target shares, however these were decided.

Where a lease ends, all units queue: those furthest behind their targets get turns, a unit that already runs
on the model of its turn stays, and left-over GPUs go to others. Within a lease no running job is disturbed;
new jobs, and GPUs that come free, are served at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.core.building_blocks.ordering import Outcome
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import runs_nowhere
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.building_blocks.time_shares.deficits import Deficits
from scheduler.core.building_blocks.time_shares.lease_settler import LeaseSettler
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.time_slices import TimeSlices, amount_of_unit
from scheduler.core.building_blocks.time_shares.units import (
    TimeShares,
    Unit,
    by_job,
    name_of,
    unit_named,
    without,
)
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory

#: For how long a job is kept for a partner that has not left its old GPUs yet.
PATIENCE_SECONDS = 60.0
#: Digits of a share that are remembered.
DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How leases are handed out."""

    #: The policy's name: memory of another one is not used.
    policy: str
    #: The policy's settings for shares; when an operator changes them, shares are decided again at once.
    manner: str
    lease_seconds: float
    #: Shares are decided again no more often than this.
    interval_seconds: float
    #: The unit with the higher priority goes first in each lease.
    strict: bool = False
    #: Models are tried in random order for what is left over, not by speed.
    random: bool = False
    #: Part of the GPUs that may be used at a time to learn speeds.
    profiling: float = 0.0
    #: Whether jobs that have their turn move so that a gang that also has its turn finds a place.
    gathers: bool = False
    #: The part of the time without interruption that a preemption may cost; 0: its cost does not count.
    overhead: float = 0.0


@dataclass(frozen=True, slots=True)
class SolverRequest:
    """The inputs of shares, and how to decide shares; done only when the inputs have changed."""

    #: Plain values that JSON keeps as they are.
    key: Sequence[Any]
    answer: Callable[[], TimeShares]


class Rounds:
    """One round. `ask` returns the present inputs of shares; None: no job can have any.

    `order` makes the turns once shares are decided; without it turns follow the deficits of single jobs.

    Memory, beside the deficits': `policy`, `manner`, `lease_ends`, `asked` (the key that shares were decided
    for), `targets` by job, `shared` by two jobs, and those that are `due` to start in this lease, by unit,
    with their model.
    """

    def __init__(
        self,
        view: View,
        memory: Memory,
        run_options: RunOptions,
        rules: Rules,
        ask: Callable[[], SolverRequest | None],
        order: Callable[[Deficits], TimeSlices] | None = None,
    ) -> None:
        if memory.get("policy") != rules.policy:
            memory = {}
        self._view, self._run_options, self._rules, self._ask = view, run_options, rules, ask
        self._order = order or self._by_deficits
        self._deficits = Deficits(view, memory, rules.lease_seconds, rules.overhead)
        self._targets = _targets(memory) if memory.get("manner") == rules.manner else {}
        self._answered: list[Any] = memory.get("asked", [])
        self._due = {unit_named(name): model for name, model in memory.get("due", {}).items()}
        #: Jobs kept for a partner that has not left its old GPUs yet.
        self._expects: set[JobId] = set()
        # If memory is lost, the lease is assumed to have begun when the last running job started.
        begun = [running.since + rules.lease_seconds for running in view.running.values()]
        self._lease_ends = float(memory.get("lease_ends", max(begun, default=view.now)))

    def decision(self) -> Decision:
        """Change places where a lease ends; else hand out what is idle."""
        view, rules = self._view, self._rules
        self._deficits.settle(self._targets, self._run_options)
        changing = view.now >= self._lease_ends - INSTANT_SECONDS
        if changing or not self._targets:
            self._decide_shares()
        if changing:
            self._lease_ends = view.now + rules.lease_seconds
        turns = self._order(self._deficits)
        outcome = self._changed(turns) if changing else self._filled(turns)
        return outcome.decision(
            self._reasons(outcome),
            memory=self._remember(),
            wake_at=self._wakes_at(outcome),
        )

    def _decide_shares(self) -> None:
        """Decide on shares again if what they depend on has changed."""
        due_at = self._deficits.reset_at + self._rules.interval_seconds
        if self._targets and self._view.now < due_at - INSTANT_SECONDS:
            return
        request = self._ask()
        if request is None:
            self._targets, self._answered = {}, []
        elif not self._targets or list(request.key) != self._answered:
            self._targets, self._answered = request.answer(), list(request.key)
            self._deficits.reset(self._targets)

    def _changed(self, turns: TimeSlices) -> Outcome:
        """Begin a lease in which all units queue."""
        view, part = self._view, self._rules.profiling
        settled = profile(view, self._run_options, turns, part) if part else set()
        absent = {job for unit in self._targets if len(unit) > 1 for job in unit if job not in view.jobs}
        turns.serve_due(without(self._targets, absent) if absent else self._targets)
        turns.serve_others(settled)
        settler = self._laid_out(turns)
        settler.spare_others()
        settler.fill(turns.line, turns)
        self._due = {unit: model for unit, model in turns.chosen.items() if not self._runs(unit, model)}
        return settler.outcome(turns.line)

    def _laid_out(self, turns: TimeSlices) -> LeaseSettler:
        """Find places for the units that have turns."""
        settler = LeaseSettler(self._view, self._run_options, changing=True)
        settler.serve(turns.chosen)
        unplaced = settler.gangs_without_place(turns.chosen) if self._rules.gathers else []
        if unplaced:
            gathered = LeaseSettler(self._view, self._run_options, changing=True)
            gathered.serve(turns.chosen, unplaced)
            if gathered.gpus_served(turns.chosen) > settler.gpus_served(turns.chosen):
                return gathered
        return settler

    def _by_deficits(self, deficits: Deficits) -> TimeSlices:
        rules = self._rules
        return TimeSlices(self._view, self._run_options, deficits, strict=rules.strict, random=rules.random)

    def _filled(self, turns: TimeSlices) -> Outcome:
        """Within a lease: start units that are due, then other waiting units, on idle GPUs."""
        view, line = self._view, turns.line
        settler = LeaseSettler(view, self._run_options, changing=False)
        if len(view.running) == len(view.jobs) or not settler.has_room:
            return settler.outcome(line)
        for unit, model in self._due.items():
            if all(job in view.jobs and self._run_options.of(view.jobs[job]) for job in unit):
                settler.start(unit, model)
            elif view.now < self._patience_ends - INSTANT_SECONDS:
                self._expects.update(unit)
        settler.fill([job for job in line if job.id not in view.running], turns, self._expects)
        return settler.outcome(line)

    @property
    def _patience_ends(self) -> float:
        return self._lease_ends - self._rules.lease_seconds + PATIENCE_SECONDS

    def _runs(self, unit: Unit, model: str) -> bool:
        running = self._view.running.get(unit[0])
        return running is not None and running.jobs == unit and running.gpu_model == model

    def _wakes_at(self, outcome: Outcome) -> float | None:
        """Return when to decide again though nothing happens: when places may change."""
        view, running = self._view, self._view.running
        if any(job in running and running[job].jobs != unit for unit in self._due for job in unit):
            # A job that joins another, or parts from it, stops first and starts in a round of its own.
            return view.now + view.round_seconds
        instants = [self._lease_ends]
        if self._expects:
            instants.append(self._patience_ends)
        waits = outcome.queue or outcome.grants or self._expects
        if waits or any(
            not self._runs(unit, where) for unit in self._targets for where in self._targets[unit]
        ):
            return min(instants)
        return None

    def _reasons(self, outcome: Outcome) -> dict[JobId, tuple[Reason, ...]]:
        shares = by_job(self._targets)
        said: dict[JobId, tuple[Reason, ...]] = {}
        known: dict[tuple[tuple[str, float], ...], tuple[Reason, ...]] = {}
        for job in outcome.queue:
            if self._run_options.of(self._view.jobs[job]) is None:
                said[job] = (runs_nowhere(self._view.jobs[job]),)
                continue
            own = tuple([(model, round(share, 2)) for model, share in _largest_first(shares.get(job, {}))])
            if own not in known:
                known[own] = (_next_lease(own),)
            said[job] = known[own]
        return said

    def _remember(self) -> dict[str, Any]:
        named = {name_of(unit): _rounded(shares) for unit, shares in self._targets.items()}
        memory = {
            "policy": self._rules.policy,
            "manner": self._rules.manner,
            "lease_ends": self._lease_ends,
            "asked": self._answered,
            "targets": {name: shares for name, shares in named.items() if "+" not in name},
            "shared": {name: shares for name, shares in named.items() if "+" in name},
            "due": {name_of(unit): model for unit, model in self._due.items()},
            **self._deficits.remember(),
        }
        return {name: value for name, value in memory.items() if value != {} or name == "targets"}


def _targets(memory: Memory) -> TimeShares:
    known: Mapping[str, Mapping[str, float]] = {**memory.get("targets", {}), **memory.get("shared", {})}
    return {unit_named(name): dict(shares) for name, shares in known.items()}


def _largest_first(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda entry: (-entry[1], entry[0]))


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {model: round(share, DIGITS) for model, share in shares.items()}


def _next_lease(shares: Sequence[tuple[str, float]]) -> Reason:
    target = " and ".join([f"{share:.0%} of its time on {model}" for model, share in shares])
    if target:
        message = f"Its target is {target}; in this lease others are further behind theirs."
    else:
        message = "It has no target above 0 yet: it gets only idle GPUs, and none is free for it."
    return Reason(
        code="behind_target_first", tier=Tier.ORDER, message=message, blocking={"targets": dict(shares)}
    )


# Profiling: let one job of a job class run for a lease on a model on which it was not measured yet.


def profile(view: View, run_options: RunOptions, turns: TimeSlices, part: float) -> set[JobId]:
    """Give turns to jobs whose speed on a model is an estimate, on at most that part of the view's GPUs.

    The earliest job of each job class and size goes, unless another of them already runs on that model: what
    is learned counts for all of them. Returns the jobs that were sent.
    """
    budget = part * sum(run_options.gpus.values())
    measured = {
        (_job_class(view.jobs[job]), running.gpu_model)
        for job, running in view.running.items()
        if job in view.jobs
    }
    sent: set[JobId] = set()
    for job in turns.line:
        if not job.estimated:
            continue
        run_option = run_options.of(job)
        for model in job.estimated if run_option else ():
            if (_job_class(job), model) in measured or run_options.speed(job, model) == 0:
                continue
            gpus = amount_of_unit((job.id,), view.jobs, run_options)
            if gpus <= budget and turns.give((job.id,), model):
                budget -= gpus
                measured.add((_job_class(job), model))
                sent.add(job.id)
                break
    return sent


def _job_class(job: Job) -> object:
    return (job.tenant, job.application, job.gpus) if job.application else job.id
