"""Gavel: which part of its time each job spends on which GPU model is the optimum of a stated objective.

D. Narayanan, K. Santhanam, F. Kazhamiaka, A. Phanishayee and M. Zaharia, "Heterogeneity-Aware Cluster
Scheduling Policies for Deep Learning Workloads", OSDI 2020. Every `objective` (sections 4.1 to 4.4) is a
mathematical program over the same shares of time (`scheduler.core.allocation`, which says where its programs
depart from the published code); shares become rounds by a mechanism that does not know the objective (section
5, `scheduler.core.targets`). Without `aware` every model counts as equally fast: the baseline of the paper.

What is the paper's: targets by model, also for two jobs on the same GPUs (`sharing`); rounds of
`lease_seconds`, six minutes unless told otherwise; who is furthest behind its target goes first; gangs whole;
a lease on the same model is extended on the same GPUs. What is not:

- Shares are decided anew at the end of a lease, when jobs, GPUs or speeds changed, and not more often than
  every `interval_seconds`; so is it in the published code, where that is 1,920 s. Debts are carried over
  then.
- A job that arrives in between starts on idle GPUs at once, as does whoever waits when GPUs come free within
  a lease. In the code such a job gets nothing until shares are decided anew, and idle GPUs wait for the
  round.
- Left-over GPUs go to jobs by what these gain (`targets.turns`), not model by model.
- Jobs of equal debt go in the order of their shares and of submission; nothing is random, except that an
  agnostic policy takes the models in random order for what is left over, as the code does.
- Priority is weight: a job of priority p counts p + 1 times. Objectives that look at no weights (`WEIGHTED`
  has those that do) instead let the higher priority go first in each lease.
- Members' weights are those of entities in the hierarchical objectives, and of each of their jobs in others.
- `profiling` is the part of the view's GPUs that may be used at a time to let one job of a kind run on a
  model on which its speed is only estimated. The paper's estimator learns pairs only; speeds alone come from
  outside.
- Where a gang does not fit into its one of `parts` there are half as many, and so on. Where the program has
  no answer, each job has its equal part of every model, as far as it runs there.
- An elastic gang is planned at the largest size up to its own that fits. Speeds are those of a gang that is
  near together: the paper's split of each model into consolidated and spread GPUs is left to the placer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from scheduler.core.allocation.errors import PartitionError, SolverError
from scheduler.core.allocation.solving import OBJECTIVES, solve
from scheduler.core.ordering import Outcome
from scheduler.core.plan import Decision, Reason, Tier
from scheduler.core.policy import View
from scheduler.core.run_time import runs_nowhere
from scheduler.core.service import INSTANT_SECONDS
from scheduler.core.snapshot import JobId, Memory
from scheduler.core.targets.lease import Lease
from scheduler.core.targets.ledger import Ledger
from scheduler.core.targets.profiling import profile
from scheduler.core.targets.prospects import Prospects
from scheduler.core.targets.question import Question, question_of
from scheduler.core.targets.turns import Turns
from scheduler.core.targets.units import Targets, Unit, by_job, name_of, targets_of, unit_named

#: Objectives in which weights count; and those of them in which tenants do.
WEIGHTED = ("hierarchical", "hierarchical_fifo", "max_min", "proportional_fairness", "water_filling")
HIERARCHICAL = ("hierarchical", "hierarchical_fifo")
#: For how long a job is kept for a partner that has not left its old GPUs yet.
PATIENCE_SECONDS = 60.0
#: Digits of a share that are remembered.
DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Gavel:
    """Shares of time on each GPU model by an objective, in rounds of leases."""

    #: Who waits has its turn in a later lease, though jobs neither come nor go.
    rotates: ClassVar[bool] = True

    #: One of `scheduler.core.allocation.solving.OBJECTIVES`.
    objective: str = field(default="max_min", metadata={"choices": tuple(sorted(OBJECTIVES))})
    #: Whether speeds count; else all models are alike.
    aware: bool = True
    #: Whether two jobs may have the same GPUs, where it is known how fast they are then.
    sharing: bool = False
    #: Into how many clusters jobs and GPUs are dealt out to be decided one by one (POP); 1 is exact.
    parts: int = 1
    #: How long GPUs are given at a time.
    lease_seconds: float = 360.0
    #: Shares are not decided anew more often than this.
    interval_seconds: float = 360.0
    #: Part of the GPUs that may be used at a time to learn speeds.
    profiling: float = 0.1
    #: GPU model on which estimates and limits hold; empty: each job's fastest.
    reference: str = ""

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective is {self.objective!r}; there are {', '.join(sorted(OBJECTIVES))}")
        if self.sharing and not (self.aware and OBJECTIVES[self.objective]().shares_gpus):
            raise ValueError(
                f"sharing needs aware=true and an objective that can share, not {self.objective}"
            )
        if self.parts < 1:
            raise ValueError("parts must be at least 1")
        if not (self.lease_seconds > 0 and self.interval_seconds >= 0):
            raise ValueError("lease_seconds must be above 0 and interval_seconds at least 0")
        if not 0 <= self.profiling <= 1:
            raise ValueError("profiling must be between 0 and 1")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Change places where a lease ends; else hand out what is idle."""
        if not view.jobs:
            return Decision(grants=(), keep_running=True)
        return _Round(self, view, memory if memory.get("policy") == "gavel" else {}).decision()


class _Round:
    """Memory, beside the ledger's: `lease_ends`, `asked` (what shares were decided for), `targets` by job,
    `shared` by two jobs, and those that are `due` to start in this lease, by unit, with their model."""

    def __init__(self, policy: Gavel, view: View, memory: Memory) -> None:
        self._policy, self._view, self._memory = policy, view, memory
        self._prospects = Prospects(view, policy.reference, aware=policy.aware)
        self._ledger = Ledger(view, memory, policy.lease_seconds)
        self._targets: Targets = _targets(memory)
        self._asked: list[Any] = memory.get("asked", [])
        self._due = {unit_named(name): model for name, model in memory.get("due", {}).items()}
        #: Jobs kept for a partner that has not left its old GPUs yet.
        self._expects: set[JobId] = set()
        begun = max([running.since for running in view.running.values()], default=view.now)
        # Where memory is lost, the lease began when the last of those that run started.
        self._lease_ends = float(memory.get("lease_ends", begun + policy.lease_seconds))

    def decision(self) -> Decision:
        view, policy = self._view, self._policy
        self._ledger.settle(self._targets, self._prospects)
        changing = not self._targets or view.now >= self._lease_ends - INSTANT_SECONDS
        if changing:
            self._decide_shares()
            self._lease_ends = view.now + policy.lease_seconds
        turns = Turns(
            view,
            self._prospects,
            self._ledger,
            strict=policy.objective not in WEIGHTED,
            random=not policy.aware,
        )
        outcome = self._changed(turns) if changing else self._filled(turns)
        return outcome.decision(
            self._reasons(outcome),
            memory=self._remember(outcome),
            wake_at=self._wakes_at(outcome),
        )

    def _decide_shares(self) -> None:
        """Ask for the best shares if what they depend on is not what it was."""
        policy, view = self._policy, self._view
        is_known = bool(self._targets) and self._asked[:1] == [self._manner]
        if is_known and view.now < self._ledger.reset_at + policy.interval_seconds - INSTANT_SECONDS:
            return
        question = question_of(
            view, self._prospects, by_tenant=policy.objective in HIERARCHICAL, sharing=policy.sharing
        )
        if question is None:
            self._targets = {}
            return
        asked = [self._manner, question.digest]
        if not is_known or asked != self._asked:
            self._targets, self._asked = self._solved(question), asked
            self._ledger.reset(self._targets)

    @property
    def _manner(self) -> str:
        policy = self._policy
        return f"{policy.objective} {policy.aware} {policy.sharing} {policy.parts}"

    def _solved(self, question: Question) -> Targets:
        policy, instance, parts = self._policy, question.instance, self._policy.parts
        asked = {"aware": policy.aware, "sharing": policy.sharing and instance.pairs is not None}
        while True:
            try:
                solution = self._view.compute(solve, instance, policy.objective, parts=parts, **asked)
            except PartitionError:
                parts //= 2
            except SolverError:
                return _equal_parts(question)
            else:
                return targets_of(solution, question.jobs)

    def _changed(self, turns: Turns) -> Outcome:
        """Begin a lease: everyone stands in line."""
        policy, view = self._policy, self._view
        settled: set[JobId] = set()
        if policy.aware and policy.profiling:
            settled = profile(view, self._prospects, turns, policy.profiling)
        turns.serve_due(self._targets)
        turns.serve_others(settled)
        lease = Lease(view, self._prospects, changing=True)
        lease.extend(turns.chosen)
        for unit, model in turns.chosen.items():
            lease.start(unit, model)
        lease.spare_others()
        line = turns.in_line(view.jobs.values())
        lease.fill(line if lease.has_room else (), turns)
        self._due = {unit: model for unit, model in turns.chosen.items() if not self._runs(unit, model)}
        return lease.outcome(line)

    def _filled(self, turns: Turns) -> Outcome:
        """Within a lease: start who is due, then whoever waits, on what is idle."""
        view, line = self._view, turns.in_line(self._view.jobs.values())
        lease = Lease(view, self._prospects, changing=False)
        if len(view.running) == len(view.jobs) or not lease.has_room:
            return lease.outcome(line)
        for unit, model in self._due.items():
            if all(job in view.jobs and self._prospects.of(view.jobs[job]) for job in unit):
                lease.start(unit, model)
            elif view.now < self._patience_ends - INSTANT_SECONDS:
                self._expects.update(unit)
        lease.fill([job for job in line if job.id not in view.running], turns, self._expects)
        return lease.outcome(line)

    @property
    def _patience_ends(self) -> float:
        return self._lease_ends - self._policy.lease_seconds + PATIENCE_SECONDS

    def _runs(self, unit: Unit, model: str) -> bool:
        running = self._view.running.get(unit[0])
        return running is not None and running.jobs == unit and running.gpu_model == model

    def _wakes_at(self, outcome: Outcome) -> float | None:
        """Return when to decide again though nothing happens: when places may change."""
        view, running = self._view, self._view.running
        if any(job in running and running[job].jobs != unit for unit in self._due for job in unit):
            # Who joins another, or parts from it, stops first and starts in a round of its own.
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
            if self._prospects.of(self._view.jobs[job]) is None:
                said[job] = (runs_nowhere(self._view.jobs[job]),)
                continue
            own = tuple([(model, round(share, 2)) for model, share in _largest_first(shares.get(job, {}))])
            if own not in known:
                known[own] = (_next_lease(own),)
            said[job] = known[own]
        return said

    def _remember(self, outcome: Outcome) -> dict[str, Any]:
        alone = {name_of(unit): shares for unit, shares in self._targets.items() if len(unit) == 1}
        shared = {name_of(unit): shares for unit, shares in self._targets.items() if len(unit) > 1}
        memory = {
            "policy": "gavel",
            "objective": self._policy.objective,
            "lease_ends": self._lease_ends,
            "asked": self._asked,
            "targets": {name: _rounded(shares) for name, shares in alone.items()},
            **self._ledger.remember(),
        }
        if shared:
            memory["shared"] = {name: _rounded(shares) for name, shares in shared.items()}
        if self._due:
            memory["due"] = {name_of(unit): model for unit, model in self._due.items()}
        return memory


def _targets(memory: Memory) -> Targets:
    known: Mapping[str, Mapping[str, float]] = {**memory.get("targets", {}), **memory.get("shared", {})}
    return {unit_named(name): dict(shares) for name, shares in known.items()}


def _largest_first(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda entry: (-entry[1], entry[0]))


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {model: round(share, DIGITS) for model, share in shares.items()}


def _equal_parts(question: Question) -> Targets:
    """Return an m-th of every model for each of m jobs."""
    instance = question.instance
    shares = np.where(instance.throughput > 0, instance.gpus / (instance.jobs * instance.gang[:, None]), 0.0)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
    return {
        (job,): {model: share for model, share in zip(instance.models, row, strict=True) if share > 0}
        for job, row in zip(question.jobs, shares.tolist(), strict=True)
    }


def _next_lease(shares: Sequence[tuple[str, float]]) -> Reason:
    target = " and ".join([f"{share:.0%} of its time on {model}" for model, share in shares])
    if target:
        message = f"Its target is {target}; in this lease others are further behind theirs."
    else:
        message = "It has no target yet, or none above 0: it gets idle GPUs, and there are none for it."
    return Reason(
        code="behind_target_first", tier=Tier.ORDER, message=message, blocking={"targets": dict(shares)}
    )
