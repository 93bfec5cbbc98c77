"""Real NVIDIA devices, read through the driver's management library (nvidia-ml-py).

What jobs are given is a *unit*: a device, or where its operator divided it (MIG), each of its instances.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nodeagent.devices.inventory import Load
from nodeagent.messages import GpuSample, InventoryGpu

#: What every CUDA program opens beside the files of its devices.
SHARED_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
#: How the names of instances begin. CUDA lets a process use one only.
INSTANCE = "MIG-"
#: Where the driver says which file opens an instance of a divided device.
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")


class NoDriver(Exception):
    """The GPUs of this machine cannot be read."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A device or an instance of one, with what stays known of it should it break."""

    handle: Any
    #: Its number among the devices of the machine.
    device: int
    model: str
    #: What CUDA_VISIBLE_DEVICES calls it.
    name: str
    #: What a program opens to use it.
    files: tuple[str, ...]


#: Parts of a product name that say who made it or how it is packed, not which model it is.
_NOT_THE_MODEL = re.compile(r"\b(NVIDIA|Tesla|Quadro|GRID|Graphics Device)\b", re.IGNORECASE)
_PACKAGING = re.compile(r"-?(SXM\d?|PCI-?E|HBM\d?e?|NVL|OAM|CG\d)\b.*$|-?\b\d+\s?GB\b.*$", re.IGNORECASE)


def model_name(product: str) -> str:
    """Return the short model of a product: "Tesla V100-SXM2-16GB" is a V100, "NVIDIA H200" an H200."""
    name = _NOT_THE_MODEL.sub("", product).strip()
    name = _PACKAGING.sub("", name).strip(" -")
    return re.sub(r"\s+", "-", name) or product


class NvmlDevices:
    """The units of one model on this machine, in the order of their bus address, as CUDA is set to count.

    A machine may mix models, as one does that divides some of its devices: each model is then a node of its
    own, whose agent has its model in `gpu_model`.
    """

    def __init__(self, gpu_model: str = "") -> None:
        """Raise NoDriver where the devices cannot be read, or `gpu_model` does not say which are meant."""
        try:
            self.nvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            raise NoDriver("inventory.kind is nvml, but nvidia-ml-py is not installed") from error
        try:
            self.nvml.nvmlInit()
            devices = [
                self.nvml.nvmlDeviceGetHandleByIndex(index) for index in range(self.nvml.nvmlDeviceGetCount())
            ]
        except self.nvml.NVMLError as error:
            raise NoDriver(
                f"inventory.kind is nvml, but the NVIDIA driver does not answer: {error}"
            ) from error
        # Asked for once: a device that breaks later may block any call to it.
        units = [unit for index, device in enumerate(devices) for unit in self._units(index, device)]
        self._model = _chosen_model(sorted({unit.model for unit in units}), gpu_model)
        self._chosen = [unit for unit in units if unit.model == self._model]
        #: By index: what is asked how full it is, and the whole device that is asked how well it is.
        self.handles = [unit.handle for unit in self._chosen]
        self.parents = [devices[unit.device] for unit in self._chosen]

    @property
    def gpu_model(self) -> str:
        return self._model

    def gpus(self) -> tuple[InventoryGpu, ...]:
        sockets = [self._socket(device) for device in self.parents]
        return tuple(
            self._gpu(index, unit, sockets[index], self._switch(index, sockets))
            for index, unit in enumerate(self._chosen)
        )

    def samples(self, loads: Mapping[int, Load | None]) -> tuple[GpuSample, ...]:
        readings = []
        for index, (handle, device) in enumerate(zip(self.handles, self.parents, strict=True)):
            memory = self._ask(self.nvml.nvmlDeviceGetMemoryInfo, handle)
            rates = self._ask(self.nvml.nvmlDeviceGetUtilizationRates, handle)
            if memory is None or rates is None:
                continue
            sample = GpuSample(
                index=index,
                utilisation_percent=float(rates.gpu),
                memory_used_bytes=int(memory.used),
                memory_utilisation_percent=float(rates.memory),
            )
            # An instance's part in the figures of its whole device is unknown.
            readings.append(self._with_whole_device(sample, device) if handle is device else sample)
        return tuple(readings)

    def memory_by_process(self) -> dict[int, dict[int, int]]:
        """Return bytes by device and process; without those that the driver does not report."""
        return {
            index: {
                process.pid: int(process.usedGpuMemory)
                for process in self._ask(self.nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
                if process.usedGpuMemory is not None
            }
            for index, handle in enumerate(self.handles)
        }

    def names(self, indexes: Iterable[int]) -> dict[int, str]:
        """Return identities, which stay what they are where only some devices can be seen."""
        return {index: self._chosen[index].name for index in indexes}

    def files(self, indexes: Iterable[int]) -> tuple[str, ...]:
        # Two instances share the file of their device.
        chosen = dict.fromkeys(path for index in indexes for path in self._chosen[index].files)
        return (*SHARED_DEVICE_FILES, *chosen) if chosen else ()

    def _with_whole_device(self, sample: GpuSample, device: Any) -> GpuSample:
        milliwatts = self._ask(self.nvml.nvmlDeviceGetPowerUsage, device)
        celsius = self._ask(self.nvml.nvmlDeviceGetTemperature, device, self.nvml.NVML_TEMPERATURE_GPU)
        megahertz = self._ask(self.nvml.nvmlDeviceGetClockInfo, device, self.nvml.NVML_CLOCK_SM)
        return replace(
            sample,
            power_watts=None if milliwatts is None else milliwatts / 1_000,
            temperature_celsius=None if celsius is None else float(celsius),
            sm_clock_mhz=None if megahertz is None else float(megahertz),
        )

    def _units(self, index: int, device: Any) -> list[_Unit]:
        model = model_name(_text(self.nvml.nvmlDeviceGetName(device)))
        minor = self._ask(self.nvml.nvmlDeviceGetMinorNumber, device)
        minor = index if minor is None else minor
        file = f"/dev/nvidia{minor}"
        if (self._ask(self.nvml.nvmlDeviceGetMigMode, device) or [None])[
            0
        ] != self.nvml.NVML_DEVICE_MIG_ENABLE:
            return [_Unit(device, index, model, self._uuid(device) or str(index), (file,))]
        most = self._ask(self.nvml.nvmlDeviceGetMaxMigDeviceCount, device) or 0
        places = [self._ask(self.nvml.nvmlDeviceGetMigDeviceHandleByIndex, device, n) for n in range(most)]
        return [
            _Unit(
                instance,
                index,
                f"{model}-{self._profile(instance)}",
                self._uuid(instance),
                (file, *self._capability_files(minor, instance)),
            )
            # Not every place is taken; an instance without a known name could not be given to a job.
            for instance in places
            if instance is not None and self._uuid(instance)
        ]

    def _profile(self, instance: Any) -> str:
        """Return what part of its device an instance is, as its operator calls it: 3g.40gb, or 1c.3g.40gb."""
        size = self._ask(self.nvml.nvmlDeviceGetAttributes, instance)
        if size is None:
            return "mig"
        gigabytes = -(-size.memorySizeMB // 1024)
        of_instance = f"{size.gpuInstanceSliceCount}g.{gigabytes}gb"
        if size.computeInstanceSliceCount == size.gpuInstanceSliceCount:
            return of_instance
        return f"{size.computeInstanceSliceCount}c.{of_instance}"

    def _capability_files(self, minor: int, instance: Any) -> tuple[str, ...]:
        gpu_instance = self._ask(self.nvml.nvmlDeviceGetGpuInstanceId, instance)
        compute_instance = self._ask(self.nvml.nvmlDeviceGetComputeInstanceId, instance)
        folder = CAPABILITIES / f"gpu{minor}" / "mig" / f"gi{gpu_instance}"
        numbers = [_minor_in(folder / "access"), _minor_in(folder / f"ci{compute_instance}" / "access")]
        return tuple(f"/dev/nvidia-caps/nvidia-cap{number}" for number in numbers if number is not None)

    def _uuid(self, handle: Any) -> str:
        uuid = self._ask(self.nvml.nvmlDeviceGetUUID, handle)
        return "" if uuid is None else _text(uuid)

    def _gpu(self, index: int, unit: _Unit, socket: int, switch: int) -> InventoryGpu:
        problem = self.problem(self.parents[index])
        memory = self._ask(self.nvml.nvmlDeviceGetMemoryInfo, unit.handle)
        return InventoryGpu(
            index=index,
            uuid=self._uuid(unit.handle) or f"unknown-{index}",
            memory_bytes=int(memory.total) if memory is not None else 0,
            socket=socket,
            switch=switch,
            healthy=not problem,
            problem=problem,
        )

    def problem(self, handle: Any) -> str:
        """Return why no job should run on the device; "" when there is no reason."""
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
        """Return the NUMA node of the device, where the kernel reports it."""
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
        if self._chosen[first].device == self._chosen[second].device:
            return True
        level = self._ask(
            self.nvml.nvmlDeviceGetTopologyCommonAncestor, self.parents[first], self.parents[second]
        )
        return level is not None and level <= self.nvml.NVML_TOPOLOGY_MULTIPLE

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Return the driver's answer; None where this device or driver cannot say."""
        try:
            return question(*arguments)
        except self.nvml.NVMLError:
            return None


def _chosen_model(models: list[str], configured: str) -> str:
    if configured and configured not in models:
        found = f"it has {', '.join(models)}" if models else "it has no GPU"
        raise NoDriver(f"inventory.gpu_model: this machine has no {configured}; {found}")
    if len(models) > 1 and not configured:
        raise NoDriver(
            f"this machine mixes GPU models ({', '.join(models)}), and a node has one:"
            " run an agent for each, with inventory.gpu_model, cpus and memory_bytes"
        )
    return configured or "".join(models)


def _minor_in(access: Path) -> int | None:
    """Return the number of the device file that such a file of the driver names."""
    try:
        found = re.search(r"DeviceFileMinor:\s*(\d+)", access.read_text(encoding="ascii"))
    except OSError:
        return None
    return int(found[1]) if found else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
