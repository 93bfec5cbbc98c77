"""Gavel: which part of its time each job spends on which GPU model is the optimum of a stated objective.

D. Narayanan, K. Santhanam, F. Kazhamiaka, A. Phanishayee and M. Zaharia, "Heterogeneity-Aware Cluster
Scheduling Policies for Deep Learning Workloads", OSDI 2020. Every `objective` (sections 4.1 to 4.4) is a
mathematical program over the same shares of time (`core.solvers`, which lists where its programs depart from
the published code). A mechanism that does not know the objective turns shares into rounds (section 5,
`building_blocks.time_shares`). Without `aware` every model counts as equally fast: the paper's baseline.

What is the paper's: targets by model, also for two jobs on the same GPUs (`sharing`); rounds of
`lease_seconds`, six minutes by default; the job that is furthest behind its target goes first; gangs whole; a
lease on the same model is extended on the same GPUs. What is not:

- Shares are decided again at the end of a lease, when jobs, GPUs or speeds changed, at most once in
  `interval_seconds`, as in the published code, where that is 1,920 s. Debts are carried over then.
- A job that arrives in between starts on idle GPUs at once, as does a waiting job when GPUs come free within
  a lease. In the code such a job gets nothing until shares are decided again, and idle GPUs wait for the
  round.
- What a preemption costs a job counts, where it is known (`Job.preemption_cost_seconds`): a running job keeps
  its place until another is owed so much more that the cost is `overhead` of that time, ten leases at most.
  In the paper moves are free; only a lease that is extended avoids one. Leases are hardly ever extended where
  jobs have shares of all models, as under an agnostic policy.
- No job shares in a view with jobs that never do (`co_location`).
- Left-over GPUs go to jobs by what these gain (`time_shares.time_slices`), not model by model.
- Jobs of equal deficit go in the order of their shares and of submission; nothing is random, except that an
  agnostic policy takes the models in random order for what is left over, as the code does.
- Priority is weight: a job of priority p counts p + 1 times. Objectives that ignore weights (`WEIGHTED` has
  those that do not) instead let the higher priority go first in each lease.
- Members' weights are those of entities in the hierarchical objectives, and of each of their jobs in others.
- `profiling` is the part of the view's GPUs that may be used at a time to let one job of a job class run on a
  model on which its speed is only estimated. The paper's estimator learns pairs only; speeds alone come from
  outside.
- Where a gang does not fit into its one of `parts` there are half as many, and so on. Where the program has
  no answer, each job has its equal part of every model, as far as it runs there.
- An elastic gang is planned at the largest size up to its own that fits. Speeds are those of a gang that is
  near together: the paper's split of each model into consolidated and spread GPUs is left to the placer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from scheduler.core.building_blocks.co_location import CoLocation
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.time_shares.rounds import Rounds, Rules, SolverRequest
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.building_blocks.time_shares.solver_input import SolverInput, solver_input_of
from scheduler.core.building_blocks.time_shares.units import TimeShares, time_shares_of
from scheduler.core.model.plan import Decision
from scheduler.core.model.snapshot import Memory
from scheduler.core.solvers.errors import PartitionError, SolverError
from scheduler.core.solvers.solving import OBJECTIVES, solve

#: Objectives in which weights count, and those among them in which tenants' weights count.
WEIGHTED = ("hierarchical", "hierarchical_fifo", "max_min", "proportional_fairness", "water_filling")
HIERARCHICAL = ("hierarchical", "hierarchical_fifo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gavel:
    """Shares of time on each GPU model by an objective, in rounds of leases."""

    #: A waiting job has its turn in a later lease, though jobs neither come nor go.
    rotates: ClassVar[bool] = True
    #: It gives each job a target share of each GPU model, and remembers the shares.
    has_targets: ClassVar[bool] = True

    #: One of `core.solvers.solving.OBJECTIVES`.
    objective: str = field(default="max_min", metadata={"choices": tuple(sorted(OBJECTIVES))})
    #: Whether speeds count; else all models are alike.
    aware: bool = True
    #: Whether two jobs may have the same GPUs, where it is known how fast they are then.
    sharing: bool = False
    #: Into how many clusters jobs and GPUs are dealt out to be decided one by one (POP); 1 is exact.
    parts: int = 1
    #: How long GPUs are given at a time.
    lease_seconds: float = 360.0
    #: Shares are decided again no more often than this.
    interval_seconds: float = 360.0
    #: Part of the GPUs that may be used at a time to learn speeds.
    profiling: float = 0.1
    #: What a preemption may cost, as a part of the time that a job runs without interruption: the job keeps
    #: its place for that time. With 0 only debts count, as in the paper.
    overhead: float = 0.05
    #: GPU model on which estimates and limits hold; empty: each job's fastest.
    reference: str = ""

    def __post_init__(self) -> None:
        if self.sharing and not (self.aware and OBJECTIVES[self.objective]().shares_gpus):
            raise ValueError(
                f"sharing needs aware=true and an objective that can share, not {self.objective}"
            )
        if self.parts < 1:
            raise ValueError("parts must be at least 1")
        if not (self.lease_seconds > 0 and self.interval_seconds >= 0):
            raise ValueError("lease_seconds must be above 0 and interval_seconds at least 0")
        for name, part in (("profiling", self.profiling), ("overhead", self.overhead)):
            if not 0 <= part <= 1:
                raise ValueError(f"{name} must be between 0 and 1")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Change places where a lease ends; else hand out what is idle."""
        if not view.jobs:
            return Decision(grants=(), keep_running=True)
        run_options = RunOptions(view, self.reference, aware=self.aware)
        rules = Rules(
            policy="gavel",
            manner=f"{self.objective} {self.aware} {self.sharing} {self.parts}",
            lease_seconds=self.lease_seconds,
            interval_seconds=self.interval_seconds,
            strict=self.objective not in WEIGHTED,
            random=not self.aware,
            profiling=self.profiling if self.aware else 0.0,
            overhead=self.overhead,
        )
        ask = partial(self._ask, view, run_options)
        decision = Rounds(view, memory, run_options, rules, ask).decision()
        return replace(decision, memory={**decision.memory, "objective": self.objective})

    def _ask(self, view: View, run_options: RunOptions) -> SolverRequest | None:
        by_tenant = self.objective in HIERARCHICAL
        sharing = self.sharing and all(map(CoLocation(view).shares, view.jobs.values()))
        solver_input = solver_input_of(view, run_options, by_tenant=by_tenant, sharing=sharing)
        if solver_input is None:
            return None
        return SolverRequest((solver_input.digest,), partial(self._solved, view, solver_input))

    def _solved(self, view: View, solver_input: SolverInput) -> TimeShares:
        instance, parts = solver_input.instance, self.parts
        options = {"aware": self.aware, "sharing": self.sharing and instance.pairs is not None}
        while True:
            try:
                solution = view.compute(solve, instance, self.objective, parts=parts, **options)
            except PartitionError:
                parts //= 2
            except SolverError:
                return _equal_parts(solver_input)
            else:
                return time_shares_of(solution, solver_input.jobs)


def _equal_parts(solver_input: SolverInput) -> TimeShares:
    """Return the share 1/m of every model for each of m jobs."""
    models, shares = solver_input.instance.models, solver_input.instance.isolated_shares()
    return {
        (job,): {model: share for model, share in zip(models, row, strict=True) if share > 0}
        for job, row in zip(solver_input.jobs, shares.tolist(), strict=True)
    }
