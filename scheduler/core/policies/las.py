"""Least attained service first: the job that has received the fewest GPU-seconds; preemptive, without run
times.

Foreground-background of L. Kleinrock, "Queueing Systems" volume 2, 1976, section 4.6, with the service of
Tiresias (NSDI'19, section 3.2): GPUs times seconds (2D-LAS, not discretised: `tiresias` has its queues).
Deviations and choices:

- Pure LAS switches between equals without end. Here service is read once a quantum, at the same instants for
  all jobs (the multiples of the quantum). An attempt's service counts only once it has run for a whole
  quantum. So jobs change places only then, or when a newcomer with less service arrives. A running job wins a
  tie in its first quantum and loses it later: equals take turns.
- Service is wall time on any model, as Tiresias counts it; work repeated after a preemption counts as well.
- A gang that does not fit is passed by others that do.
- Long jobs starve under an endless stream of newcomers; that is the rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.building_blocks.ordering import serve_in_order
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.service import INSTANT_SECONDS, attained_service
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Las:
    """Order of attained service, within priorities."""

    #: Among jobs that are alike the earlier starts first; jobs without room change nothing.
    by_arrival: ClassVar[bool] = True
    #: Equals take turns though jobs neither come nor go.
    rotates: ClassVar[bool] = True

    #: Seconds between the instants at which service is read.
    quantum_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not self.quantum_seconds > 0:
            raise ValueError("quantum_seconds must be above 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Grant the jobs that have received least; decide again when a quantum ends and a job waits."""

        looked_at = (view.now + INSTANT_SECONDS) // self.quantum_seconds * self.quantum_seconds
        whole = self.quantum_seconds - INSTANT_SECONDS

        def rank(job: Job) -> tuple[int, float, int, float, JobId]:
            running = view.running.get(job.id)
            service, turn = attained_service(job, None, view.now), 1
            if running is not None:
                seconds = looked_at - running.since_of(job.id) if running.phase == "held" else 0.0
                turn = 0 if seconds < whole else 2
                if turn:
                    service += seconds * amount_of(job, sum(map(len, running.replicas)))
            return -job.priority, service, turn, job.submitted_at, job.id

        outcome = serve_in_order(view, rank, terms=self)
        wake_at = looked_at + self.quantum_seconds if outcome.queue else None
        return outcome.decision(outcome.reasons(_MORE_SERVED), wake_at=wake_at)


_MORE_SERVED = Reason(
    code="less_served_first",
    tier=Tier.ORDER,
    message="Jobs that have received fewer GPU-seconds go before it.",
)
