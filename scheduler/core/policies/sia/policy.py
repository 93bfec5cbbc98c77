"""Sia: each round an integer program gives every job a number of GPUs of one model, by its goodput on each.

S. Jayaram Subramanya, D. Arfeen, S. Lin, A. Qiao, Z. Jia and G. R. Ganger, "Sia: Heterogeneity-aware,
goodput-optimized ML-cluster scheduling", SOSP 2023, from the paper's description. The authors' code has no
licence and was not used.

What is the paper's: rounds of a minute; short runs of new jobs on each model (3.2); configurations of one GPU
model, powers of two up to a node's size and then whole nodes (3.3); goodput by model, projected to models
without measurements (`core.goodput.gpu_models`, 3.2); the program over them with utilities, the power p, the
penalty for waiting and restart factors (3.4, `program`); twice the GPUs at most from one size to the next;
rigid jobs beside elastic ones.

What is not, or is a choice of ours:

- p = -0.5 and λ = 1.1 are from memory of the paper, which was not at hand: both are parameters. For p < 0, λ
  is above 1, as in the paper, so that running never costs a job more than waiting.
- New jobs are profiled by running there (`profiling`, which lists our choices), not in a step of their own
  before they are submitted to the policy, and on at most a part of the GPUs at a time. Until it is measured,
  a job is assumed to scale perfectly, at its declared speed on each model, and gets at most twice the
  replicas that it ever had.
- Only running jobs have a restart factor. A waiting job starts again anyway, and would otherwise wait longer
  the more often it was stopped.
- A running job's present configuration counts a thousandth more, else equal jobs might swap in every round.
- Higher priority first: each priority has a program of its own in what those above it left.
- Where a gang does not fit though there are GPUs enough, smaller ones on that model move; the paper's rule
  for places has them evicted. What still does not fit stays as it was, or runs on fewer.
- Between rounds a job that waits is started on idle GPUs, with the fewest that it can have.
- Hybrid parallel jobs are those whose replicas have several GPUs: counts are multiples of these.
- By the objective many small jobs may keep a large rigid one waiting for ever. So a job that has waited for
  `longest_wait_seconds` chooses first (`building_blocks.elastic.long_waits`), in a program of its own.
- The program ends within 1e-4 of the optimum, after 200 branches or after `solve_seconds`. Without a
  solution, the solution of the relaxation, in which jobs may have parts of configurations, is rounded
  (`program.rounding`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scheduler.core.building_blocks.elastic.grants import (
    grants_of,
    minimum_starts,
    starts_beside_parts,
    stays,
    waiting_in,
)
from scheduler.core.building_blocks.elastic.long_waits import LongWaits, long_waits
from scheduler.core.building_blocks.ordering import waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS
from scheduler.core.fitting.demand import least_gpus
from scheduler.core.model.plan import Decision, Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory
from scheduler.core.policies.sia.configurations import candidate_of
from scheduler.core.policies.sia.places import Assignment, places_of
from scheduler.core.policies.sia.profiling import Profiling, memory_of, profiled_before
from scheduler.core.policies.sia.program import Candidate, Configuration, Terms, choose

#: How often the program is solved in a round; each time without configurations that found no place.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sia:
    """Models and counts of GPUs by an integer program of goodputs, again in every round."""

    #: It decides itself how many GPUs an elastic job gets.
    resizes: ClassVar[bool] = True

    #: The power of a utility: 1 is throughput alone; below 0 the jobs with the least utility count more.
    power: float = -0.5
    #: The cost of a waiting job. For p < 0 it is above 1, the most that a job costs when it starts.
    penalty: float = 1.1
    #: The time between two decisions about all jobs.
    round_seconds: float = 60.0
    #: Seconds that a restart costs a job; 0: its measured loss, or 30 s where that is unknown.
    restart_seconds: float = 0.0
    #: A job that waits longer gets a turn of this length with its fewest GPUs; 0: no turns.
    longest_wait_seconds: float = 3600.0
    #: Part of the GPUs that may be used at a time to measure new jobs on models that they have not run on.
    profiling: float = 0.1
    #: The most seconds for solving one program; then the best solution so far is taken.
    solve_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not (-10 <= self.power <= 1 and self.power != 0):
            raise ValueError("power must be between -10 and 1, and not 0")
        for name in ("penalty", "round_seconds", "solve_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0")
        if self.power < 0 and self.penalty <= 1:
            raise ValueError(
                f"penalty is {self.penalty:g}; for a power below 0 it must be above 1,"
                " or a job could cost more while it runs than while it waits"
            )
        for name in ("restart_seconds", "longest_wait_seconds"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least 0")
        if not 0 <= self.profiling <= 1:
            raise ValueError("profiling must be between 0 and 1")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Decide about all jobs where a round ends; else start waiting ones on idle GPUs, as small as
        possible.
        """
        known: dict[str, Any] = dict(memory) if memory.get("policy") == "sia" else {}
        next_at = float(known.get("at", -math.inf)) + self.round_seconds
        if not view.jobs:
            return Decision(grants=(), keep_running=True, memory=known)
        if view.now >= next_at - INSTANT_SECONDS:
            return self._round(view, known)
        line = sorted(waiting_jobs(view), key=_rank)
        grants = minimum_starts(view, line)
        queue = waiting_in(line, grants)
        return Decision(
            grants=grants,
            queue=queue,
            reasons=dict.fromkeys(queue, (_NEXT_ROUND,)),
            keep_running=True,
            memory=known,
            wake_at=next_at,
        )

    def _round(self, view: View, known: dict[str, Any]) -> Decision:
        models = view.capacity.models
        assignment = Assignment(view, models)
        profiled = profiled_before(known, view.jobs.keys())
        candidates = {
            job.id: candidate_of(
                job, view, models, self.restart_seconds, profiled=len(profiled.get(job.id, ()))
            )
            for job in assignment.jobs
        }
        waits = long_waits(view, known, self.longest_wait_seconds)
        served = self._serve_first(waits, candidates, assignment)
        profiling = Profiling(
            view=view,
            models=models,
            room=assignment.room,
            part=self.profiling,
            round_seconds=self.round_seconds,
            before=profiled,
        )
        runs = _send(profiling, candidates, waits.kept.union([job.id for job in served]))
        terms = Terms(power=self.power, penalty=self.penalty, seconds=self.solve_seconds)
        for attempt in range(_ATTEMPTS):
            chosen = view.compute(choose, tuple(candidates.values()), assignment.room, terms)
            gpus = {
                job: (models[each.configurations[place].model], each.configurations[place].gpus)
                for (job, each), place in zip(candidates.items(), chosen, strict=True)
                if place >= 0
            }
            pools, rows = places_of(view, gpus)
            grants = grants_of(view, pools, rows)
            named = {job for grant in grants for job in grant.jobs}
            unplaced = [job for job in gpus if job not in named and job not in view.running]
            if not unplaced or attempt == _ATTEMPTS - 1:
                break
            refused = {job: chosen[place] for place, job in enumerate(candidates) if job in set(unplaced)}
            for job, place in refused.items():
                options = candidates[job].configurations
                others = options[:place] + options[place + 1 :]
                if attempt or not others:
                    # Its GPUs are there for others.
                    del candidates[job]
                else:
                    # Nodes may be too small, or too full, for it on one model and not on another.
                    candidates[job] = replace(candidates[job], configurations=others)
        remembered = waits.memory(served) | memory_of(profiled, runs, models, grants)
        return self._decision(view, grants, assignment, remembered)

    def _serve_first(
        self, waits: LongWaits, candidates: dict[JobId, Candidate], assignment: Assignment
    ) -> list[Job]:
        """Let jobs that have a turn choose first, between what they have and the fewest GPUs that they can
        have; return the jobs whose turn begins.
        """
        # Profiling runs of new jobs come just below them.
        first = max([each.priority for each in candidates.values()], default=0) + 2
        used = 0
        for number in sorted(waits.kept & candidates.keys()):
            each = candidates[number]
            there = each.configurations[each.present]
            used += there.gpus
            candidates[number] = replace(each, configurations=(there,), present=0, priority=first)

        def fewest(job: Job) -> tuple[Configuration, ...]:
            least, every = least_gpus(job), candidates[job.id].configurations
            return tuple([each for each in every if each.gpus == least <= assignment.room[each.model]])

        served = waits.within(sum(assignment.room), used, lambda job: bool(fewest(job)))
        for job in served:
            candidates[job.id] = replace(candidates[job.id], configurations=fewest(job), priority=first)
        return served

    def _decision(
        self, view: View, grants: Sequence[Grant], assignment: Assignment, remembered: dict[str, Any]
    ) -> Decision:
        line = sorted(view.jobs.values(), key=_rank)
        queue = [job for job in waiting_in(line, grants) if job not in assignment.fixed]
        stops = tuple([job for job in queue if job in view.running])
        grants = [*grants, *starts_beside_parts(view, line, grants, stops)]
        queue = [job for job in waiting_in(line, grants) if job not in assignment.fixed]
        return Decision(
            grants=tuple([grant for grant in grants if not stays(grant, view)]),
            queue=tuple(queue),
            reasons=dict.fromkeys(queue, (_LESS_GOODPUT,)),
            keep_running=True,
            stops=stops,
            memory={"policy": "sia", "at": view.now, **remembered},
            wake_at=view.now + self.round_seconds,
        )


def _send(
    profiling: Profiling, candidates: dict[JobId, Candidate], served: Collection[JobId]
) -> dict[JobId, Configuration]:
    """Let new jobs run where they are to be profiled, after the jobs served already; return their
    configurations.
    """
    taken = [0] * len(profiling.models)
    others: dict[JobId, Candidate] = {}
    for number, each in candidates.items():
        if number not in served:
            others[number] = each
            continue
        for model in {option.model for option in each.configurations}:
            taken[model] += max([option.gpus for option in each.configurations if option.model == model])
    runs = profiling.runs(others, taken)
    first = max([each.priority for each in others.values()], default=0) + 1
    for number, run in runs.items():
        # As its present configuration, so that it is not worth less than waiting.
        candidates[number] = replace(candidates[number], configurations=(run,), present=0, priority=first)
    return runs


def _rank(job: Job) -> tuple[int, float, JobId]:
    return -job.priority, job.submitted_at, job.id


_LESS_GOODPUT = Reason(
    code="less_goodput",
    tier=Tier.ORDER,
    message="Other jobs make more of the GPUs in this round; all jobs are considered again in the next.",
    hint="A job that can run on fewer GPUs (`elastic`), or on more GPU models, gets some sooner.",
)
_NEXT_ROUND = Reason(
    code="next_cycle",
    tier=Tier.ORDER,
    message="No idle GPUs suit it; all jobs are considered again when the policy's next round begins.",
    hint="A job that can run on fewer GPUs (`elastic`) is given some sooner.",
)
