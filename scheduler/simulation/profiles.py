"""Pollux's measured profiles of applications, and estimates where nothing was measured.

Each application has a folder, as in petuum/adaptdl (branch osdi21-artifact, simulator/traces), with iteration
times by placement and by number of nodes, and epochs by total batch.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from scheduler.core.goodput.fit import Measurement, fit
from scheduler.core.goodput.throughput import Parameters, gradient_seconds, iteration_seconds
from scheduler.core.sim.scaling import Placement
from scheduler.simulation.errors import InputError

if TYPE_CHECKING:
    from scipy.interpolate import LinearNDInterpolator

#: The number of epochs after which the authors consider an application trained.
EPOCHS: Mapping[str, int] = {
    "bert": 2,
    "cifar10": 100,
    "ncf": 10,
    "imagenet": 90,
    "deepspeech2": 80,
    "yolov3": 50,
}
#: The batch of the one application whose batch and GPUs the authors fix under Pollux.
NCF_BATCH = 32768
LARGEST_LOCAL_BATCH: Mapping[str, int] = {"yolov3": 8}
#: The most nodes of a measured placement.
_MOST_NODES = 16


@dataclass(frozen=True, slots=True)
class Epoch:
    """A measured epoch: progress and iterations at its end, squared norm and variance of the gradient."""

    progress: float
    iterations: int
    sqr: float
    var: float


@dataclass(slots=True)
class Application:
    """Measured iterations and epochs; answers are cached."""

    name: str
    epochs_to_train: int
    min_local_batch: int
    max_local_batch: int
    #: By total batch, ascending.
    epochs: Mapping[int, Sequence[Epoch]]
    #: By placement, its digits as a number: per-GPU batches, and seconds of an iteration and of
    #: synchronising.
    placements: Mapping[int, tuple[list[float], list[tuple[float, float]]]]
    _between: LinearNDInterpolator
    #: Every measured iteration, for estimates beyond all of them.
    _measurements: tuple[Measurement, ...] = ()
    _steps: dict[tuple[Placement, int], tuple[float, float]] = field(default_factory=dict)
    _noise: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)

    @property
    def initial_batch(self) -> int:
        return min(self.epochs)

    @property
    def max_batch(self) -> int:
        return max(self.epochs)

    def progress_at(self, epoch: int) -> float:
        """Return the progress at the end of this many epochs: the least of all batches."""
        return 0.0 if epoch == 0 else min(measured[epoch - 1].progress for measured in self.epochs.values())

    def iterations_at(self, batch: int, epoch: int) -> float:
        """Return the iterations after an epoch, linear between measured batches."""
        low, high, _ = self._around(batch)
        below, above = self.epochs[low][epoch].iterations, self.epochs[high][epoch].iterations
        return below if low == high else ((batch - low) * above + (high - batch) * below) / (high - low)

    def noise(self, batch: int, epoch: int) -> tuple[float, float]:
        """Return squared norm and variance of the gradient in an epoch, linear between measured batches."""
        if (batch, epoch) not in self._noise:
            low, high, part = self._around(batch)
            below, above = self.epochs[low][epoch], self.epochs[high][epoch]
            self._noise[batch, epoch] = (
                below.sqr + part * (above.sqr - below.sqr),
                below.var + part * (above.var - below.var),
            )
        return self._noise[batch, epoch]

    def step_seconds(self, placement: Placement, local_batch: int) -> tuple[float, float]:
        """Return the seconds of an iteration, and how many of them are spent in synchronising.

        For a measured placement, up to the order of its nodes in a ring, they are interpolated linearly
        between per-GPU batches; for another, between nodes, replicas and per-GPU batches.
        """
        placement = min(placement[turn:] + placement[:turn] for turn in range(len(placement)))
        key = placement, local_batch
        if key not in self._steps:
            self._steps[key] = self._step_seconds(placement, local_batch)
        return self._steps[key]

    def measurements(self) -> Sequence[Measurement]:
        """Return all ways of running that were timed."""
        return self._measurements

    def _step_seconds(self, placement: Placement, local_batch: int) -> tuple[float, float]:
        # Each node is one digit, since no node was measured with ten replicas or more.
        digits = int("".join(map(str, placement))) if max(placement) < 10 else 0
        known = self.placements.get(digits)
        if known is not None and known[0][0] <= local_batch <= known[0][-1]:
            batches, seconds = known
            step, sync = (np.interp(local_batch, batches, column) for column in zip(*seconds, strict=True))
        else:
            nodes = min(len(placement), _MOST_NODES)
            step, sync = self._between([nodes, sum(placement), local_batch])[0]
        if not step > 0:
            return self._beyond(len(placement), sum(placement), local_batch)
        return float(step), float(sync)

    def _beyond(self, nodes: int, replicas: int, local_batch: int) -> tuple[float, float]:
        """Return what the throughput model predicts that was fitted to all measurements."""
        if not self._measurements:
            raise InputError(f"{self.name}: nothing was measured near {replicas} replicas on {nodes} nodes")
        parameters = _fitted(self._measurements)
        step = float(iteration_seconds(parameters, nodes, replicas, local_batch))
        return step, max(step - float(gradient_seconds(parameters, local_batch)), 0.0)

    def _around(self, batch: int) -> tuple[int, int, float]:
        low = max((known for known in self.epochs if known <= batch), default=None)
        high = min((known for known in self.epochs if known >= batch), default=None)
        if low is None or high is None:
            raise InputError(f"{self.name}: a batch of {batch} is outside of what was measured")
        return low, high, (batch - low) / (high - low) if high > low else 0.0


@cache
def read_application(folder: Path) -> Application:
    """Return the application that the folder is named after; raise InputError."""
    name = folder.name
    if name not in EPOCHS or not folder.is_dir():
        raise InputError(f"{name}: there is no such profile; there are {', '.join(sorted(EPOCHS))}")
    placed: dict[int, list[tuple[float, tuple[float, float]]]] = {}
    near: dict[tuple[float, ...], list[tuple[float, float]]] = {}
    for row in _rows(folder / "placements.csv"):
        digits, batch = row["placement"], float(row["local_bsz"])
        seconds = float(row["step_time"]), float(row["sync_time"])
        placed.setdefault(int(digits), []).append((batch, seconds))
        near.setdefault((len(digits), sum(map(int, digits)), batch), []).append(seconds)
    points = [(*key, *np.mean(near[key], axis=0)) for key in sorted(near)]
    for row in _rows(folder / "scalability.csv"):
        columns = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
        point = tuple([float(row[column]) for column in columns])
        points.append(point)
        near.setdefault(point[:3], []).append((point[3], point[4]))
    epochs: dict[int, tuple[Epoch, ...]] = {}
    for path in folder.glob("validation-*.csv"):
        epochs[int(path.stem.split("-")[1])] = tuple(
            [
                Epoch(
                    float(row["progress"]),
                    int(float(row["iteration"])),
                    float(row["grad_sqr"]),
                    float(row["grad_var"]),
                )
                for row in _rows(path)
            ]
        )
    if not epochs or not points:
        raise InputError(f"{name}: its folder has no measured epochs or no measured iterations")
    # This import takes half of the simulator's start-up time, and most runs read no profile.
    from scipy.interpolate import LinearNDInterpolator

    batches = [batch for rows in placed.values() for batch, _ in rows]
    table = np.array(points)
    return Application(
        name=name,
        epochs_to_train=EPOCHS[name],
        min_local_batch=int(min(batches)),
        max_local_batch=LARGEST_LOCAL_BATCH.get(name, int(max(batches))),
        epochs=dict(sorted(epochs.items())),
        placements={
            key: ([batch for batch, _ in sorted(rows)], [seconds for _, seconds in sorted(rows)])
            for key, rows in placed.items()
        },
        _between=LinearNDInterpolator(table[:, :3], table[:, 3:]),
        _measurements=tuple(
            [
                Measurement(
                    nodes=int(nodes),
                    replicas=int(replicas),
                    local_batch=int(batch),
                    accumulation=0,
                    gradient_seconds=mean(step - sync for step, sync in found),
                    iteration_seconds=mean(step for step, _ in found),
                )
                for (nodes, replicas, batch), found in sorted(near.items())
            ]
        ),
    )


@lru_cache(maxsize=64)
def _fitted(measurements: tuple[Measurement, ...]) -> Parameters:
    return fit(measurements)


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from None
