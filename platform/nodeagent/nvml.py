"""Real NVIDIA devices, read through the driver's management library (nvidia-ml-py)."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from nodeagent.messages import GpuSample, InventoryGpu

#: What every CUDA program opens beside the files of its devices.
SHARED_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


class NoDriver(Exception):
    """The GPUs of this machine cannot be read."""


#: Parts of a product name that say who made it or how it is packed, not which model it is.
_NOT_THE_MODEL = re.compile(r"\b(NVIDIA|Tesla|Quadro|GRID|Graphics Device)\b", re.IGNORECASE)
_PACKAGING = re.compile(r"-?(SXM\d?|PCI-?E|HBM\d?e?|NVL|OAM|CG\d)\b.*$|-?\b\d+\s?GB\b.*$", re.IGNORECASE)


def model_name(product: str) -> str:
    """Return the short model of a product: "Tesla V100-SXM2-16GB" is a V100, "NVIDIA H200" an H200."""
    name = _NOT_THE_MODEL.sub("", product).strip()
    name = _PACKAGING.sub("", name).strip(" -")
    return re.sub(r"\s+", "-", name) or product


class NvmlDevices:
    """The devices of this machine, in the order of their bus address, as CUDA is told to count them."""

    def __init__(self) -> None:
        try:
            self.nvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            raise NoDriver("inventory.kind is nvml, but nvidia-ml-py is not installed") from error
        try:
            self.nvml.nvmlInit()
            self.handles = [
                self.nvml.nvmlDeviceGetHandleByIndex(index) for index in range(self.nvml.nvmlDeviceGetCount())
            ]
        except self.nvml.NVMLError as error:
            raise NoDriver(
                f"inventory.kind is nvml, but the NVIDIA driver does not answer: {error}"
            ) from error
        names = sorted({model_name(_text(self.nvml.nvmlDeviceGetName(handle))) for handle in self.handles})
        if len(names) > 1:
            raise NoDriver(f"this machine mixes GPU models ({', '.join(names)}); a node has one model")
        self._model = names[0] if names else ""
        # Asked for once: a device that breaks later may block whoever asks it anything.
        uuids = [self._ask(self.nvml.nvmlDeviceGetUUID, handle) for handle in self.handles]
        self._names = [str(index) if uuid is None else _text(uuid) for index, uuid in enumerate(uuids)]
        minors = [self._ask(self.nvml.nvmlDeviceGetMinorNumber, handle) for handle in self.handles]
        self._files = [
            f"/dev/nvidia{index if minor is None else minor}" for index, minor in enumerate(minors)
        ]

    @property
    def gpu_model(self) -> str:
        return self._model

    def gpus(self) -> tuple[InventoryGpu, ...]:
        sockets = [self._socket(handle) for handle in self.handles]
        return tuple(
            self._gpu(index, handle, sockets[index], self._switch(index, sockets))
            for index, handle in enumerate(self.handles)
        )

    def samples(self, busy: Collection[int]) -> tuple[GpuSample, ...]:
        readings = []
        for index, handle in enumerate(self.handles):
            memory = self._ask(self.nvml.nvmlDeviceGetMemoryInfo, handle)
            rates = self._ask(self.nvml.nvmlDeviceGetUtilizationRates, handle)
            if memory is not None and rates is not None:
                readings.append(
                    GpuSample(
                        index=index, utilisation_percent=float(rates.gpu), memory_used_bytes=int(memory.used)
                    )
                )
        return tuple(readings)

    def names(self, indexes: Iterable[int]) -> dict[int, str]:
        """Return identities, which stay what they are where only some devices can be seen."""
        return {index: self._names[index] for index in indexes}

    def files(self, indexes: Iterable[int]) -> tuple[str, ...]:
        chosen = [self._files[index] for index in indexes]
        return (*SHARED_DEVICE_FILES, *chosen) if chosen else ()

    def _gpu(self, index: int, handle: Any, socket: int, switch: int) -> InventoryGpu:
        problem = self.problem(handle)
        memory = self._ask(self.nvml.nvmlDeviceGetMemoryInfo, handle)
        uuid = self._ask(self.nvml.nvmlDeviceGetUUID, handle)
        return InventoryGpu(
            index=index,
            uuid=_text(uuid) if uuid is not None else f"unknown-{index}",
            memory_bytes=int(memory.total) if memory is not None else 0,
            socket=socket,
            switch=switch,
            healthy=not problem,
            problem=problem,
        )

    def problem(self, handle: Any) -> str:
        """Return why no job should run on the device; "" when nothing speaks against it."""
        if self._ask(self.nvml.nvmlDeviceGetMemoryInfo, handle) is None:
            return "The device does not answer."
        errors = self._ask(
            self.nvml.nvmlDeviceGetTotalEccErrors,
            handle,
            self.nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            self.nvml.NVML_VOLATILE_ECC,
        )
        if errors:
            return f"{errors} uncorrectable memory errors since the driver was loaded."
        if self._ask(self.nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle):
            return "Memory pages wait to be retired; the device has to be reset."
        remapped = self._ask(self.nvml.nvmlDeviceGetRemappedRows, handle)
        if remapped is not None and remapped[3]:
            return "Remapping of memory rows failed; the device has to be replaced."
        if remapped is not None and remapped[2]:
            return "Memory rows wait to be remapped; the device has to be reset."
        return ""

    def _socket(self, handle: Any) -> int:
        """Return the NUMA node of the device, read where the kernel says it."""
        bus = self._ask(self.nvml.nvmlDeviceGetPciInfo, handle)
        if bus is None:
            return 0
        # NVML writes the PCI domain with eight digits, the kernel with four.
        address = _text(bus.busId).lower()[-12:]
        try:
            with open(os.path.join("/sys/bus/pci/devices", address, "numa_node"), encoding="ascii") as file:
                return max(0, int(file.read()))
        except (OSError, ValueError):
            return 0

    def _switch(self, index: int, sockets: list[int]) -> int:
        """Number the groups of devices that reach one another without the host bridge."""
        leaders: list[int] = []
        for other in range(index + 1):
            group = next((leader for leader in leaders if self._are_near(leader, other)), None)
            if group is None:
                leaders.append(other)
                group = other
            if other == index:
                return leaders.index(group)
        return sockets[index]

    def _are_near(self, first: int, second: int) -> bool:
        level = self._ask(
            self.nvml.nvmlDeviceGetTopologyCommonAncestor, self.handles[first], self.handles[second]
        )
        return level is not None and level <= self.nvml.NVML_TOPOLOGY_MULTIPLE

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Return the driver's answer; None where this device or driver cannot say."""
        try:
            return question(*arguments)
        except self.nvml.NVMLError:
            return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
