"""Quasi-shortest service first: higher priority first, then least expected GPU time; nothing is disturbed.

Q. Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters"
(Helios), SC 2021, section 4.2: jobs in the order of their expected run time times their GPUs, not preemptive,
each virtual cluster separately; a job that is first and does not fit blocks the others. What we chose:

- The paper's run times come from a model of each user's past jobs. Here they follow from the job's own steps,
  else its estimate, else its time limit, else the default limit of its view, less what it executed before it
  was stopped. They hold on the view's model on which the job is fastest, and a second on any model costs the
  same; the paper's clusters are ordered by seconds as well.
- With `strict` no job passes the first that does not fit, as in the paper. By default others do: large gangs
  may starve while smaller ones pass, but more of the cluster is used.
- Among jobs expected to take as much GPU time, those with fewer GPUs come first, then by submission.
- Priority of our jobs comes before all of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.building_blocks.ordering import start_in_order
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import seconds_to_run, terms_of_ranks
from scheduler.core.fitting.demand import amount_of
from scheduler.core.model.plan import Decision, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Qssf:
    """Order of expected GPU time, within priorities."""

    #: Among jobs that are alike the earlier starts first; jobs without room change nothing.
    by_arrival: ClassVar[bool] = True
    #: No job stops, moves or shares GPUs for one that starts.
    only_starts: ClassVar[bool] = True

    #: Nothing passes the first job that does not fit.
    strict: bool = False

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep what runs; start those that need the least GPU time."""

        def rank(job: Job) -> tuple[int, float, float, float, JobId]:
            seconds = seconds_to_run(job, None, view)
            return -job.priority, seconds * amount_of(job), amount_of(job), job.submitted_at, job.id

        line = view.ranked(rank, terms_of_ranks(self, view))
        outcome = start_in_order(line.jobs, view, strict=self.strict)
        return outcome.decision(outcome.reasons(_MORE))


_MORE = Reason(
    code="less_service_first",
    tier=Tier.ORDER,
    message="Jobs that are expected to need less GPU time go before it.",
    hint="A shorter estimate, a shorter time limit or fewer GPUs move it forward.",
)
