"""Looks at devices, jobs and machine again and again: samples for now, readings for later."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from nodeagent.clock import boot_clock_seconds
from nodeagent.configuration import Configuration
from nodeagent.devices.inventory import Devices, Load
from nodeagent.folder import AttemptFolder
from nodeagent.machine import Part
from nodeagent.measures import GPU_MEASURES, GpuMeasure
from nodeagent.messages import READINGS_PER_REPORT, GpuSample, HostSample, Reading, Replica, ReplicaSample
from nodeagent.metrics.host import HostMeter
from nodeagent.metrics.jobs import JobMeter, ReplicaKey, Usage

#: Kept for a server that does not answer: ten minutes, with a reading every ten seconds.
WAITING_MOST = 60
#: The use of a replica that asked for no CPUs is compared with one CPU.
CPUS_BY_DEFAULT = 1.0


class Sampler:
    """The newest samples, and the readings that the server does not have yet."""

    def __init__(
        self,
        configuration: Configuration,
        devices: Devices,
        folder: Callable[[int], AttemptFolder],
    ) -> None:
        self.every_seconds = configuration.metrics_seconds
        self.devices = devices
        self.jobs = JobMeter(folder)
        # For a node of Slurm, this machine is not the node.
        self.machine = HostMeter(configuration.work_folder) if configuration.slurm is None else None
        self.gpus: tuple[GpuSample, ...] = ()
        self.host = self._measure_host(boot_clock_seconds())
        self.waiting: deque[Reading] = deque(maxlen=WAITING_MOST)
        self.since_reading: list[GpuSample] = []
        self.read_at = self.sampled_at = boot_clock_seconds()
        #: The samples of the newest reading.
        self.replicas: tuple[ReplicaSample, ...] = ()
        self.usage: dict[ReplicaKey, Usage] = {}
        self.usage_at_reading: dict[ReplicaKey, Usage] = {}

    def step(self, parts: Collection[Part]) -> tuple[GpuSample, ...]:
        """Sample the devices, and take a reading if one is due. `parts` are those that may have processes."""
        now = boot_clock_seconds()
        # Half a step early is nearer than half a step late.
        is_due = now - self.read_at + (now - self.sampled_at) / 2 >= self.every_seconds
        usage = self.jobs.measure(part.desired.attempt for part in parts)
        self.gpus = self.devices.samples(_loads(parts, self.usage, usage, now - self.sampled_at))
        self.usage = usage
        self.since_reading += self.gpus
        self.sampled_at = now
        if is_due:
            self._read(parts, now)
        return self.gpus

    def next_readings(self) -> tuple[Reading, ...]:
        """Return what the next report should carry, the oldest first."""
        return tuple(self.waiting)[:READINGS_PER_REPORT]

    def delivered(self, readings: tuple[Reading, ...]) -> None:
        """The server has these, or will never take them."""
        while self.waiting and any(self.waiting[0] is reading for reading in readings):
            self.waiting.popleft()

    def _measure_host(self, now: float) -> HostSample:
        return HostSample() if self.machine is None else self.machine.measure(now)

    def _read(self, parts: Collection[Part], now: float) -> None:
        self.host = self._measure_host(now)
        seconds = now - self.read_at
        gpu_memory = self.devices.memory_by_process() if parts else {}
        before = self.usage_at_reading
        self.replicas = tuple(
            _replica_sample(
                key, before.get(key), now_used, self._on_gpus(replica, now_used, gpu_memory), seconds
            )
            for key, replica in _replicas(parts)
            for now_used in [self.usage.get(key)]
        )
        self.waiting.append(
            Reading(
                at=round(time.time(), 3),
                gpus=_means(self.since_reading),
                host=self.host,
                replicas=self.replicas,
            )
        )
        self.since_reading, self.read_at, self.usage_at_reading = [], now, self.usage

    def _on_gpus(
        self, replica: Replica, now: Usage | None, by_process: Mapping[int, Mapping[int, int]]
    ) -> dict[str, int]:
        """Return the bytes that a replica occupies on each device, where that can be measured."""
        if now is None:
            return {}
        simulated = {gpu.index for gpu in self.gpus if gpu.simulated}
        if now.memory_bytes is not None and simulated.issuperset(replica.gpu_indexes):
            return {str(index): _on_each_gpu(replica, now) for index in replica.gpu_indexes}
        # The driver may not report processes, or know them by other numbers: then nothing is reported.
        return {
            str(index): sum(used[pid] for pid in pids)
            for index, used in by_process.items()
            if (pids := now.pids & used.keys())
        }


def _replicas(parts: Iterable[Part]) -> list[tuple[ReplicaKey, Replica]]:
    return [
        ((part.desired.attempt, replica.rank), replica) for part in parts for replica in part.desired.replicas
    ]


def _loads(
    parts: Iterable[Part], before: Mapping[ReplicaKey, Usage], now: Mapping[ReplicaKey, Usage], seconds: float
) -> dict[int, Load | None]:
    """Return what the jobs of each device do with their CPUs and memory; None where that is unknown."""
    loads: dict[int, Load | None] = {}
    for key, replica in _replicas(parts):
        cpus_used = _cpus_used(before.get(key), now.get(key), seconds)
        load = None
        if cpus_used is not None:
            # A job that emulates the pace of a GPU sleeps through its steps, and reports them.
            share = 1.0 if now[key].is_advancing else cpus_used / (replica.cpus or CPUS_BY_DEFAULT)
            load = Load(busy=min(share, 1.0), memory_bytes=_on_each_gpu(replica, now[key]))
        for index in replica.gpu_indexes:
            other = loads.get(index)
            loads[index] = load if other is None or load is None else other + load
    return loads


def _on_each_gpu(replica: Replica, now: Usage) -> int:
    """Return what a replica occupies on each of its simulated devices: its memory, in equal parts."""
    return (now.memory_bytes or 0) // max(len(replica.gpu_indexes), 1)


def _replica_sample(
    key: ReplicaKey, before: Usage | None, now: Usage | None, on_gpus: dict[str, int], seconds: float
) -> ReplicaSample:
    attempt, rank = key
    sample = ReplicaSample(attempt=attempt, rank=rank)
    if now is None:
        return sample
    return replace(
        sample,
        cpus_used=_cpus_used(before, now, seconds),
        memory_used_bytes=now.memory_bytes,
        processes=len(now.pids) or None,
        gpu_memory_bytes=sum(on_gpus.values()) if on_gpus else None,
        gpu_memory_by_index=on_gpus,
    )


def _cpus_used(before: Usage | None, now: Usage | None, seconds: float) -> float | None:
    if before is None or now is None or before.cpu_seconds is None or now.cpu_seconds is None or seconds <= 0:
        return None
    return round(max(now.cpu_seconds - before.cpu_seconds, 0.0) / seconds, 3)


def _means(samples: Iterable[GpuSample]) -> tuple[GpuSample, ...]:
    """Return one sample for each device: the means of its samples."""
    by_index: dict[int, list[GpuSample]] = {}
    for sample in samples:
        by_index.setdefault(sample.index, []).append(sample)
    return tuple(_mean(own) for _, own in sorted(by_index.items()))


def _mean(samples: list[GpuSample]) -> GpuSample:
    means: dict[str, Any] = {measure.name: _mean_in(samples, measure) for measure in GPU_MEASURES}
    return replace(samples[-1], **means)


def _mean_in(samples: list[GpuSample], measure: GpuMeasure) -> float | None:
    mean = _mean_of(getattr(sample, measure.name) for sample in samples)
    return round(mean) if mean is not None and measure.is_whole else mean


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 1) if known else None
