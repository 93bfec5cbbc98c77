"""Pollux (OSDI'21, petuum/adaptdl, branch osdi21-artifact): workloads, with run times from measured profiles.

A workload has the columns name, time, application, num_replicas, batch_size. Each replica is one GPU, with 4
per node. The run time is that of the requested GPUs and batch size, as Pollux's baselines run the job:

    sum over epochs of (progress of the epoch / gain of an iteration in it) x seconds an iteration

This is how the artifact counts work, with each epoch rounded to a whole second. Progress is in iterations at
the smallest batch size, and an epoch ends where the measured run of least progress ended it
(validation-<batch>.csv). The gain of an iteration at scale s = batch size / smallest batch size is
(var + sqr) / (var / s + sqr) from the epoch's gradient statistics, linear between measured batch sizes. The
seconds (placements.csv, scalability.csv) are those of the placement on as few nodes as possible, linear
between measured per-GPU batch sizes. A per-GPU batch larger than any measured one is accumulated in equal
passes, of which only the last synchronises; one GPU with more than the smallest batch size makes at least two
passes. The numbers of epochs are the authors': bert 2, cifar10 100, ncf 10, imagenet 90, deepspeech2 80,
yolov3 50 (yolov3 with a batch of at most 8 per GPU and pass).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scheduler.core.model import wording
from scheduler.core.model.snapshot import ADAPTIVE, Task
from scheduler.core.sim.scaling import Scaling
from scheduler.simulation.errors import Problem, TraceError
from scheduler.simulation.profiles import EPOCHS, LARGEST_LOCAL_BATCH, NCF_BATCH, read_application
from scheduler.simulation.traces.fields import BadField, count, named, positive, seconds, shown
from scheduler.simulation.traces.options import TraceOptions
from scheduler.simulation.traces.source import Source, TracedJob

GPUS_PER_NODE = 4
#: The most GPUs of an elastic job.
MOST_GPUS = 64
_MODELS = {"cifar10": "resnet18", "imagenet": "resnet50"}
_COLUMNS = ("time", "application", "num_replicas", "batch_size")


@dataclass(frozen=True, slots=True)
class Step:
    """One measured iteration: its seconds in all, and in synchronisation."""

    batch_per_gpu: float
    step_seconds: float
    sync_seconds: float


@dataclass(frozen=True, slots=True)
class Epoch:
    """One measured epoch: the progress at its end, and the squared norm and variance of its gradient."""

    progress: float
    sqr: float
    var: float


@dataclass(frozen=True, slots=True)
class Profile:
    """The measurements of one application."""

    application: str
    #: (number of nodes, replicas) -> measurements by per-GPU batch, ascending, on as few nodes as possible.
    steps: Mapping[tuple[int, int], Sequence[Step]]
    #: Total batch size -> its epochs, ascending.
    epochs: Mapping[int, Sequence[Epoch]]
    #: The largest per-GPU batch of one pass.
    largest_pass: int

    def run_seconds(self, replicas: int, batch_size: int) -> float:
        """Return the run time with this many GPUs at this total batch size; raise BadField."""
        known = sorted(self.epochs)
        if not known[0] <= batch_size <= known[-1]:
            raise BadField(
                "batch_size",
                f"{batch_size} was not measured for {self.application}; "
                f"it must be from {known[0]} to {known[-1]}",
            )
        per_gpu = -(-batch_size // replicas)
        passes = -(-per_gpu // self.largest_pass)
        if replicas == 1 and batch_size > known[0]:
            passes = max(passes, 2)
        per_pass = min(-(-per_gpu // passes), known[-1] // (replicas * passes))
        step_seconds = self._step_seconds(replicas, per_pass, passes)
        total, done = 0.0, 0.0
        for epoch in range(len(self.epochs[known[0]])):
            ends_at = min(measured[epoch].progress for measured in self.epochs.values())
            gain = self._gain(replicas * passes * per_pass, epoch)
            total += round((ends_at - done) / gain * step_seconds)
            done = ends_at
        return total

    def _gain(self, batch_size: int, epoch: int) -> float:
        """Return the progress of an iteration, in iterations at the smallest batch size."""
        known = sorted(self.epochs)
        low = max((batch for batch in known if batch <= batch_size), default=known[0])
        high = min((batch for batch in known if batch >= batch_size), default=known[-1])
        part = (batch_size - low) / (high - low) if high > low else 0.0
        below, above = self.epochs[low][epoch], self.epochs[high][epoch]
        sqr = below.sqr + part * (above.sqr - below.sqr)
        var = below.var + part * (above.var - below.var)
        least = var * known[0] / batch_size + sqr
        # Where the gradients were too small to be measured, an iteration counts as one.
        return (var + sqr) / least if least > 0 else 1.0

    def _step_seconds(self, replicas: int, per_pass: int, passes: int) -> float:
        measured = self.steps.get((math.ceil(replicas / GPUS_PER_NODE), replicas))
        if not measured:
            sizes = sorted(replicas for nodes, replicas in self.steps)
            raise BadField(
                "num_replicas",
                f"{replicas} was not measured for {self.application}; measured were "
                f"{wording.listed([str(size) for size in sizes], 40)}",
            )
        step = _between(measured, per_pass)
        return step.step_seconds + (passes - 1) * (step.step_seconds - step.sync_seconds)


def _between(measured: Sequence[Step], batch: float) -> Step:
    """Return a step linearly between the two nearest measurements; below the first, along the first two."""
    above = next((n for n, step in enumerate(measured) if batch <= step.batch_per_gpu), None)
    if above is None or len(measured) == 1:
        return measured[-1]
    low, high = measured[max(above, 1) - 1], measured[max(above, 1)]
    part = (batch - low.batch_per_gpu) / (high.batch_per_gpu - low.batch_per_gpu)
    return Step(
        batch,
        max(0.0, low.step_seconds + part * (high.step_seconds - low.step_seconds)),
        max(0.0, low.sync_seconds + part * (high.sync_seconds - low.sync_seconds)),
    )


def read(source: Source) -> None:
    """Read a workload; the profiles are in the options' folder, or beside the workload's."""
    folder = source.options.profiles or source.path.resolve().parent.parent / "profiles"
    if not folder.is_dir():
        raise source.unusable(
            f"needs the measured profiles; there is no folder {folder.name} beside the workload's folder, "
            "and the option profiles names none"
        )
    source.notes.append("Run times are those of the requested GPUs and batch size, from measured profiles.")
    if source.options.scaling != "none":
        source.read(source.rows(_COLUMNS), partial(_profiled_job, folder, source.options))
        return
    profiles: dict[str, Profile] = {}

    def job(row: tuple[str, ...]) -> TracedJob:
        time, kind, replicas, batch_size = row
        application = named("application", kind)
        if application not in profiles:
            if application not in EPOCHS or not (folder / application).is_dir():
                raise BadField("application", f"{shown(kind)} has no profile; there are {_listed(folder)}")
            profiles[application] = read_profile(folder / application)
        gpus = count("num_replicas", replicas, "replicas")
        return TracedJob(
            seconds("time", time),
            gpus,
            profiles[application].run_seconds(gpus, count("batch_size", batch_size, "samples")),
            application=application,
        )

    source.read(source.rows(_COLUMNS), job)


def _profiled_job(folder: Path, options: TraceOptions, row: tuple[str, ...]) -> TracedJob:
    """Return a job that progresses as measured, on any GPUs.

    As in the authors' experiments, ncf has one GPU where jobs may be resized, and a fixed batch where they
    choose theirs.
    """
    time, kind, replicas, batch_size = row
    gpus, batch = count("num_replicas", replicas, "replicas"), count("batch_size", batch_size, "samples")
    job = TracedJob(seconds("time", time), gpus, 0.0, application=named("application", kind))
    if options.scaling == "rigid":
        return with_profile(job, folder, batch)
    if job.application == "ncf":
        job = job._replace(gpus=1, elastic=(1, 1))
        return with_profile(job, folder, NCF_BATCH if options.scaling == ADAPTIVE else batch)
    job = with_profile(job._replace(elastic=(1, 1), elastic_mode=options.scaling), folder, batch)
    assert job.scaling is not None
    application = job.scaling.application
    most = (job.scaling.batch or application.max_batch) // application.min_local_batch
    return job._replace(elastic=(1, max(min(most, MOST_GPUS), gpus)))


def with_profile(job: TracedJob, folder: Path, batch: int) -> TracedJob:
    """Return a job that progresses as the application that it names; raise BadField.

    It has this total batch unless it is adaptive. Its run time is that with its own GPUs on as few nodes as
    possible.
    """
    if job.application not in EPOCHS or not (folder / job.application).is_dir():
        raise BadField("application", f"{shown(job.application)} has no profile; there are {_listed(folder)}")
    measured = read_application(folder / job.application)
    if not measured.initial_batch <= batch <= measured.max_batch:
        raise BadField(
            "batch_size",
            f"{batch} was not measured for {job.application}; "
            f"it must be from {measured.initial_batch} to {measured.max_batch}",
        )
    scaling = Scaling(measured, None if job.elastic_mode == ADAPTIVE else batch)
    full, rest = divmod(job.gpus, GPUS_PER_NODE)
    packed = (GPUS_PER_NODE,) * full + ((rest,) if rest else ())
    return job._replace(
        duration_seconds=scaling.run_seconds(packed, batch),
        tasks=(Task(replicas=job.gpus, gpus=1),),
        scaling=scaling,
    )


def _listed(folder: Path) -> str:
    return wording.listed(sorted(path.name for path in folder.iterdir() if path.name in EPOCHS), 20)


def read_profile(folder: Path) -> Profile:
    """Return the measurements of the application that the folder is named after; raise TraceError."""
    steps: dict[tuple[int, int], list[Step]] = {}
    for row, line in _rows(folder / "placements.csv"):
        digits = row["placement"] or ""
        nodes, replicas = _spread(digits)
        if nodes != math.ceil(replicas / GPUS_PER_NODE) or not _is_packed(digits):
            continue
        steps.setdefault((nodes, replicas), []).append(_step(folder / "placements.csv", line, row))
    placed = frozenset(steps)
    for row, line in _rows(folder / "scalability.csv"):
        key = (int(row["num_nodes"] or 0), int(row["num_replicas"] or 0))
        if key[0] == math.ceil(key[1] / GPUS_PER_NODE) and key not in placed:
            steps.setdefault(key, []).append(_step(folder / "scalability.csv", line, row))
    epochs: dict[int, tuple[Epoch, ...]] = {}
    runs_for = EPOCHS[folder.name]
    for path in sorted(folder.glob("validation-*.csv")):
        rows = [(row, line) for row, line in _rows(path)]
        if len(rows) < runs_for:
            raise TraceError(
                Problem(path.name, 0, "", f"has {len(rows)} epochs of the {runs_for} that a job runs")
            )
        epochs[int(path.stem.split("-")[1])] = tuple(_epoch(path, line, row) for row, line in rows[:runs_for])
    if not epochs or not steps:
        raise TraceError(Problem(folder.name, 0, "", "has no placements.csv or no validation files"))
    by_batch = {
        key: tuple(sorted(found, key=lambda step: step.batch_per_gpu)) for key, found in steps.items()
    }
    measured = max(by_batch[key][-1].batch_per_gpu for key in placed)
    return Profile(folder.name, by_batch, epochs, LARGEST_LOCAL_BATCH.get(folder.name, int(measured)))


def _spread(digits: str) -> tuple[int, int]:
    """Return the numbers of nodes and of replicas: each digit is the replicas of a node."""
    return len(digits), sum(map(int, digits)) if digits.isdecimal() else 0


def _is_packed(digits: str) -> bool:
    """Return whether all nodes but one are full: "24" is 6 replicas on nodes of 4, packed; "33" is not."""
    return sum(digit != str(GPUS_PER_NODE) for digit in digits) <= 1


def _rows(path: Path) -> list[tuple[dict[str, str], int]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            return [(row, reader.line_num) for row in reader]
    except OSError as error:
        raise TraceError(Problem(path.name, 0, "", f"cannot be read: {error.strerror}")) from None


def _step(path: Path, line: int, row: Mapping[str, str]) -> Step:
    return Step(
        _positive(path, line, "local_bsz", row),
        _positive(path, line, "step_time", row),
        _positive(path, line, "sync_time", row),
    )


def _epoch(path: Path, line: int, row: Mapping[str, str]) -> Epoch:
    return Epoch(
        _positive(path, line, "progress", row),
        _measured(path, line, "grad_sqr", row, "its unit"),
        _measured(path, line, "grad_var", row, "its unit"),
    )


def _positive(path: Path, line: int, field: str, row: Mapping[str, str]) -> float:
    return _measured(path, line, field, row, "seconds or samples", positive)


def _measured(
    path: Path,
    line: int,
    field: str,
    row: Mapping[str, str],
    unit: str,
    read: Callable[[str, str, str], float] = seconds,
) -> float:
    try:
        return read(field, row.get(field) or "", unit)
    except BadField as bad:
        raise TraceError(Problem(path.name, line, bad.field, bad.message)) from None
