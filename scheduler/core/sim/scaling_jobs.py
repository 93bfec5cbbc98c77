"""Simulated jobs that progress by a measured profile: their batches, epochs and measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from scheduler.core.goodput.batch import GoodputModel, Noise
from scheduler.core.goodput.fit import Measurement, fit
from scheduler.core.goodput.throughput import Parameters
from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.model.snapshot import ADAPTIVE, Job, JobId, Running
from scheduler.core.model.training import Goodput
from scheduler.core.round.facts import Facts
from scheduler.core.sim.event_queue import EventQueue
from scheduler.core.sim.progress import Attempt, Progress
from scheduler.core.sim.scaling import Placement, Scaling, divided, progress_per_second
from scheduler.core.sim.workload import Truth

#: What the scheduler knows about scaling: what jobs measured so far, as live, or all measurements.
GoodputFacts = Literal["measured", "true"]

#: A batch changes while the job stays in place only for more than this predicted gain, as in
#: `allot.training`.
LEAST_GAIN = 1.05
#: The most per-GPU batches that are measured on equally many nodes and replicas; more add hardly anything.
_BATCHES = 4


@dataclass(slots=True)
class _State:
    scaling: Scaling
    #: Whether it times itself and chooses its batch.
    is_adaptive: bool
    is_elastic: bool
    most_replicas: int
    epoch: int = 0
    #: Empty while it has no GPUs.
    placement: Placement = ()
    gpu_model: str = ""
    local_batch: int = 0
    accumulation: int = 0
    noise: Noise | None = None
    #: The first measurement by (nodes, replicas, per-GPU batch).
    measured: dict[tuple[int, int, int], Measurement] = field(default_factory=dict)
    parameters: Parameters | None = None
    #: The number of measurements behind the parameters.
    fitted: int = 0

    def model(self) -> GoodputModel | None:
        if self.parameters is None or self.noise is None:
            return None
        return GoodputModel(self.parameters, self.noise, self.scaling.limits(self.most_replicas))

    def choose_batch(self, *, is_new_place: bool) -> bool:
        """Choose per-GPU batch and accumulation for the present placement; return whether they changed."""
        scaling, replicas, nodes = self.scaling, sum(self.placement), len(self.placement)
        application, model = scaling.application, self.model()
        before = self.local_batch, self.accumulation
        if scaling.batch is not None:
            chosen = divided(application, scaling.batch, replicas)
        elif model is None:
            chosen = divided(
                application, max(application.initial_batch, application.min_local_batch * replicas), replicas
            )
        else:
            best = model.best(nodes, replicas)
            chosen = int(best.local_batch), int(best.accumulation)
            if not is_new_place and model.goodput(nodes, replicas, *before) * LEAST_GAIN >= best.goodput:
                chosen = before
        self.local_batch, self.accumulation = chosen
        return chosen != before

    def speed(self) -> float:
        """Return the part of its work that is done in a second."""
        scaling = self.scaling
        progress = progress_per_second(
            scaling.application, self.placement, self.local_batch, self.accumulation, self.epoch
        )
        return progress / scaling.ends[-1]


class ScalingJobs:
    """The jobs with a profile, and the progress of each.

    `change_speed` is called when the speed of a running job changes.
    """

    def __init__(
        self,
        facts: Callable[[], Facts],
        progress: Mapping[JobId, Progress],
        events: EventQueue,
        *,
        known: GoodputFacts,
        change_speed: Callable[[JobId], None],
    ) -> None:
        self._facts, self._progress, self._events = facts, progress, events
        self._known, self._change_speed = known, change_speed
        self._states: dict[JobId, _State] = {}
        self._running: set[JobId] = set()
        #: Fits by measurements, because jobs of one application begin with the same ones.
        self._fits: dict[tuple[Measurement, ...], Parameters] = {}

    def add(self, job: Job, truth: Truth) -> Job:
        """Add a job; return it with what is known of its scaling."""
        if truth.scaling is None:
            return job
        application = truth.scaling.application
        state = self._states[job.id] = _State(
            truth.scaling,
            is_adaptive=truth.scaling.batch is None and job.elastic_mode == ADAPTIVE,
            is_elastic=job.elastic is not None,
            most_replicas=job.elastic[1] if job.elastic else job.gpus,
        )
        state.noise = Noise(*application.noise(truth.scaling.batch or application.initial_batch, 0))
        if self._known == "true":
            state.parameters = self._fitted(tuple(application.measurements()))
            if state.is_elastic:
                models = job.gpu_models or tuple(self._facts().cluster.models)
                return replace(job, goodput=self._goodput(state, models, state.most_replicas))
        return job

    def begin(self, job: JobId, running: Running) -> None:
        """Note that an attempt of the job begins on these GPUs."""
        state = self._states.get(job)
        if state is None:
            return
        self._running.add(job)
        cluster = self._facts().cluster
        on_node: dict[int, int] = {}
        for gpu in running.gpus:
            number = cluster.where[gpu][1]
            on_node[number] = on_node.get(number, 0) + 1
        state.placement = tuple([on_node[number] for number in sorted(on_node)])
        state.gpu_model = running.gpu_model
        progress = self._progress[job]
        state.epoch = state.scaling.epoch_at(
            progress.done_seconds(self._events.now) / progress.truth.work_seconds
        )
        state.choose_batch(is_new_place=True)

    def end(self, job: JobId) -> None:
        """Note that the job's attempt has ended."""
        if job in self._running:
            self._running.discard(job)
            self._look(job)

    def rate(self, job: JobId) -> float | None:
        """Return the seconds of reference work done in a second; None for a job without a profile."""
        state = self._states.get(job)
        return None if state is None else state.speed() * self._progress[job].truth.work_seconds

    def report(self) -> None:
        """Pass the running jobs' own measurements to the scheduler."""
        for job in sorted(self._running):
            if self._look(job) and self._states[job].choose_batch(is_new_place=False):
                self._change_speed(job)

    def schedule_epoch(self, job: JobId) -> None:
        """Schedule the end of its present epoch."""
        state = self._states.get(job)
        if state is None or state.epoch + 1 >= len(state.scaling.ends):
            return
        progress = self._progress[job]
        attempt, counted_at = progress.present, progress.present.counted_at
        left = state.scaling.end_of(state.epoch) * progress.truth.work_seconds
        left -= progress.done_seconds(counted_at)
        instant = max(self._events.now, counted_at + max(left, 0.0) / attempt.rate)
        self._events.schedule(instant, partial(self._end_epoch, job, attempt, attempt.version))

    def _end_epoch(self, job: JobId, attempt: Attempt, version: int) -> bool:
        if attempt.version == version and attempt.state is AttemptState.RUNNING:
            state = self._states[job]
            self._time(state)
            state.epoch += 1
            state.choose_batch(is_new_place=False)
            self._change_speed(job)
        return False  # This needs no round.

    def _look(self, job: JobId) -> bool:
        """Read a job's measurements so far; return whether its choice of batch may change."""
        state, facts = self._states[job], self._facts()
        attempt = self._progress[job].attempt
        if not state.is_adaptive and self._known == "measured":
            return False
        if attempt is not None and self._events.now > attempt.counted_at:
            self._time(state)
        is_news = len(state.measured) > state.fitted and self._known == "measured"
        if is_news:
            state.fitted = len(state.measured)
            state.parameters = self._fitted(tuple(state.measured[key] for key in sorted(state.measured)))
        known = facts.jobs.get(job)
        if known is not None and state.is_elastic and state.parameters is not None:
            most = max([replicas for _, replicas, _ in state.measured], default=1)
            models = (state.gpu_model,) if known.goodput is None else tuple(known.goodput.parameters)
            if self._known == "true":
                most = state.most_replicas
            elif state.gpu_model not in models:
                models = (*models, state.gpu_model)
            goodput = self._goodput(state, models, most)
            if goodput != known.goodput:
                facts.put_job(replace(known, goodput=goodput))
        return is_news

    def _time(self, state: _State) -> None:
        """Time the present way of running, and measure the noise."""
        application = state.scaling.application
        batch = sum(state.placement) * state.local_batch * (state.accumulation + 1)
        state.noise = Noise(*application.noise(batch, state.epoch))
        key = len(state.placement), sum(state.placement), state.local_batch
        alike = [other for other in state.measured if other[:2] == key[:2]]
        if key not in state.measured and len(alike) < _BATCHES:
            step, sync = application.step_seconds(state.placement, state.local_batch)
            state.measured[key] = Measurement(*key, 0, step - sync, step)

    def _fitted(self, measured: tuple[Measurement, ...]) -> Parameters:
        if measured not in self._fits:
            self._fits[measured] = fit(measured)
        return self._fits[measured]

    @staticmethod
    def _goodput(state: _State, models: tuple[str, ...], most_replicas: int) -> Goodput:
        limits = state.scaling.limits(state.most_replicas)
        assert state.parameters is not None
        assert state.noise is not None
        return Goodput(
            parameters=dict.fromkeys(models, (*state.parameters,)),
            noise=(state.noise.squared_norm, state.noise.variance),
            initial_batch=limits.initial_batch,
            max_batch=limits.max_batch,
            min_local_batch=limits.min_local_batch,
            max_local_batch=limits.max_local_batch,
            most_replicas=most_replicas,
        )
