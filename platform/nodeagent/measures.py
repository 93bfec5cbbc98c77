"""What is measured of a GPU, each measure declared once.

The agent averages and exposes them, the server stores, sums and shows them, pages and docs/metrics.md name
them by this table (`make schema`). A new one is a field of `messages.GpuSample`, a line here, and where
`devices.nvml` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Dcgm:
    """What a measure is to NVIDIA's DCGM exporter, for which there are ready-made dashboards."""

    name: str
    help: str
    #: As it is written behind a number, and how much of our unit one of it is.
    unit: str
    size: float = 1.0


class Total(StrEnum):
    """How the figures of a node's GPUs become the node's."""

    MEAN = "mean"
    SUM = "sum"

    def of(self, figures: Sequence[float]) -> float:
        return sum(figures) / (len(figures) if self is Total.MEAN else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGauge:
    """What the server exposes of all GPUs of a node, as `allot_node_gpu_<name>`."""

    total: Total
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMeasure:
    #: The field of `messages.GpuSample`. Its ending says the unit: it is all that commands and pages go by.
    name: str
    #: Above its chart.
    title: str
    #: For docs/metrics.md, where the name does not say it.
    meaning: str = ""
    is_whole: bool = False
    dcgm: Dcgm | None = None
    node: NodeGauge | None = None


#: In the order in which figures are stored: only ever add at the end.
GPU_MEASURES = (
    GpuMeasure(
        name="utilisation_percent",
        title="GPU utilisation",
        dcgm=Dcgm(
            name="DCGM_FI_DEV_GPU_UTIL",
            help="Part of the time in which the GPU was busy, in percent",
            unit="%",
        ),
        node=NodeGauge(total=Total.MEAN, help="How busy the node's GPUs are, in the mean"),
    ),
    GpuMeasure(
        name="memory_used_bytes",
        title="GPU memory",
        is_whole=True,
        dcgm=Dcgm(name="DCGM_FI_DEV_FB_USED", help="Memory in use on the GPU, in MiB", unit="MiB", size=MIB),
        node=NodeGauge(total=Total.SUM, help="Memory in use on all of the node's GPUs"),
    ),
    GpuMeasure(
        name="power_watts",
        title="GPU power",
        dcgm=Dcgm(name="DCGM_FI_DEV_POWER_USAGE", help="Power of the GPU, in watts", unit="W"),
        node=NodeGauge(total=Total.SUM, help="Power of all of the node's GPUs"),
    ),
    GpuMeasure(
        name="temperature_celsius",
        title="GPU temperature",
        dcgm=Dcgm(name="DCGM_FI_DEV_GPU_TEMP", help="Temperature of the GPU, in degrees Celsius", unit="°C"),
    ),
    GpuMeasure(
        name="sm_clock_mhz",
        title="GPU clock",
        dcgm=Dcgm(name="DCGM_FI_DEV_SM_CLOCK", help="Clock of the GPU's processors, in MHz", unit="MHz"),
    ),
    GpuMeasure(
        name="memory_utilisation_percent",
        title="Use of GPU memory's bandwidth",
        meaning="part of the time in which the memory was read or written",
    ),
)
