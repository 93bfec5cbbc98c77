"""Pollux: every cycle, GPUs go where all jobs together progress most, and batch sizes follow.

A. Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI'21, with
the published simulator's code (petuum/adaptdl, branch osdi21-artifact) where it is more specific than the
paper.

What is the paper's: an allocation is as good as the mean of speedups by the power p (4.2), a job's speedup
being its goodput relative to that with its fair share on one node; a restart leaves max(age - restarts·30 s,
0) / (age + 30 s) of it; at most one of the jobs over several nodes is on a node (4.2.1); a job gets at most
twice the replicas that it was ever measured with (4.1); a job that had more GPU time than a threshold weighs
less, (threshold / GPU time)^λ; its genetic search (`search: genetic`).

What is not:

- By default our own search decides (`greedy`): it finds allocations at least as good in a small part of the
  time (decision 0042, benchmarks/bench_pollux.py).
- Jobs that are not elastic take part, with speedup 1 at their own size. A job without measurements is assumed
  to scale perfectly. Weights are multiplied by 1,000 for each priority that jobs have above the lowest.
- GPUs are of several models: each model is decided separately, and a job that waits is decided on the first
  of its models on which its speed is known, else on the one with the most GPUs for each job. What runs stays
  on its model. Sizes are those that a job allows: from its least to its most, and for a fixed world its
  divisors.
- Between cycles a job that waits is started on idle GPUs, with the fewest that it can have.
- Batches are chosen by the job itself (`allot.training`), not here. Clusters do not change their size.
- CPUs and memory, and topology beyond one node, are not part of the search: where they are short a job keeps
  what it has, or is placed elsewhere with as many GPUs.
- Jobs that share GPUs stay together, and are left as they are.
- No job waits for ever: a job that has waited for `longest_wait_seconds` gets nodes before the search begins
  (`building_blocks.elastic.long_waits`); the search leaves it there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from scheduler.core.building_blocks.elastic.arrangement import Gang, Row
from scheduler.core.building_blocks.elastic.grants import (
    changes_of,
    grants_of,
    minimum_starts,
    misfits_of,
    starts_beside_parts,
    waiting_in,
)
from scheduler.core.building_blocks.elastic.long_waits import in_turn, long_waits
from scheduler.core.building_blocks.elastic.pools import Pool, pools_of
from scheduler.core.building_blocks.elastic.speedups import goodput_model_of
from scheduler.core.building_blocks.ordering import waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS, attained_service
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory
from scheduler.core.policies.pollux.solving import GENETIC, GREEDY, Cycle, solve

#: The weight of a job relative to one of the next lower priority.
PRIORITY_FACTOR = 1_000.0
#: Higher priorities than this count as this one.
_PRIORITIES = 4
#: The least age of a job, for one that has just arrived.
_LEAST_AGE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pollux:
    """Numbers of GPUs by goodput: the mean speedup over the fair share, restarts considered."""

    #: It decides itself how many GPUs an elastic job gets.
    resizes: ClassVar[bool] = True

    #: How far fairness goes before throughput: 1 is throughput alone, -1 the harmonic mean, less is fairer.
    power: float = -1.0
    #: The time between two decisions about all jobs.
    cycle_seconds: float = 60.0
    #: The assumed cost of a restart.
    restart_seconds: float = 30.0
    #: Keep jobs over several nodes off each other's nodes.
    avoid_interference: bool = True
    #: A job that had more GPU-hours than this weighs less than others, by the power below; 0: none does.
    weight_threshold_gpu_hours: float = 4.0
    weight_decay: float = 0.5
    #: A job that waits longer gets a turn of this length with its fewest GPUs; 0: no turns.
    longest_wait_seconds: float = 3600.0
    #: A job is on this many nodes at most.
    most_nodes: int = 16
    #: Which search: ours, or the published one.
    search: str = field(default=GREEDY, metadata={"choices": (GREEDY, GENETIC)})
    #: The generations of the genetic search.
    generations: int = 100
    population: int = 100

    def __post_init__(self) -> None:
        if not (self.cycle_seconds > 0 and self.restart_seconds >= 0):
            raise ValueError("cycle_seconds must be above 0 and restart_seconds at least 0")
        if not 0 <= self.longest_wait_seconds < math.inf:
            raise ValueError("longest_wait_seconds must be at least 0")
        if not -100 <= self.power <= 1:
            raise ValueError("power must be between -100 and 1")
        if self.weight_threshold_gpu_hours < 0 or self.weight_decay < 0:
            raise ValueError("weight_threshold_gpu_hours and weight_decay must be at least 0")
        if min(self.most_nodes, self.generations, self.population) < 1:
            raise ValueError("most_nodes, generations and population must be at least 1")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Decide about all jobs where a cycle ends; else start waiting ones on idle GPUs, as small as
        possible.
        """
        known: dict[str, Any] = dict(memory) if memory.get("policy") == "pollux" else {}
        next_at = known.get("at", float("-inf")) + self.cycle_seconds
        order = sorted(waiting_jobs(view), key=lambda job: _rank(job, view))
        if not (order or any(job.elastic is not None for job in view.jobs.values())):
            return Decision(grants=(), keep_running=True, memory=known)
        if view.now < next_at - INSTANT_SECONDS:
            grants = minimum_starts(view, order)
            queue = waiting_in(order, grants)
            return Decision(
                grants=grants,
                queue=queue,
                reasons=dict.fromkeys(queue, (_NEXT_CYCLE,)),
                keep_running=True,
                memory=known,
                wake_at=next_at,
            )
        return self._cycle(view, known)

    def _cycle(self, view: View, known: dict[str, Any]) -> Decision:
        pools = pools_of(view, lambda job: _rank(job, view))
        waits = long_waits(view, known, self.longest_wait_seconds)
        served: list[Job] = []
        people: dict[str, Any] = {}
        rows: list[list[Row]] = []
        for pool in pools:
            remembered = _recalled(known.get("population", {}).get(pool.gpu_model), pool)
            gangs, first = in_turn(waits, pool)
            served += first
            answer = view.compute(
                solve,
                self._request(view, pool, gangs),
                self.search,
                view.rng.getrandbits(32),
                remembered,
                self.generations,
                self.population,
            )
            rows.append(answer.rows)
            if answer.population:
                people[pool.gpu_model] = _noted(answer.population, pool)
        grants, stops = changes_of(view, pools, grants_of(view, pools, rows))
        line = sorted(view.jobs.values(), key=lambda job: _rank(job, view))
        running = view.running.keys() - set(stops)
        # The search counts GPUs of one model. A gang whose CPUs or memory are short there may run on another.
        misfits = [job for job in misfits_of(pools, rows, grants) if job.id not in view.running]
        grants += minimum_starts(view, misfits, grants, stops)
        grants += starts_beside_parts(view, line, grants, stops)
        queue = waiting_in([job for job in line if job.id not in running], grants)
        memory: dict[str, Any] = {"policy": "pollux", "at": view.now, **waits.memory(served)}
        if people:
            memory["population"] = people
        return Decision(
            grants=grants,
            queue=queue,
            reasons=dict.fromkeys(queue, (_NEXT_CYCLE,)),
            keep_running=True,
            stops=stops,
            memory=memory,
            wake_at=view.now + self.cycle_seconds,
        )

    def _request(self, view: View, pool: Pool, gangs: tuple[Gang, ...]) -> Cycle:
        jobs = pool.jobs
        priorities = sorted({job.priority for job in view.jobs.values()})
        return Cycle(
            room=pool.room,
            limit=pool.limit,
            gangs=gangs,
            models=tuple([goodput_model_of(job, pool.gpu_model) for job in jobs]),
            is_rigid=tuple([job.elastic is None for job in jobs]),
            ages=tuple([max(view.now - job.submitted_at, _LEAST_AGE_SECONDS) for job in jobs]),
            restarts=tuple([max(job.attempts - 1, 0) for job in jobs]),
            weights=tuple([self._weight(job, view, priorities) for job in jobs]),
            power=self.power,
            restart_seconds=self.restart_seconds,
            apart=self.avoid_interference,
            most_nodes=self.most_nodes,
        )

    def _weight(self, job: Job, view: View, priorities: Sequence[int]) -> float:
        level = min(priorities.index(job.priority), _PRIORITIES)
        weight = PRIORITY_FACTOR**level
        threshold = self.weight_threshold_gpu_hours * 3600.0
        service = attained_service(job, view.running.get(job.id), view.now)
        if threshold and service > threshold:
            weight *= (threshold / service) ** self.weight_decay
        return float(weight)


def _rank(job: Job, view: View) -> tuple[float, float, float, JobId]:
    """Return the order of jobs: the one that received least comes first, as in the published code."""
    service = attained_service(job, view.running.get(job.id), view.now)
    return -job.priority, service, job.submitted_at, job.id


def _noted(population: Sequence[Sequence[Row]], pool: Pool) -> list[dict[str, list[list[int]]]]:
    """Return allocations as JSON: by job, nodes and replicas."""
    return [
        {
            str(job.id): [[pool.nodes[node], replicas] for node, replicas in row.items()]
            for job, row in zip(pool.jobs, rows, strict=True)
            if row
        }
        for rows in population
    ]


def _recalled(noted: Any, pool: Pool) -> list[list[Row]]:
    """Return the noted allocations for the present jobs and nodes."""
    numbers = {int(node): number for number, node in enumerate(pool.nodes)}
    return [
        [
            {numbers[node]: count for node, count in rows.get(str(job.id), ()) if node in numbers}
            for job in pool.jobs
        ]
        for rows in noted or ()
    ]


_NEXT_CYCLE = Reason(
    code="next_cycle",
    tier=Tier.ORDER,
    message="The current cycle gives it no GPUs; all jobs are considered again in the next one.",
    hint="A job that can run on fewer GPUs (`elastic`) is given some sooner.",
)
