"""Shortest job first by how long jobs like it ran; the best GPUs are reserved, everything else is packed.

Q. Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU
Clusters" (PAI), NSDI 2022, sections 5.2 and 6.2 (from memory). Order: the least expected run time left, by
the jobs of the same user that train the same (`perf.recurrence`). A job that does not fit is passed by
others, and no job is preempted, as in the simulator published with the paper. *Reserving*: GPU models named
in `reserved` are kept for jobs with at least `reserved_from` GPUs in one replica, and for those that can have
no other model. *Packing*: the placer decides where the rest goes, `packing` or `kubeshare`. What we chose:

- The section on reserving and packing is followed from memory of the paper, which distinguishes high jobs
  from others by what they ask for. Its weights for GPUs, CPUs and memory are those of our placer.
- A job's own steps come before the run times of others. What was declared counts where no job like it has
  ended, then the time limit, then the default limit of its view.
- What a job executed before it was stopped is taken off. Run times of steps and those that were declared are
  those on the model of the view on which the job is fastest. How long jobs like it ran is the mean over the
  models that they had, and stands for any model, since these models are not recorded.
- Priority of our jobs comes before all of that. Long jobs may starve on an endless stream of short ones.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from scheduler.core.building_blocks.ordering import Outcome, Starts, anywhere, waiting_jobs
from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import seconds_to_run
from scheduler.core.building_blocks.service import executed_seconds
from scheduler.core.building_blocks.time_shares.run_options import RunOptions
from scheduler.core.fitting.demand import models_of
from scheduler.core.model.plan import Decision, Grant, Reason, Tier
from scheduler.core.model.snapshot import Job, JobId, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Pai:
    """Order of run times expected by recurrence, within priorities; reserved GPU models."""

    #: No job stops, moves or shares GPUs for one that starts.
    only_starts: ClassVar[bool] = True

    #: GPU models that only jobs that need them may have.
    reserved: tuple[str, ...] = ()
    #: Jobs with at least this many GPUs in one replica need them.
    reserved_from: int = 8

    #: Snapshots for this policy contain the run times of similar jobs.
    reads_recurrence: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.reserved_from < 1:
            raise ValueError(f"reserved_from is {self.reserved_from}; it must be at least 1")

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Keep what runs; start the jobs that are expected to be shortest, each on the models that it may
        have.
        """

        def rank(job: Job) -> tuple[int, float, float, JobId]:
            return -job.priority, _seconds_left(job, view), job.submitted_at, job.id

        waiting = sorted(waiting_jobs(view), key=rank)
        if not waiting:
            return Outcome().decision({})
        capacity = view.capacity.fork()
        capacity.keep_all()
        starts = Starts(capacity, anywhere)
        grants: list[Grant] = []
        queue: list[JobId] = []
        reasons: dict[JobId, tuple[Reason, ...]] = {}
        run_options = RunOptions(view) if self.reserved else None
        for job in waiting:
            others = None if run_options is None else self._others(job, view, run_options)
            started = None if starts.exhausted else starts.start(_on(job, others))
            if started is None:
                queue.append(job.id)
                reasons[job.id] = (_SHORTER,) if others is None else (self._kept(), _SHORTER)
            else:
                grant, holding = started
                grants.append(grant if others is None else replace(grant, gpu_model=holding.model))
        return Outcome(grants=tuple(grants), queue=tuple(queue)).decision(reasons)

    def _others(self, job: Job, view: View, run_options: RunOptions) -> tuple[str, ...] | None:
        """Return the models to which a job is confined; None: it may have all that it accepts.

        It is not confined to models on which its gang could never run.
        """
        if max(task.gpus for task in job.tasks) >= self.reserved_from:
            return None
        run_option = run_options.of(job)
        accepted = models_of(job, view.capacity.cluster)
        fitting = [model for model in accepted if run_option is not None and model in run_option.speeds]
        others = tuple([model for model in fitting if model not in self.reserved])
        return others if others and len(others) < len(fitting) else None

    def _kept(self) -> Reason:
        return Reason(
            code="model_reserved",
            tier=Tier.ORDER,
            message=f"{' and '.join(self.reserved)} is reserved for jobs of {self.reserved_from} or more GPUs"
            " in one replica, and for those that accept nothing else.",
            blocking={"gpu_models": list(self.reserved)},
        )


def _on(job: Job, models: Collection[str] | None) -> Job:
    return job if models is None else replace(job, gpu_models=tuple(models))


def _seconds_left(job: Job, view: View) -> float:
    if job.measured or job.usual_seconds is None:
        return seconds_to_run(job, None, view)
    return max(0.0, job.usual_seconds - executed_seconds(job, None, view.now))


_SHORTER = Reason(
    code="shorter_first",
    tier=Tier.ORDER,
    message="Jobs that are expected to run for a shorter time, as jobs like them did, go before it.",
    hint="A job of which none like it has ended counts with its estimate, else its time limit.",
)
