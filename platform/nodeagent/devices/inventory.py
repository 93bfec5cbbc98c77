"""What GPUs the node has and what they are doing: one face for real devices and simulated ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from nodeagent.configuration import Configuration, InventoryConfiguration
from nodeagent.messages import GpuSample, InventoryGpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the processes of the jobs on one device do: simulated devices make their figures from it."""

    #: The part of the CPUs they asked for that they use, 0 to 1; 1 while they report progress.
    busy: float
    memory_bytes: int

    def __add__(self, other: Load) -> Load:
        busy = min(self.busy + other.busy, 1.0)
        return Load(busy=busy, memory_bytes=self.memory_bytes + other.memory_bytes)


class Devices(Protocol):
    """The GPUs of one node."""

    @property
    def gpu_model(self) -> str:
        """The short name of the model, such as V100; "" where there is no GPU."""

    def gpus(self) -> tuple[InventoryGpu, ...]:
        """Return every device with its health as it is now."""

    def samples(self, loads: Mapping[int, Load | None]) -> tuple[GpuSample, ...]:
        """Return a sample of every device that can say what it does.

        `loads` are those of the devices on which an attempt runs; None where it is not known.
        """

    def memory_by_process(self) -> Mapping[int, Mapping[int, int]]:
        """Return by device the bytes that each process occupies there, where the driver reports it."""

    def names(self, indexes: Iterable[int]) -> dict[int, str]:
        """Return what CUDA_VISIBLE_DEVICES calls these devices."""

    def files(self, indexes: Iterable[int]) -> tuple[str, ...]:
        """Return the device files that a job with these devices needs, and no others."""


#: What simulated devices show at rest and at work: about those of a data-centre card.
WATTS = (50.0, 300.0)
CELSIUS = (30.0, 70.0)
MEGAHERTZ = (300.0, 1_500.0)


class SimulatedDevices:
    """Devices that exist in the configuration only, for demonstrations and tests; or none at all."""

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

    def samples(self, loads: Mapping[int, Load | None]) -> tuple[GpuSample, ...]:
        """Make up what such a device would report: as busy as its job is.

        A device whose job cannot be read reports nothing.
        """
        samples = []
        for gpu in self.configuration.gpus:
            load = loads.get(gpu.index, Load(busy=0.0, memory_bytes=0))
            if load is None:
                continue
            samples.append(
                GpuSample(
                    index=gpu.index,
                    utilisation_percent=round(100.0 * load.busy, 1),
                    memory_used_bytes=min(load.memory_bytes, gpu.memory_bytes),
                    power_watts=_between(WATTS, load.busy),
                    temperature_celsius=_between(CELSIUS, load.busy),
                    sm_clock_mhz=_between(MEGAHERTZ, load.busy),
                    simulated=True,
                )
            )
        return tuple(samples)

    def memory_by_process(self) -> dict[int, dict[int, int]]:
        return {}

    def names(self, indexes: Iterable[int]) -> dict[int, str]:
        return {index: str(index) for index in indexes}

    def files(self, indexes: Iterable[int]) -> tuple[str, ...]:
        return ()


def _between(bounds: tuple[float, float], part: float) -> float:
    lowest, highest = bounds
    return round(lowest + part * (highest - lowest), 1)


def find_devices(configuration: Configuration) -> Devices:
    """Return the devices the configuration asks for."""
    if configuration.inventory.kind != "nvml":
        # A node without GPUs lists none.
        return SimulatedDevices(configuration.node, configuration.inventory)
    from nodeagent.devices.nvml import NvmlDevices  # Only here: the library is loaded where it is asked for.

    return NvmlDevices(configuration.inventory.gpu_model)


def machine_cpus() -> float:
    """Return how many CPUs this process may use."""
    return float(len(os.sched_getaffinity(0)))


def machine_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
