"""Shortest remaining time first: higher priority first, then least expected time to run; preemptive.

L. Schrage, "A Proof of the Optimality of the Shortest Remaining Processing Time Discipline", Operations
Research 16(3), 1968. With `by_service` the remaining time counts times the GPUs of the gang: shortest
remaining service first (SRSF), the clairvoyant yardstick of Tiresias (NSDI'19, section 2.3). Deviations:

- Preemption is not free here: `hysteresis` times its preemption cost is taken off a running job's time. With
  1 a job is preempted only where the sum of completion times gains: for a newcomer of r seconds and a running
  job of R seconds and cost c, going first gains R - (r + c).
- The remaining time is the estimate, else the time limit, else the default limit of the view, less the time
  that it had GPUs, in which it may also have started, restored or lost work. A job that outlives it counts as
  about to end, and is not preempted for a longer one.
- For a running job this is the time on its model. For a waiting job it is the time on the view's model on
  which the job is fastest, since the model is known only after placement.
- A gang that does not fit is passed by longer ones that do.
- Long jobs starve on an endless stream of short ones; that is the rule, and it has no aging.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.building_blocks.ordering import serve_in_order
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import seconds_to_run, terms_of_ranks
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Srtf:
    """Order of expected remaining time, or service, within priorities."""

    #: Among jobs that are alike the earlier starts first; jobs without room change nothing.
    by_arrival: ClassVar[bool] = True

    #: Weigh the remaining time with the GPUs of the gang (SRSF).
    by_service: bool = False
    #: A running job is ahead by this many times its preemption cost.
    hysteresis: float = 1.0

    def __post_init__(self) -> None:
        if not self.hysteresis >= 0:
            raise ValueError(f"hysteresis is {self.hysteresis:g}; it must be at least 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Grant the jobs that end soonest, if need be on the GPUs of others."""

        def rank(job: Job) -> tuple[int, float, bool, float, JobId]:
            running = view.running.get(job.id)
            left = seconds_to_run(job, running, view)
            if running is not None:
                left -= self.hysteresis * job.preemption_cost_seconds
            if self.by_service:
                left *= amount_of(job)
            return -job.priority, left, running is None, job.submitted_at, job.id

        outcome = serve_in_order(view, rank, terms=terms_of_ranks(self, view))
        return outcome.decision(outcome.reasons(_MORE_LEFT))


_MORE_LEFT = Reason(
    code="less_left_first",
    tier=Tier.ORDER,
    message="Jobs with less left to run go before it.",
    hint="A shorter estimate or time limit moves it forward.",
)
