"""The account of every stay on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.lifecycle import StopCause
from scheduler.core.model.snapshot import GpuId, JobId, NodeId, Running
from scheduler.core.round.facts import Facts
from scheduler.core.sim.event_queue import EventQueue
from scheduler.core.sim.progress import Progress
from scheduler.core.sim.result import Stay, StayEnd

#: The cause of each end of a stay that something other than its job decides.
CAUSES: Mapping[StayEnd, StopCause] = {
    "preempted": StopCause.PREEMPTED,
    "cancelled": StopCause.CANCELLED,
    "time_limit": StopCause.TIME_LIMIT,
    "drained": StopCause.DRAINED,
    "moved": StopCause.MIGRATED,
    "resized": StopCause.RESIZED,
}
STAY_ENDS: Mapping[str, StayEnd] = {
    "preempted": "preempted",
    "cancelled": "cancelled",
    "time_limit": "time_limit",
    "drained": "drained",
}


class Stays:
    """The stays that have ended, and those that go on."""

    def __init__(
        self, facts: Callable[[], Facts], progress: Mapping[JobId, Progress], events: EventQueue
    ) -> None:
        self._facts, self._progress, self._events = facts, progress, events
        self._ended: list[Stay] = []
        #: One tuple for all stays on the same nodes: there may be a million.
        self._nodes: dict[tuple[NodeId, ...], tuple[NodeId, ...]] = {}

    def __iter__(self) -> Iterator[Stay]:
        """Yield every stay, those that have not ended last."""
        yield from self._ended
        for running in self._facts().running.values():
            if running.phase == "held":
                for job in running.jobs:
                    started_at = self._progress[job].present.started_at
                    yield self._stay(job, running, started_at, "running", (), 0.0, 0.0)

    def end(
        self,
        job: JobId,
        running: Running,
        started_at: float,
        end: StayEnd,
        preempted_by: tuple[JobId, ...],
        overhead_seconds: float,
        lost_seconds: float,
    ) -> None:
        """Record a stay that ends now."""
        stay = self._stay(job, running, started_at, end, preempted_by, overhead_seconds, lost_seconds)
        self._ended.append(stay)

    def _stay(
        self,
        job: JobId,
        running: Running,
        started_at: float,
        end: StayEnd,
        preempted_by: tuple[JobId, ...],
        overhead_seconds: float,
        lost_seconds: float,
    ) -> Stay:
        gpus, known = running.gpus, self._progress[job].job
        nodes = tuple(dict.fromkeys([*map(self._node_of, gpus), *running.nodes]))
        return Stay(
            job=job,
            gpu_model=running.gpu_model,
            gpus=gpus,
            # The constant, where each would have a number of its own.
            part=1.0 if gpus and not known.has_parts else known.milligpus / WHOLE_GPU / max(len(gpus), 1),
            nodes=self._nodes.setdefault(nodes, nodes),
            started_at=started_at,
            ended_at=self._events.now,
            end=end,
            guaranteed=running.guaranteed,
            shared_with=tuple([other for other in running.jobs if other != job]),
            preempted_by=preempted_by,
            overhead_seconds=overhead_seconds,
            lost_seconds=lost_seconds,
        )

    def _node_of(self, gpu: GpuId) -> NodeId:
        cluster = self._facts().cluster
        model, number, _ = cluster.where[gpu]
        return cluster.fleets[model].nodes[number].id


def with_company(stays: Sequence[Stay]) -> tuple[Stay, ...]:
    """Return the stays, each with the jobs that had one of its GPUs at the same time."""
    others: dict[int, set[JobId]] = {}
    there: dict[GpuId, list[int]] = {}
    for place in sorted(range(len(stays)), key=lambda place: stays[place].started_at):
        stay = stays[place]
        for gpu in stay.gpus:
            still = [each for each in there.get(gpu, ()) if stays[each].ended_at > stay.started_at]
            for each in still:
                if stays[each].job != stay.job and stay.ended_at > stay.started_at:
                    others.setdefault(place, set()).add(stays[each].job)
                    others.setdefault(each, set()).add(stay.job)
            still.append(place)
            there[gpu] = still
    found = [tuple(sorted(others.get(place, ()))) for place in range(len(stays))]
    return tuple(
        [
            stay if stay.shared_with == shared else replace(stay, shared_with=shared)
            for stay, shared in zip(stays, found, strict=True)
        ]
    )
