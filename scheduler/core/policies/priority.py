"""Higher priority first, preempting lower ones; first in, first out among equals.

What HiveD (OSDI 2020, section 2) assumes inside a virtual cluster: a job may take the GPUs of its own virtual
cluster's jobs of lower priority, and of no others. Equals never preempt one another: the running ones go on,
and the others are tried by submission. A job that was preempted keeps its place among those that wait.
Deviations:

- A gang that does not fit is passed by those behind it; with `strict` no job behind it starts, so that a
  large gang cannot starve, while GPUs that it cannot use stay idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.building_blocks.ordering import Outcome, serve_in_order
from scheduler.core.building_blocks.policy import View
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """Order of priority, then of submission; lower priorities give way."""

    #: Among jobs that are alike the earlier starts first; jobs without room change nothing.
    by_arrival: ClassVar[bool] = True

    #: Nothing starts behind the first gang that waits for room.
    strict: bool = False

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Grant the jobs of the highest priority, if need be on the GPUs of lower ones."""

        def rank(job: Job) -> tuple[int, bool, float, JobId]:
            return -job.priority, job.id not in view.running, job.submitted_at, job.id

        outcome = serve_in_order(view, rank, terms=self)
        head = next((job for job in outcome.queue if job not in view.running), None)
        if self.strict and head is not None:
            last = rank(view.jobs[head])
            behind = sorted([job for job in view.waiting.values() if rank(job) > last], key=rank)
            within = serve_in_order(view.without({job.id for job in behind}), rank)
            line = sorted([*within.queue, *[job.id for job in behind]], key=lambda job: rank(view.jobs[job]))
            outcome = Outcome(grants=within.grants, queue=tuple(line), stops=within.stops)
        return outcome.decision(outcome.reasons(_HIGHER_FIRST))


_HIGHER_FIRST = Reason(
    code="higher_priority_first",
    tier=Tier.ORDER,
    message="Jobs of higher priority, and earlier jobs of the same priority, come first.",
    hint="A higher priority moves it forward, and lets it preempt jobs of lower priority.",
)
