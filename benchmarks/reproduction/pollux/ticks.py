"""The published simulator's ticks: every job runs on where it is, then everyone's nodes are decided.

Whatever happens, happens at the next tick: a job starts no sooner, and the GPUs of one that ended are idle
until then. A change of a job's nodes costs it 30 s, in which it has its GPUs and makes no progress.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.reproduction.pollux.jobs import Nodes, RememberedFits, TickJob
from scheduler.simulation.errors import InputError
from scheduler.simulation.profiles import NCF_BATCH, read_application


class TickPolicy(Protocol):
    """Decides the nodes of everyone, every tick."""

    @property
    def chooses_batch(self) -> bool:
        """Whether jobs choose their batches, instead of those that they ask for."""
        ...

    def decide(self, jobs: Sequence[TickJob], room: Sequence[int], now: float) -> Mapping[str, Nodes]:
        """Return by name the node of each replica of the jobs that get any."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a workload."""

    #: Completion time in seconds, by job, in the order of the workload.
    completion_seconds: Mapping[str, float]
    ticks: int
    #: Changes of nodes after a job's first ones, of all jobs.
    restarts: int
    #: Processor time of everything, and of decisions alone.
    elapsed_seconds: float
    decide_seconds: float

    @property
    def mean_seconds(self) -> float:
        return sum(self.completion_seconds.values()) / len(self.completion_seconds)


def read_workload(
    path: Path, profiles: Path, *, chooses_batch: bool, limit: int | None = None
) -> list[TickJob]:
    """Return the jobs of a workload file, the first `limit` of them; raise InputError."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))[:limit]
        jobs = []
        for row in rows:
            batch = NCF_BATCH if row["application"] == "ncf" else None
            jobs.append(
                TickJob(
                    name=row["name"],
                    application=read_application(profiles / row["application"]),
                    submitted_at=float(row["time"]),
                    replicas=int(row["num_replicas"]),
                    batch=batch if chooses_batch else int(row["batch_size"]),
                )
            )
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from None
    except (KeyError, ValueError) as error:
        raise InputError(f"{path.name} is no workload of Pollux's: {error}") from None
    if not jobs:
        raise InputError(f"{path.name} has no jobs")
    return jobs


def run_ticks(
    jobs: Sequence[TickJob],
    policy: TickPolicy,
    *,
    nodes: int = 16,
    gpus_per_node: int = 4,
    interval_seconds: int = 60,
    interference: float = 0.0,
    on_tick: Callable[[float, Sequence[TickJob]], None] = lambda now, jobs: None,
) -> Outcome:
    """Run until the last job has ended; return completion times.

    `interference`: what part of its progress a job over several nodes loses where another such job is on one
    of them.
    """
    room, fits = [gpus_per_node] * nodes, RememberedFits()
    began, deciding, now, ticks = time.process_time(), 0.0, 0.0, 0
    left = list(jobs)
    while left:
        crowded = _crowded(left) if interference else frozenset()
        for job in left:
            is_slow = bool(crowded) and len(set(job.nodes)) > 1 and not crowded.isdisjoint(job.nodes)
            job.run(interval_seconds, fits, interference if is_slow else 0.0)
        now += interval_seconds
        ticks += 1
        left = [job for job in left if job.ended_at is None]
        active = [job for job in left if job.submitted_at <= now]
        if active:
            instant = time.process_time()
            decided = policy.decide(active, room, now)
            deciding += time.process_time() - instant
            for job in active:
                nodes_of = decided.get(job.name, ())
                if nodes_of != job.nodes:
                    job.reallocate(nodes_of)
        on_tick(now, active)
    return Outcome(
        completion_seconds={job.name: (job.ended_at or now) - job.submitted_at for job in jobs},
        ticks=ticks,
        restarts=sum([job.restarts or 0 for job in jobs]),
        elapsed_seconds=time.process_time() - began,
        decide_seconds=deciding,
    )


def _crowded(jobs: Sequence[TickJob]) -> frozenset[int]:
    """Return the nodes on which two jobs or more are that are on several."""
    spread = [node for job in jobs if len(set(job.nodes)) > 1 for node in set(job.nodes)]
    return frozenset([node for node in spread if spread.count(node) > 1])
