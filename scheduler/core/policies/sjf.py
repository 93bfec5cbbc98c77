"""Shortest job first: higher priority first, then least expected run time; no running job is disturbed.

The classical non-preemptive rule (R. Conway, W. Maxwell and L. Miller, "Theory of Scheduling", 1967, chapter
8), for gangs: a job that does not fit is passed by longer ones that do, unless `strict`. What we chose:

- The run time is the job's estimate, else its time limit, else the default limit of its view, less what it
  has executed already (it may have been stopped by others before). It holds on the view's model on which the
  job is fastest: the model is known only after placement, when the order is already fixed.
- `aging` is the number of seconds taken off a job's run time for every second since its submission. As all
  age alike, the order of two jobs never changes: with `aging` above 0 a job is overtaken only by jobs that
  were submitted within (its run time / aging) seconds after it.
- Starvation: on a finite workload every job runs. On an endless one a long job starves when aging is 0, and a
  large gang may starve while smaller ones pass it; with `aging` above 0 and `strict` no job starves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.building_blocks.ordering import start_in_order
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import seconds_to_run, terms_of_ranks
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Sjf:
    """Order of expected run time, within priorities."""

    #: Among jobs that are alike the earlier starts first; jobs without room change nothing.
    by_arrival: ClassVar[bool] = True
    #: No job stops, moves or shares GPUs for one that starts.
    only_starts: ClassVar[bool] = True

    #: Seconds forgiven per second since submission; 0 is the pure rule.
    aging: float = 0.0
    #: Nothing passes the first job that does not fit.
    strict: bool = False

    def __post_init__(self) -> None:
        if not self.aging >= 0:
            raise ValueError(f"aging is {self.aging:g}; it must be at least 0")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep what runs; start the shortest jobs that fit."""

        def rank(job: Job) -> tuple[int, float, float, JobId]:
            length = seconds_to_run(job, None, view)
            return -job.priority, length + self.aging * job.submitted_at, job.submitted_at, job.id

        line = view.ranked(rank, terms_of_ranks(self, view))
        outcome = start_in_order(line.jobs, view, strict=self.strict)
        return outcome.decision(outcome.reasons(_LONGER))


_LONGER = Reason(
    code="shorter_first",
    tier=Tier.ORDER,
    message="Jobs that are expected to run for a shorter time go before it.",
    hint="A shorter estimate or time limit moves it forward.",
)
