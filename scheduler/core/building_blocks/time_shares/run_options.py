"""The models on which each job of a view could run, its size there, and its speed; computed on demand.

Unknown facts are filled in as in `core.building_blocks.run_time`. A rate that is not a number, negative,
implausibly large or small counts as unknown, so that no job can spoil the round for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core.building_blocks.policy import View
from scheduler.core.building_blocks.run_time import relative_speeds, work_left_seconds
from scheduler.core.fitting.capacity import Capacity
from scheduler.core.fitting.demand import amount_of, demand_of, shape_in, sizes_of
from scheduler.core.model.snapshot import Job, JobId
from scheduler.core.perf.throughput import LOWEST
from scheduler.core.solvers.checking import ABSURD, NEGLIGIBLE

#: No job trains at more samples a second. Beyond, the solvers' numbers would not hold what is left of it.
MOST_RATE = 1e8
#: A rate is ignored if it is this many times another rate of the same job.
MOST_RATIO = 1 / NEGLIGIBLE


@dataclass(frozen=True, slots=True)
class RunOption:
    """A job's size and speeds on the models on which it can run here."""

    #: The size at which it is planned, in GPUs.
    gpus: int
    #: The same; a part of a GPU counts as a fraction.
    amount: float
    #: Samples a second at that size, by model.
    rates: Mapping[str, float]
    #: The same rates relative to the best.
    speeds: Mapping[str, float]
    #: Samples a second, at that size, at which its run time holds.
    unit: float


class RunOptions:
    """The run options of a view's jobs; None for a job that can run on none of its models or takes no GPUs.

    `reference` is the model on which run times hold. For a policy that is not `aware` of speeds all models
    are alike.
    """

    def __init__(self, view: View, reference: str = "", *, aware: bool = True) -> None:
        self._view, self._reference, self._aware = view, reference, aware
        self._empty = _emptied(view.capacity)
        offered = {model: self._empty.offered(model) for model in self._empty.models}
        #: GPUs by model that the view could hand out if none of its jobs ran.
        self.gpus: Mapping[str, int] = {model: gpus for model, gpus in offered.items() if gpus > 0}
        self._sizes: dict[object, tuple[int, tuple[str, ...]]] = {}
        self._known: dict[JobId, RunOption | None] = {}
        #: Jobs with equal requests and rates have equal run options.
        self._alike: dict[object, RunOption | None] = {}

    def of(self, job: Job) -> RunOption | None:
        """Return the job's run option."""
        if job.id not in self._known:
            self._known[job.id] = self._look(job)
        return self._known[job.id]

    def speed(self, job: Job, model: str) -> float:
        """Return the job's speed on the model relative to its best; for a policy that is not aware, 1
        wherever it runs.
        """
        run_option = self.of(job)
        speed = run_option.speeds.get(model, 0.0) if run_option else 0.0
        return speed if self._aware else float(speed > 0)

    def steps_left(self, job: Job) -> float:
        """Return about how many samples are left to do."""
        run_option, view = self.of(job), self._view
        assert run_option is not None
        running, default = view.running.get(job.id), view.default_time_limit_seconds
        seconds = work_left_seconds(believed(job), running, view.now, default, self._reference)
        return min(seconds * run_option.unit * job.gpus / run_option.gpus, ABSURD)

    def _look(self, job: Job) -> RunOption | None:
        shape = shape_in(self._empty.cluster, job)
        alike = shape, *job.throughput.items()
        if alike not in self._alike:
            if shape not in self._sizes:
                self._sizes[shape] = self._fitting(job)
            size, models = self._sizes[shape]
            self._alike[alike] = self._run_option(job, size, models) if models else None
        return self._alike[alike]

    def _fitting(self, job: Job) -> tuple[int, tuple[str, ...]]:
        """Return the largest size at which the gang fits anywhere, and the models on which that size fits."""
        if job.is_without_gpus:
            return 0, ()
        cluster = self._empty.cluster
        accepted = [model for model in self.gpus if not job.gpu_models or model in job.gpu_models]
        for size in sizes_of(job):
            models = [m for m in accepted if self._empty.find(demand_of(job, cluster, size, m)) is not None]
            if models:
                return size, tuple(models)
        return 0, ()

    def _run_option(self, job: Job, gpus: int, models: Sequence[str]) -> RunOption | None:
        known = believed(job)
        speeds = relative_speeds(known, models, self._reference)
        best = max([speeds[model] for model in models])
        if best <= 0:
            return None
        stated = [rate for rate in known.throughput.values() if rate > 0]
        # The rate that is speed 1, at the job's own size; one sample a second where no rate is known.
        unit = (known.throughput.get(self._reference) or max(stated)) if stated else 1.0
        unit *= gpus / job.gpus
        running = {model: speeds[model] for model in models if speeds[model] > 0}
        return RunOption(
            gpus=gpus,
            amount=amount_of(job, gpus),
            rates={model: speed * unit for model, speed in running.items()},
            speeds={model: speed / best for model, speed in running.items()},
            unit=unit,
        )


def believed(job: Job) -> Job:
    """Return the job with only its plausible rates."""
    rates = {
        model: rate for model, rate in job.throughput.items() if rate == 0 or LOWEST <= rate <= MOST_RATE
    }
    most = max(rates.values(), default=0.0)
    rates = {model: rate for model, rate in rates.items() if rate == 0 or rate * MOST_RATIO >= most}
    return job if len(rates) == len(job.throughput) else replace(job, throughput=rates)


def _emptied(capacity: Capacity) -> Capacity:
    """Return what the view could hand out if none of its own jobs ran."""
    empty = capacity.pinning(())
    for holding in list(empty.pending.values()):
        empty.drop(holding)
    return empty
