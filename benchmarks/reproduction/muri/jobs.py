"""A job of the published simulator, the cluster's nodes, and which instants are one event."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler.core.perf.interleaving import ALONE, Stages
from scheduler.simulation.errors import InputError

#: Instants relatively as near as this are one event.
_ONE_EVENT = 1e-9
#: By model: seconds without progress at every event, on 1, 2, 4, 8, 16 and 32 GPUs.
_PAUSES: Mapping[str, Sequence[int]] = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "bert": (10, 10, 10, 10, 10, 10),
    "gpt2": (10, 10, 10, 10, 10, 10),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
_OTHER_PAUSE = 10


@dataclass(slots=True, eq=False)
class MuriJob:
    """A job and its state; times in seconds from the trace's beginning."""

    number: int
    submitted_at: float
    gpus: int
    iteration_seconds: float
    stages: Stages
    #: Without progress, at every event while it runs.
    pause_seconds: int
    #: As the trace has it; the iterations decide.
    duration_seconds: float
    iterations_left: float
    running: bool = False
    #: Up to when its progress is counted.
    counted_at: float = 0.0
    executed_seconds: float = 0.0
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a trace."""

    #: Completion time in seconds, by job, in the order of the trace.
    completion_seconds: Mapping[int, float]
    makespan_seconds: float
    #: Scheduling decisions, and at how many of them jobs shared GPUs.
    events: int
    sharing_events: int = 0
    #: The largest group of jobs that ever shared GPUs.
    largest_group: int = 1

    @property
    def mean_seconds(self) -> float:
        return sum(self.completion_seconds.values()) / len(self.completion_seconds)

    @property
    def p99_seconds(self) -> float:
        return sorted(self.completion_seconds.values())[int(len(self.completion_seconds) * 0.99)]


class Nodes:
    """Free GPUs of equal nodes. A job is on the first node with room, or on whole nodes and a part of one."""

    def __init__(self, nodes: int, gpus_per_node: int) -> None:
        self.gpus = nodes * gpus_per_node
        self._per_node = gpus_per_node
        self._free = [gpus_per_node] * nodes

    def clear(self) -> None:
        self._free = [self._per_node] * len(self._free)

    def place(self, gpus: int) -> bool:
        """Take the GPUs if there is room; return whether there was."""
        whole, rest = (0, gpus) if gpus <= self._per_node else divmod(gpus, self._per_node)
        idle = [node for node, free in enumerate(self._free) if free == self._per_node][:whole]
        if len(idle) < whole:
            return False
        last = [node for node, free in enumerate(self._free) if rest and free >= rest and node not in idle]
        if rest and not last:
            return False
        for node in idle:
            self._free[node] = 0
        if rest:
            self._free[last[0]] -= rest
        return True


def read_trace(path: Path, *, limit: int | None = None) -> list[MuriJob]:
    """Return the jobs of a trace by submission, the first `limit` rows of it; raise InputError."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))[:limit]
        jobs = [_job(number, row) for number, row in enumerate(rows)]
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from None
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(f"{path.name} is no trace of Muri's: {error}") from None
    if not jobs:
        raise InputError(f"{path.name} has no jobs")
    return sorted(jobs, key=lambda job: job.submitted_at)


def arrivals_of(jobs: Sequence[MuriJob]) -> list[tuple[float, list[MuriJob]]]:
    """Return when jobs arrive, and which, jobs by submission."""
    arrivals: list[tuple[float, list[MuriJob]]] = []
    for job in jobs:
        if arrivals and math.isclose(arrivals[-1][0], job.submitted_at, rel_tol=_ONE_EVENT):
            arrivals[-1][1].append(job)
        else:
            arrivals.append((job.submitted_at, [job]))
    return arrivals


def next_end(running: Sequence[MuriJob], ends: Sequence[float]) -> tuple[float, list[MuriJob]]:
    """Return when the next of those that run ends, and who ends then; infinite and nobody if none runs."""
    soonest = min(ends, default=math.inf)
    near = [
        (end, job)
        for end, job in zip(ends, running, strict=True)
        if math.isclose(end, soonest, rel_tol=_ONE_EVENT)
    ]
    return (near[0][0], [job for _, job in near]) if near else (math.inf, [])


def check_sizes(jobs: Sequence[MuriJob], nodes: Nodes) -> None:
    """Raise InputError for a job that has no room on the whole cluster."""
    for job in jobs:
        nodes.clear()
        if not nodes.place(job.gpus):
            raise InputError(f"job {job.number} asks for {job.gpus} GPUs, and there are {nodes.gpus} in all")
    nodes.clear()


def _job(number: int, row: Mapping[str, str]) -> MuriJob:
    gpus = int(row["num_gpu"])
    pauses = _PAUSES.get(row["model_name"])
    storage, gpu, network = [float(row[f"resource_time_{kind}"]) / 1000 for kind in range(3)]
    return MuriJob(
        number=number,
        submitted_at=int(row["submit_time"]) / 1000,
        gpus=gpus,
        iteration_seconds=int(row["iteration_time"]) * ALONE / 1000,
        stages=(storage, gpu, network),
        pause_seconds=_OTHER_PAUSE if pauses is None else pauses[gpus.bit_length() - 1],
        duration_seconds=float(row["duration"]) / 1000,
        iterations_left=float(row["iterations"]),
    )
