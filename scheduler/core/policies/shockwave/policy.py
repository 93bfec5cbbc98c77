"""Shockwave: a market in which jobs buy the coming rounds, with foresight of how their batch sizes change.

P. Zheng, R. Pan, T. Khan, S. Venkataraman and A. Akella, "Shockwave: Fair and Efficient Cluster Scheduling
for Dynamic Adaptation in Machine Learning", NSDI 2023. A job that raises its batch size runs faster from then
on, so an estimate by its present speed is too long. So the coming rounds are planned together. The objective
is the mean logarithm of the part of their epochs that jobs will have done, which is an equilibrium of equal
budgets, less a weight times the longest run that is left. No job shall end later than with the same share for
all. Where that is impossible, the utility of a job that would be late counts more, by a power of its
lateness, and the job gets early rounds. GPUs that a round leaves idle go to the jobs that run longest. The
other modules here are its parts: `regimes` (the forecast), `fairness`, `program`, `planning`. The defaults
are the authors' for 32 GPUs. Deviations and choices:

- A plan is made when a job has to wait. It is made again at the end of one of its rounds if jobs came or
  ended, a batch size or the GPUs changed, or the plan is used up. In the middle of a round no running job is
  stopped, and idle GPUs are given out at once. So even a job of high priority may wait for a round.
- Lateness counts from a job's submission. The authors divide instants that count from the beginning of their
  simulation, so that lateness shrinks the longer it runs; on a live clock no job would ever be late.
- A job's progress in a round follows from the forecast of its remaining work. The authors take the mean
  length of its epochs so far, which contradicts their forecast.
- Integers for numbers of rounds instead of binaries for each, and a rule instead of a second program for
  their order (`program`, `planning`). A running job goes on unless another is worth three times as much.
- Several GPU models, of which the paper has one: all are in one market. A gang buys rounds on each that it
  accepts, at its speed there, and runs on one at a time; its times are those on the fastest of them
  (`core.building_blocks.run_time` states the assumptions about unknown speeds, and what `reference` is). The
  uniform share is that of all GPUs among all jobs, whatever their sizes, as the authors have it.
- A job that does not report its epochs has one batch size, and its remaining time is that of its estimate,
  else of its limit.
- Higher priority first: each priority has a market of its own, in what those above it left.
- An elastic gang is planned at its own size and starts at the largest that fits.
- Among equal priorities no job starves: a job without rounds becomes late, and then later than any new one.
- The budgets are those of jobs, as in the paper; tenants and their weights count for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scheduler.core.building_blocks.fill import fill
from scheduler.core.building_blocks.ordering import start_in_order, waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import relative_speeds, runs_nowhere, start_seconds
from scheduler.core.building_blocks.service import INSTANT_SECONDS, executed_seconds, put_back
from scheduler.core.fitting.demand import amount_of, sizes_of
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.plan import Decision, Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory
from scheduler.core.policies.shockwave.bidding import Bidder, PlanningWindow
from scheduler.core.policies.shockwave.fairness import FairEnd, first_estimate
from scheduler.core.policies.shockwave.planning import plan
from scheduler.core.policies.shockwave.regimes import outlook
from scheduler.core.policies.shockwave.round_schedule import Facts, RoundSchedule, remembered

#: Planning more rounds costs more than it helps: the far future is unknown.
MOST_ROUNDS = 1_000
#: The solver takes a cost of 1e20 for infinity.
MOST_MAKESPAN_WEIGHT = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shockwave:
    """Rounds are bought in a market of all jobs; those of a higher priority buy first."""

    #: A job without rounds now gets some later, though jobs neither come nor go.
    rotates: ClassVar[bool] = True

    #: How many rounds are planned together, and how long one is.
    horizon_rounds: int = 20
    round_seconds: float = 120.0
    #: The value of shortening the longest run by a second, relative to the mean utility of a round (k in the
    #: paper).
    makespan_weight: float = 0.001
    #: The power of its lateness by which the utility of a late job counts more (lambda), and the bound: a job
    #: is late if its end is this many times as far from its submission as with equal shares.
    fairness_power: float = 12.0
    fairness_bound: float = 1.0
    #: GPU model on which estimates, limits and lengths of epochs hold; empty: each job's fastest.
    reference: str = ""
    #: The most seconds for solving one program; then the best solution so far is taken.
    solve_seconds: float = 15.0

    def __post_init__(self) -> None:
        if not 1 <= self.horizon_rounds <= MOST_ROUNDS:
            raise ValueError(f"horizon_rounds must be from 1 to {MOST_ROUNDS}")
        if not 1 <= self.round_seconds < math.inf:
            raise ValueError("round_seconds must be at least 1")
        if not 0 <= self.makespan_weight <= MOST_MAKESPAN_WEIGHT:
            raise ValueError(f"makespan_weight must be from 0 to {MOST_MAKESPAN_WEIGHT:,.0f}")
        if not 0 <= self.fairness_power < math.inf:
            raise ValueError("fairness_power must be at least 0")
        for name in ("fairness_bound", "solve_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep to the plan; make one where none holds and a job has to wait."""
        known = _Memory(view, memory if memory.get("policy") == "shockwave" else {})
        if len(view.running) == len(view.jobs):
            return Decision(grants=(), memory=known.remember(None), keep_running=True)
        needs = _Needs(view, self.reference)
        calm = start_in_order(sorted(waiting_jobs(view), key=needs.rank), view)
        if not calm.queue:
            return calm.decision({}, memory=known.remember(None))
        facts = _facts(view)
        schedule = known.plan
        if schedule is None or not schedule.holds(view.now, facts):
            schedule = self._plan(view, needs, known, facts)
        number = schedule.round_at(view.now)
        if number == schedule.begun:
            return _in_between(view, needs, schedule, known)
        return _begin_round(view, needs, replace(schedule, begun=number), known)

    def _plan(self, view: View, needs: _Needs, known: _Memory, facts: Facts) -> RoundSchedule:
        """Return a plan that begins now."""
        models = tuple([model for model, gpus in facts.gpus.items() if gpus])
        # Where jobs have parts of GPUs, everything is counted in thousandths of a GPU.
        unit = WHOLE_GPU if any(job.has_parts for job in view.jobs.values()) else 1
        share = min(1.0, max(1, sum(facts.gpus.values())) / len(view.jobs))
        known.estimate_ends(needs, share)
        window = PlanningWindow(
            gpus=tuple([facts.gpus[model] * unit for model in models]),
            rounds=self.horizon_rounds,
            round_seconds=self.round_seconds,
            uniform_share=share,
            makespan_weight=self.makespan_weight,
            fairness_bound=self.fairness_bound,
            fairness_power=self.fairness_power,
            solve_seconds=self.solve_seconds,
            levels=_levels(view, needs, known, models, share, self.fairness_bound, unit),
        )
        table = view.compute(plan, window) if window.levels else ({},) * window.rounds
        rounds = [{JobId(job): models[model] for job, model in runs.items()} for runs in table]
        return RoundSchedule(at=view.now, round_seconds=self.round_seconds, rounds=tuple(rounds), facts=facts)


def _facts(view: View) -> Facts:
    jobs, capacity = view.jobs.values(), view.capacity
    return Facts(
        batch_sizes={job.id: job.training.batch_size if job.training else 0 for job in jobs},
        gpus={model: max(0, capacity.offered(model)) for model in capacity.models},
    )


def _levels(
    view: View, needs: _Needs, known: _Memory, models: Sequence[str], share: float, bound: float, unit: int
) -> tuple[tuple[Bidder, ...], ...]:
    """Return the bidders by priority, the highest first: all jobs that can run on the view's GPUs.

    `share` is the equal share, `bound` the factor by which a job may end later than with it, and `unit` the
    number of units in a GPU.
    """
    levels: dict[int, list[Bidder]] = {}
    for job in sorted(view.jobs.values(), key=lambda job: job.id):
        seconds = needs.seconds_on(job)
        there = [seconds.get(model, math.inf) for model in models]
        left = max(min(there, default=math.inf), INSTANT_SECONDS)
        if left == math.inf:
            continue
        age, fair = max(0.0, view.now - job.submitted_at), known.fair_end_seconds(job)
        running = view.running.get(job.id)
        bidder = Bidder(
            number=job.id,
            gpus=round(amount_of(job) * unit),
            speeds=tuple([min(1.0, left / each) if each > 0 else 1.0 for each in there]),
            done=min(needs.done(job), 1.0 - INSTANT_SECONDS),
            left_seconds=left,
            due_seconds=bound * fair - age,
            lateness=(age + left / share) / fair,
            runs_on=models.index(running.gpu_model) if running and running.gpu_model in models else -1,
        )
        levels.setdefault(job.priority, []).append(bidder)
    return tuple([tuple(levels[priority]) for priority in sorted(levels, reverse=True)])


def _begin_round(view: View, needs: _Needs, schedule: RoundSchedule, known: _Memory) -> Decision:
    """Run the jobs that the plan runs now, then those that run longest; all others stop."""
    order = _in_order(view, needs, schedule)
    runs = schedule.runs_in(schedule.begun)
    candidates = [grant for job in order for grant in _candidates(job, runs.get(job.id), view)]
    granted = fill(candidates, view)
    placed = {job for grant in granted for job in grant.jobs}
    waiting = [job for job in order if job.id not in placed]
    return Decision(
        grants=tuple([grant for grant in granted if not _stays(grant, view)]),
        memory=known.remember(schedule),
        reasons={job.id: (_reason(job, needs, schedule),) for job in waiting},
        queue=tuple([job.id for job in waiting]),
        keep_running=True,
        stops=tuple([job.id for job in waiting if job.id in view.running]),
        wake_at=schedule.begins(schedule.begun + 1) if waiting else None,
    )


def _in_between(view: View, needs: _Needs, schedule: RoundSchedule, known: _Memory) -> Decision:
    """Leave running jobs alone; hand out idle GPUs."""
    waiting = [job for job in _in_order(view, needs, schedule) if job.id not in view.running]
    outcome = start_in_order(waiting, view)
    return outcome.decision(
        {job: (_reason(view.jobs[job], needs, schedule),) for job in outcome.queue},
        memory=known.remember(schedule),
        wake_at=schedule.begins(schedule.begun + 1) if outcome.queue else None,
    )


def _in_order(view: View, needs: _Needs, schedule: RoundSchedule) -> list[Job]:
    """Return all jobs: first those that the plan runs now, running ones before others, then large ones."""
    runs = schedule.runs_in(schedule.begun)

    def rank(job: Job) -> tuple[Any, ...]:
        if job.id in runs:
            return 0, -job.priority, job.id not in view.running, -job.gpus, *needs.rank(job)
        return 1, *needs.rank(job)

    return sorted(view.jobs.values(), key=rank)


def _candidates(job: Job, model: str | None, view: View) -> list[Grant]:
    """Return the job's grants to try: on the planned model first, then the alternatives."""
    running = view.running.get(job.id)
    if running is not None and (model in (None, running.gpu_model) or len(running.jobs) > 1):
        return [Grant(jobs=running.jobs, gpus=len(running.gpus))]
    planned = [Grant(jobs=(job.id,), gpus=size, gpu_model=model) for size in sizes_of(job) if model]
    if running is not None:
        return [*planned, Grant(jobs=running.jobs, gpus=len(running.gpus))]
    return [*planned, *[Grant(jobs=(job.id,), gpus=size) for size in sizes_of(job)]]


def _stays(grant: Grant, view: View) -> bool:
    """Whether the grant leaves its jobs as they are; a grant without a model keeps them in place where they
    may stay.
    """
    running = view.running.get(grant.jobs[0])
    if running is None or grant.gpu_model is not None:
        return False
    accepted = [view.jobs[job].gpu_models for job in grant.jobs]
    return all(not models or running.gpu_model in models for models in accepted)


def _reason(job: Job, needs: _Needs, schedule: RoundSchedule) -> Reason:
    """Return why the job waits."""
    if not needs.seconds_on(job):
        return runs_nowhere(job)
    first = schedule.first_round(job.id, schedule.begun)
    if first is None:
        return _NO_ROUND
    if first == schedule.begun:
        return _NO_PLACE
    minutes = math.ceil((first - schedule.begun) * schedule.round_seconds / 60)
    return Reason(
        code="later_round",
        tier=Tier.ORDER,
        message=f"In the plan of the coming rounds its own begin in {minutes} min or less.",
    )


_NO_PLACE = Reason(
    code="later_round",
    tier=Tier.ORDER,
    message="The plan runs it now, but no GPUs have come free yet that suit it.",
)
_NO_ROUND = Reason(
    code="no_round_yet",
    tier=Tier.ORDER,
    message="In the plan of the coming rounds others gain more; the later it is, the more it counts.",
    hint="An estimate of its run time, or epochs in its progress lines, improve the plan.",
)


class _Needs:
    """The work that a view's jobs have done and have left."""

    def __init__(self, view: View, reference: str) -> None:
        self._view, self._reference = view, reference
        self._models = view.capacity.models
        #: By job: seconds left by model; seconds that it has run; part of its work that is done.
        self._known: dict[JobId, tuple[dict[str, float], float, float]] = {}

    def seconds_on(self, job: Job) -> dict[str, float]:
        """Return the seconds that the job has left on each model that it runs on, alone."""
        return self._of(job)[0]

    def whole_seconds(self, job: Job) -> float:
        """Return the job's total run time where it is fastest, including what it has run, in seconds; above
        0.
        """
        seconds, run_seconds, _ = self._of(job)
        return max(run_seconds + min(seconds.values(), default=0.0), INSTANT_SECONDS)

    def done(self, job: Job) -> float:
        """Return the part of its work that is done."""
        return self._of(job)[2]

    def rank(self, job: Job) -> tuple[int, float, float, JobId]:
        """Return the rank for left-over GPUs: within priorities, the job with the longest remaining run
        first.

        A running job is ahead by its preemption cost and a round, else two equal jobs would keep swapping.
        """
        seconds = min(self.seconds_on(job).values(), default=0.0)
        if job.id in self._view.running:
            seconds += job.preemption_cost_seconds + self._view.round_seconds
        return -job.priority, -seconds, job.submitted_at, job.id

    def _of(self, job: Job) -> tuple[dict[str, float], float, float]:
        if job.id not in self._known:
            self._known[job.id] = self._by_epochs(job) or self._by_run_time(job)
        return self._known[job.id]

    def _by_epochs(self, job: Job) -> tuple[dict[str, float], float, float] | None:
        known = None if job.training is None else outlook(job.training)
        if known is None:
            return None
        speeds = relative_speeds(job, self._models, self._reference)
        open_to = {
            model: speed
            for model, speed in speeds.items()
            if speed > 0 and (not job.gpu_models or model in job.gpu_models)
        }
        seconds = {model: known.left_seconds / speed for model, speed in open_to.items()}
        return seconds, known.done_seconds / max(open_to.values(), default=1.0), known.done

    def _by_run_time(self, job: Job) -> tuple[dict[str, float], float, float]:
        view, running = self._view, self._view.running.get(job.id)
        begun = job if running is None or running.is_nominated else put_back(job, running, view.now)
        seconds = start_seconds(begun, self._models, view.default_time_limit_seconds, self._reference)
        run_seconds = executed_seconds(job, running, view.now)
        whole = run_seconds + min(seconds.values(), default=0.0)
        return seconds, run_seconds, run_seconds / whole if whole > 0 else 0.0


class _Memory:
    """What is remembered: `plan`, a `RoundSchedule`, and `fair_ends`, a `FairEnd` by job."""

    def __init__(self, view: View, memory: Memory) -> None:
        self._view = view
        self._fair_ends = {
            JobId(int(job)): FairEnd.remembered(values)
            for job, values in memory.get("fair_ends", {}).items()
            if int(job) in view.jobs
        }
        self.plan = remembered(memory["plan"]) if "plan" in memory else None

    def fair_end_seconds(self, job: Job) -> float:
        """Return the seconds from submission to the job's fair end; above 0."""
        return self._fair_ends[job.id].seconds

    def estimate_ends(self, needs: _Needs, share: float) -> None:
        """Estimate again when each job would have ended with that share."""
        now = self._view.now
        for job in self._view.jobs.values():
            estimate, before = needs.whole_seconds(job) / share, self._fair_ends.get(job.id)
            self._fair_ends[job.id] = (
                before.with_estimate(estimate, now) if before else first_estimate(estimate, now)
            )

    def remember(self, schedule: RoundSchedule | None) -> dict[str, Any]:
        """Return the memory for the next round; none when there is nothing to remember."""
        memory: dict[str, Any] = {}
        if self._fair_ends:
            memory["fair_ends"] = {
                str(job): self._fair_ends[job].to_json() for job in sorted(self._fair_ends)
            }
        if schedule is not None:
            memory["plan"] = schedule.to_json()
        return {"policy": "shockwave", **memory} if memory else {}
