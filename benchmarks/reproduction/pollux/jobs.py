"""A job of the published simulator: seconds on GPUs in, progress out, and what it learns of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler.core.goodput.batch import GoodputModel, Limits, Noise
from scheduler.core.goodput.fit import Measurement, fit
from scheduler.core.goodput.throughput import Parameters
from scheduler.core.sim.scaling import Placement, divided
from scheduler.simulation.profiles import Application

#: Seconds without progress after every change of a job's nodes, its first start included.
RESCALE_SECONDS = 30
#: Per-GPU batches that are measured on as many nodes and replicas: further ones tell hardly more.
_BATCHES = 4

Fit = Callable[[tuple[Measurement, ...]], Parameters]
Nodes = tuple[int, ...]


@dataclass(slots=True, eq=False)
class TickJob:
    """A job and its state; times in seconds from the workload's beginning."""

    name: str
    application: Application
    submitted_at: float
    #: GPUs and total batch that it asks for; a batch of None is chosen by goodput.
    replicas: int
    batch: int | None
    #: The node of each replica, in the order in which they were given.
    nodes: Nodes = ()
    placement: Placement = ()
    local_batch: int = 0
    accumulation: int = 0
    #: Seconds left of a change of nodes.
    rescale: float = 0.0
    now: float = 0.0
    ended_at: float | None = None
    epoch: int = 0
    progress: float = 0.0
    #: GPU-seconds that it had.
    service: float = 0.0
    #: Changes of its nodes after the first.
    restarts: int | None = None
    #: (nodes, replicas, per-GPU batch) -> what was measured there first.
    measured: dict[tuple[int, int, int], Measurement] = field(default_factory=dict)
    parameters: Parameters | None = None
    noise: Noise | None = None
    #: Of how many measurements the parameters are.
    _fitted: int = 0
    #: The last request for the best batch, and its answer.
    _request: object = None
    _best: tuple[int, int] = (0, 0)

    @property
    def most_measured(self) -> int:
        return max([replicas for _, replicas, _ in self.measured], default=0)

    def model(self) -> GoodputModel | None:
        """Return how it scales by what was measured so far."""
        if self.parameters is None or self.noise is None:
            return None
        application = self.application
        limits = Limits(
            initial_batch=application.initial_batch,
            max_batch=application.max_batch,
            min_local_batch=application.min_local_batch,
            max_local_batch=application.max_local_batch,
        )
        return GoodputModel(self.parameters, self.noise, limits)

    def reallocate(self, nodes: Nodes) -> None:
        """Give it other nodes, or none."""
        self.nodes, placement = nodes, list[int]()
        for before, node in zip((None, *nodes), nodes, strict=False):
            if node == before:
                placement[-1] += 1
            else:
                placement.append(1)
        self.placement = tuple(placement)
        if placement:
            self.choose_batch()
            self.rescale = RESCALE_SECONDS
            self.restarts = 0 if self.restarts is None else self.restarts + 1
        else:
            self.local_batch = 0

    def choose_batch(self) -> None:
        """Choose per-GPU batch and accumulation for its nodes."""
        application, replicas = self.application, sum(self.placement)
        batch, model = self.batch, None
        if batch is None:
            model = self.model()
            if model is None:
                batch = max(application.initial_batch, application.min_local_batch * replicas)
        if model is not None:
            request = self.parameters, self.noise, len(self.placement), replicas
            if request != self._request:
                best = model.best(len(self.placement), replicas)
                self._request, self._best = request, (int(best.local_batch), int(best.accumulation))
            self.local_batch, self.accumulation = self._best
        else:
            assert batch is not None
            self.local_batch, self.accumulation = divided(application, batch, replicas)

    def run(self, seconds: float, fitted: Fit, slowdown: float) -> None:
        """Let so much time pass; a part `slowdown` of its progress is lost to interference.

        What was measured in that time is fitted at its end, of no more than four batches on as many nodes and
        replicas. The published code fits after every epoch, and all: that takes most of its time.
        """
        if not self.placement:
            self.now += seconds
            return
        replicas, application = sum(self.placement), self.application
        delay = min(self.rescale, seconds)
        self.now += delay
        self.service += delay * replicas
        self.rescale -= delay
        seconds -= delay
        while seconds > 0 and self.ended_at is None:
            step, sync = application.step_seconds(self.placement, self.local_batch)
            batch = replicas * self.local_batch * (self.accumulation + 1)
            sqr, var = application.noise(batch, self.epoch)
            gain = (var + sqr) / (var * application.initial_batch / batch + sqr)
            self._measure(step, sync, Noise(sqr, var))
            speed = gain / (step + (step - sync) * self.accumulation) * (1.0 - slowdown)
            goal = application.progress_at(self.epoch + 1)
            if self.progress + speed * seconds < goal:
                self.progress += speed * seconds
                passed = seconds
            else:
                self.epoch += 1
                passed = round((goal - self.progress) / speed)
                if self.epoch >= application.epochs_to_train:
                    self.ended_at = self.now + passed
                self.progress = goal
            self.now += passed
            self.service += passed * replicas
            seconds -= passed
            self.choose_batch()
        self.now += seconds
        if self.batch is None and len(self.measured) > self._fitted and self.ended_at is None:
            self._fitted = len(self.measured)
            self.parameters = fitted(tuple(self.measured.values()))
            self.choose_batch()

    def _measure(self, step: float, sync: float, noise: Noise) -> None:
        self.noise = noise
        key = len(self.placement), sum(self.placement), self.local_batch
        alike = [other for other in self.measured if other[:2] == key[:2]]
        if key not in self.measured and len(alike) < _BATCHES:
            self.measured[key] = Measurement(*key, 0, step - sync, step)


class RememberedFits:
    """Fits by what was measured: jobs of one application begin alike."""

    def __init__(self) -> None:
        self._known: dict[tuple[Measurement, ...], Parameters] = {}

    def __call__(self, measured: tuple[Measurement, ...]) -> Parameters:
        key = tuple(sorted(measured, key=lambda each: (each.nodes, each.replicas, each.local_batch)))
        if key not in self._known:
            self._known[key] = fit(key)
        return self._known[key]
