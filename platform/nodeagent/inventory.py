"""What GPUs the node has and what they are doing: one face for real devices and simulated ones."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Iterable
from typing import Protocol

from nodeagent.configuration import Configuration, InventoryConfiguration
from nodeagent.messages import GpuSample, InventoryGpu


class Devices(Protocol):
    """The GPUs of one node."""

    @property
    def gpu_model(self) -> str:
        """The short name of the model, such as V100; "" where there is no GPU."""

    def gpus(self) -> tuple[InventoryGpu, ...]:
        """Return every device with its health as it is now."""

    def samples(self, busy: Collection[int]) -> tuple[GpuSample, ...]:
        """Return a reading of every device; `busy` are those on which an attempt runs."""

    def names(self, indexes: Iterable[int]) -> dict[int, str]:
        """Return what CUDA_VISIBLE_DEVICES calls these devices."""

    def files(self, indexes: Iterable[int]) -> tuple[str, ...]:
        """Return the device files a job needs that was given these devices, and no other's."""


class SimulatedDevices:
    """Devices that exist in the configuration only, for demonstrations and tests."""

    def __init__(self, node: str, configuration: InventoryConfiguration) -> None:
        self.node = node
        self.configuration = configuration

    @property
    def gpu_model(self) -> str:
        return self.configuration.gpu_model

    def gpus(self) -> tuple[InventoryGpu, ...]:
        return tuple(
            InventoryGpu(
                index=gpu.index,
                uuid=f"SIM-{self.node}-{gpu.index}",
                memory_bytes=gpu.memory_bytes,
                socket=gpu.socket,
                switch=gpu.switch,
            )
            for gpu in self.configuration.gpus
        )

    def samples(self, busy: Collection[int]) -> tuple[GpuSample, ...]:
        """Return readings such as training gives: high, with a slow swing that differs by device."""
        now = time.time()
        readings = []
        for gpu in self.configuration.gpus:
            swing = math.sin(now / 7.0 + gpu.index * 1.7) + 0.5 * math.sin(now / 2.3 + gpu.index)
            is_busy = gpu.index in busy
            readings.append(
                GpuSample(
                    index=gpu.index,
                    utilisation_percent=round(86.0 + 7.0 * swing, 1) if is_busy else 0.0,
                    memory_used_bytes=int(gpu.memory_bytes * (0.62 + 0.03 * swing)) if is_busy else 0,
                )
            )
        return tuple(readings)

    def names(self, indexes: Iterable[int]) -> dict[int, str]:
        return {index: str(index) for index in indexes}

    def files(self, indexes: Iterable[int]) -> tuple[str, ...]:
        return ()


def find_devices(configuration: Configuration) -> Devices:
    """Return the devices the configuration asks for."""
    if configuration.inventory.kind == "simulated":
        return SimulatedDevices(configuration.node, configuration.inventory)
    from nodeagent.nvml import NvmlDevices  # Only here: the library is loaded where it is asked for.

    return NvmlDevices(configuration.inventory.gpu_model)


def machine_cpus() -> float:
    """Return how many CPUs this process may use."""
    return float(len(os.sched_getaffinity(0)))


def machine_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
