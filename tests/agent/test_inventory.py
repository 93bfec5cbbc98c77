"""What a node says it has: simulated devices, and real ones through a driver that is played here."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from nodeagent.devices import nvml
from nodeagent.devices.inventory import Load, SimulatedDevices, find_devices
from nodeagent.devices.nvml import NoDriver, NvmlDevices, model_name
from tests.agent.builders import GPU_BYTES, make_configuration


class FakeNvml(types.ModuleType):
    """The driver's library with devices as a test wants them; a value of None is "not supported"."""

    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_TOPOLOGY_MULTIPLE = 20
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_DEVICE_MIG_ENABLE = 1

    class NVMLError(Exception):
        pass

    def __init__(self, *devices: dict[str, Any]) -> None:
        super().__init__("pynvml")
        self.devices = devices

    def nvmlInit(self) -> None:
        if not self.devices:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def answer(self, handle: Any, question: str) -> Any:
        """A handle is the number of a device, or that and the place of an instance in it."""
        device, place = handle if isinstance(handle, tuple) else (handle, None)
        asked = self.devices[device] if place is None else self.devices[device]["instances"][place]
        value = asked.get(question)
        if value is None:
            raise self.NVMLError("Not Supported")
        return value

    def nvmlDeviceGetName(self, index: int) -> Any:
        return self.answer(index, "name")

    def nvmlDeviceGetUUID(self, index: int) -> Any:
        return self.answer(index, "uuid")

    def nvmlDeviceGetMinorNumber(self, index: int) -> int:
        # The kernel's numbers need not be in the order of the bus.
        return (3, 1, 0, 2)[index]

    def nvmlDeviceGetMigMode(self, index: int) -> Any:
        return [1 if self.answer(index, "instances") else 0, 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, index: int) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, index: int, place: int) -> Any:
        if place not in self.answer(index, "instances"):
            raise self.NVMLError("Not Found")
        return index, place

    def nvmlDeviceGetAttributes(self, handle: Any) -> Any:
        compute, slices, megabytes = self.answer(handle, "size")
        return types.SimpleNamespace(
            computeInstanceSliceCount=compute, gpuInstanceSliceCount=slices, memorySizeMB=megabytes
        )

    def nvmlDeviceGetGpuInstanceId(self, handle: Any) -> int:
        return self.answer(handle, "gpu_instance")

    def nvmlDeviceGetComputeInstanceId(self, handle: Any) -> int:
        return self.answer(handle, "compute_instance")

    def nvmlDeviceGetMemoryInfo(self, index: int) -> Any:
        total, used = self.answer(index, "memory")
        return types.SimpleNamespace(total=total, used=used)

    def nvmlDeviceGetUtilizationRates(self, index: int) -> Any:
        return types.SimpleNamespace(gpu=self.answer(index, "utilisation"), memory=21)

    def nvmlDeviceGetPowerUsage(self, index: int) -> int:
        return self.answer(index, "milliwatts")

    def nvmlDeviceGetTemperature(self, index: int, sensor: int) -> int:
        return self.answer(index, "celsius")

    def nvmlDeviceGetClockInfo(self, index: int, clock: int) -> int:
        return self.answer(index, "megahertz")

    def nvmlDeviceGetComputeRunningProcesses(self, index: int) -> Any:
        return [
            types.SimpleNamespace(pid=pid, usedGpuMemory=used)
            for pid, used in self.answer(index, "processes").items()
        ]

    def nvmlDeviceGetPciInfo(self, index: int) -> Any:
        return types.SimpleNamespace(busId=self.answer(index, "bus"))

    def nvmlDeviceGetTotalEccErrors(self, index: int, kind: int, counter: int) -> Any:
        return self.answer(index, "ecc")

    def nvmlDeviceGetRetiredPagesPendingStatus(self, index: int) -> Any:
        return self.answer(index, "retired")

    def nvmlDeviceGetRemappedRows(self, index: int) -> Any:
        return self.answer(index, "rows")

    def nvmlDeviceGetTopologyCommonAncestor(self, first: int, second: int) -> Any:
        # Devices behind the same switch say the same; they meet at a bridge, others at the host.
        return 20 if self.answer(first, "switch") == self.answer(second, "switch") else 40


def device(index: int = 0, **changes: Any) -> dict[str, Any]:
    healthy = {
        "name": "Tesla V100-SXM2-16GB",
        "uuid": f"GPU-{index}",
        "memory": (GPU_BYTES, 2**30),
        "utilisation": 55,
        "milliwatts": 221_500,
        "celsius": 61,
        # Two processes use every device; of another one the driver does not say how much.
        "processes": {70: 2**20, 71: 2**18, 72: None},
        "bus": f"00000000:{index:02X}:00.0",
        "ecc": 0,
        "retired": 0,
        "rows": (0, 0, 0, 0),
        "switch": index // 2,
    }
    return {**healthy, **changes}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(*devices: dict[str, Any]) -> FakeNvml:
        library = FakeNvml(*devices)
        monkeypatch.setitem(sys.modules, "pynvml", library)
        return library

    return install


@pytest.mark.parametrize(
    ("product", "model"),
    [
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100-PCIE-32GB", "V100"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("Tesla K80", "K80"),
        ("Tesla T4", "T4"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 NVL", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GeForce RTX 4090", "GeForce-RTX-4090"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
        ("Quadro RTX 8000", "RTX-8000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada-Generation"),
    ],
)
def test_a_model_has_its_short_name(product: str, model: str) -> None:
    assert model_name(product) == model


def test_real_devices_are_read(install: Any) -> None:
    install(*(device(index) for index in range(4)))
    devices = NvmlDevices()
    gpus = devices.gpus()
    assert devices.gpu_model == "V100"
    assert [(gpu.index, gpu.uuid, gpu.memory_bytes, gpu.healthy) for gpu in gpus[:2]] == [
        (0, "GPU-0", GPU_BYTES, True),
        (1, "GPU-1", GPU_BYTES, True),
    ]
    assert [gpu.switch for gpu in gpus] == [0, 0, 1, 1]
    sample = devices.samples({})[0]
    assert (sample.utilisation_percent, sample.memory_used_bytes) == (55.0, 2**30)
    assert (sample.power_watts, sample.temperature_celsius, sample.sm_clock_mhz) == (221.5, 61.0, None)
    assert sample.memory_utilisation_percent == 21.0
    assert not sample.simulated
    by_device = devices.memory_by_process()
    assert by_device.keys() == {0, 1, 2, 3}
    assert by_device[0] == {70: 2**20, 71: 2**18}


def test_what_an_old_driver_cannot_say_is_left_out(install: Any) -> None:
    unknown = dict.fromkeys(("ecc", "retired", "rows", "utilisation", "switch", "bus"))
    install(device(uuid=b"GPU-as-bytes", name=b"Tesla K80", **unknown))
    (gpu,) = NvmlDevices().gpus()
    assert (gpu.uuid, gpu.healthy, gpu.socket, gpu.switch) == ("GPU-as-bytes", True, 0, 0)
    assert NvmlDevices().samples({}) == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ecc": 3}, "3 uncorrectable memory errors"),
        ({"retired": 1}, "wait to be retired"),
        ({"rows": (0, 1, 1, 0)}, "wait to be remapped"),
        ({"rows": (0, 1, 0, 1)}, "has to be replaced"),
        ({"memory": None}, "does not answer"),
    ],
)
def test_a_broken_device_says_why(install: Any, change: dict[str, Any], problem: str) -> None:
    install(device(0), device(1, **change))
    healthy, broken = NvmlDevices().gpus()
    assert (healthy.healthy, healthy.problem) == (True, "")
    assert not broken.healthy
    assert problem in broken.problem


def test_without_a_driver_the_error_is_clear(install: Any) -> None:
    install()
    with pytest.raises(NoDriver, match="driver does not answer: Driver Not Loaded"):
        NvmlDevices()


def test_without_the_library_the_error_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NoDriver, match="nvidia-ml-py is not installed"):
        NvmlDevices()


def test_a_node_has_one_model_and_may_be_told_which(install: Any) -> None:
    install(device(0), device(1, name="Tesla P100-PCIE-16GB"))
    with pytest.raises(NoDriver, match=r"mixes GPU models \(P100, V100\)"):
        NvmlDevices()
    with pytest.raises(NoDriver, match="this machine has no T4; it has P100, V100"):
        NvmlDevices("T4")
    chosen = NvmlDevices("P100")
    assert (chosen.gpu_model, [gpu.uuid for gpu in chosen.gpus()]) == ("P100", ["GPU-1"])
    assert chosen.names([0]) == {0: "GPU-1"}


def instance(device: int, number: int, *, compute: int = 3, **changes: Any) -> dict[str, Any]:
    return {
        "uuid": f"MIG-{device}-{number}",
        "memory": (20 * 2**30, 2**28),
        "size": (compute, 3, 20_096),
        "gpu_instance": number,
        "compute_instance": 0,
        **changes,
    }


def test_instances_of_divided_devices_are_handed_out_one_by_one(
    install: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "NVIDIA A100-SXM4-40GB"
    divided = device(0, name=name, instances={0: instance(0, 1), 3: instance(0, 2)})
    broken = device(1, name=name, ecc=2, instances={0: instance(1, 1)})
    shared = device(2, name=name, instances={1: instance(2, 5, compute=1)})
    install(divided, broken, shared, device(3, name=name))
    for number, minor in ((1, 66), (2, 75)):
        folder = tmp_path / "gpu3" / "mig" / f"gi{number}"
        (folder / "ci0").mkdir(parents=True)
        (folder / "access").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\n")
        (folder / "ci0" / "access").write_text(f"DeviceFileMinor: {minor + 1}\nDeviceFileMode: 292\n")
    monkeypatch.setattr(nvml, "CAPABILITIES", tmp_path)

    with pytest.raises(NoDriver, match=r"\(A100, A100-1c\.3g\.20gb, A100-3g\.20gb\)"):
        NvmlDevices()
    devices = NvmlDevices("A100-3g.20gb")
    gpus = devices.gpus()
    assert [(gpu.index, gpu.uuid, gpu.memory_bytes, gpu.switch) for gpu in gpus] == [
        (0, "MIG-0-1", 20 * 2**30, 0),
        (1, "MIG-0-2", 20 * 2**30, 0),
        (2, "MIG-1-1", 20 * 2**30, 0),
    ]
    assert [gpu.healthy for gpu in gpus] == [True, True, False], "an instance is as sound as its device"
    assert devices.names([1]) == {1: "MIG-0-2"}
    own = ("/dev/nvidia3", "/dev/nvidia-caps/nvidia-cap75", "/dev/nvidia-caps/nvidia-cap76")
    assert devices.files([1]) == (*nvml.SHARED_DEVICE_FILES, *own)
    both = devices.files([0, 1])
    assert len(both) == len(set(both))
    assert {"/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap75"} < set(both)


def test_simulated_devices_have_the_same_face(tmp_path: Path) -> None:
    devices = find_devices(make_configuration(tmp_path))
    assert isinstance(devices, SimulatedDevices)
    assert devices.gpu_model == "V100"
    assert devices.gpus()[2].uuid == "SIM-node-1-2"
    assert devices.gpus()[2].socket == 1
    # As busy as its job keeps the CPUs; of a job that cannot be looked at nothing is made up.
    samples = devices.samples({1: Load(busy=0.5, memory_bytes=2**40), 2: None})
    assert [(sample.index, sample.utilisation_percent) for sample in samples] == [
        (0, 0.0),
        (1, 50.0),
        (3, 0.0),
    ]
    assert [sample.memory_used_bytes for sample in samples] == [0, GPU_BYTES, 0]
    assert (samples[1].power_watts, samples[1].temperature_celsius, samples[1].sm_clock_mhz) == (175, 50, 900)
    assert all(sample.simulated for sample in samples)


@pytest.mark.gpu
def test_the_devices_of_this_machine() -> None:
    try:
        devices = NvmlDevices()
    except NoDriver as error:
        pytest.skip(str(error))
    assert devices.gpu_model
    assert all(gpu.uuid.startswith("GPU-") and gpu.memory_bytes > 2**30 for gpu in devices.gpus())
    assert len(devices.samples({})) == len(devices.gpus())
