"""What the agent measures: of real processes, of a machine as procfs would tell it, and for Prometheus."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodeagent.machine import Part, Phase
from nodeagent.messages import GpuSample, HostSample, Inventory, InventoryGpu, Reading
from nodeagent.metrics.exposition import Figures, exposition, keep_exposing
from nodeagent.metrics.host import HostMeter
from nodeagent.metrics.jobs import Usage
from nodeagent.metrics.sampling import Sampler
from nodeagent.process.ports import HeldPorts
from tests.agent.builders import GPU_BYTES, make_part, python
from tests.agent.runtime_node import RuntimeNode
from tests.patience import until_async

GIB = 2**30


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with a real network interface behind a bridge, and a real disk below a virtual one."""
    for folder in ("sys/block/sda", "sys/block/dm-0", "sys/class/net/eth0/device", "sys/class/net/docker0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n")
    tell(tmp_path, ticks=(0, 0), network=0, sectors=0)
    return tmp_path


def tell(machine: Path, *, ticks: tuple[int, int], network: int, sectors: int) -> None:
    """Ticks busy and idle; bytes received, and half of these sent; sectors read, and as many written."""
    busy, idle = ticks
    (machine / "proc/stat").write_text(f"cpu {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\n")
    traffic = f"{network} 0 0 0 0 0 0 0 {network // 2} 0 0 0 0 0 0 0"
    lines = [f"{name}: {traffic}" for name in ("lo", "eth0", "docker0")]
    (machine / "proc/net/dev").write_text("\n".join(["one", "two", *lines]))
    disks = [f"8 0 {name} 1 0 {sectors} 0 1 0 {sectors} 0 0 0 0" for name in ("sda", "sda1", "dm-0")]
    (machine / "proc/diskstats").write_text("\n".join(disks))


def test_rates_of_the_machine_are_of_the_time_in_between(machine: Path) -> None:
    meter = HostMeter(str(machine), proc=str(machine / "proc"), sys=str(machine / "sys"))
    first = meter.measure(100.0)
    assert (first.cpu_percent, first.network_sent_bytes_per_second, first.memory_used_bytes) == (
        None,
        None,
        600 * 1024,
    )
    assert first.disk_total_bytes is not None
    assert 0 < (first.disk_used_bytes or 0) < first.disk_total_bytes
    tell(machine, ticks=(30, 10), network=5_000, sectors=20)
    second = meter.measure(110.0)
    assert second.cpu_percent == 75.0
    assert (second.network_received_bytes_per_second, second.network_sent_bytes_per_second) == (500.0, 250.0)
    assert (second.disk_read_bytes_per_second, second.disk_written_bytes_per_second) == (1_024.0, 1_024.0)
    # A counter that began anew says nothing of the time in between.
    tell(machine, ticks=(31, 10), network=10, sectors=40)
    assert meter.measure(120.0).network_sent_bytes_per_second is None


def test_what_the_machine_hides_is_not_told(tmp_path: Path) -> None:
    meter = HostMeter(str(tmp_path / "none"), proc=str(tmp_path), sys=str(tmp_path))
    assert [meter.measure(at) for at in (1.0, 2.0)] == [HostSample(), HostSample()]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RuntimeNode]:
    node = RuntimeNode(tmp_path, sandbox="off", users=None, metrics_seconds=0.0)
    yield node
    await node.clean_up()


@pytest.mark.parametrize("has_groups", [True, False])
async def test_processes_are_measured_and_simulated_gpus_are_as_busy(
    node: RuntimeNode, has_groups: bool
) -> None:
    if not has_groups:
        node.runtime.cgroups.folders = {}
    elif not node.runtime.cgroups.folders:
        pytest.skip("no control groups here")
    busy = python("import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])")
    still = python("import time; time.sleep(600)", rank=1, gpu_indexes=(1, 2))
    part = Part(desired=make_part(busy, still), phase=Phase.RUNNING)
    sampler = Sampler(node.configuration, node.runtime.devices, node.runtime.folder)
    sampler.step([part])
    assert sampler.waiting[-1].replicas[0].cpus_used is None  # It has not begun.
    await node.start(part.desired)

    sampler.every_seconds = 0.2

    def reading() -> Reading | None:
        sampler.step([part])
        newest = sampler.waiting[-1]
        worker, sleeper = newest.replicas
        is_up = (worker.processes, sleeper.processes, sleeper.cpus_used) == (2, 1, 0.0)
        # How much it gets is up to what else this machine does.
        return newest if is_up and (worker.cpus_used or 0.0) > 0.02 else None

    found = await until_async(reading)
    worker, sleeper = found.replicas
    assert 2**20 < sleeper.memory_used_bytes < worker.memory_used_bytes < GPU_BYTES
    utilisation = {gpu.index: gpu.utilisation_percent for gpu in found.gpus}
    assert utilisation[0] > 0.0
    assert (utilisation[1], utilisation[2], utilisation[3]) == (0.0, 0.0, 0.0)
    assert all(gpu.simulated for gpu in found.gpus)
    # A simulated device has its part of the memory that the processes have.
    assert worker.gpu_memory_by_index == {"0": worker.memory_used_bytes}
    half = sleeper.memory_used_bytes // 2
    assert sleeper.gpu_memory_by_index == {"1": half, "2": half}
    assert found.host.memory_used_bytes > 0
    # One that emulates the pace of a GPU reports its steps and does little else.
    Path(node.runtime.folder(1).progress(0)).write_text('{"step": 1}\n')
    assert sampler.step([part])[1].utilisation_percent == 100.0


async def test_what_a_replica_occupies_is_told_by_device_as_the_driver_knows_its_processes(
    node: RuntimeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    two, one = (
        python("import time; time.sleep(600)", gpu_indexes=(0, 1)),
        python("", rank=1, gpu_indexes=(1,)),
    )
    part = Part(desired=make_part(two, one), phase=Phase.RUNNING)
    usage = {(1, 0): Usage(pids=frozenset({70, 71}), memory_bytes=1), (1, 1): Usage(pids=frozenset({80}))}
    devices = node.runtime.devices
    real = (GpuSample(index=index, utilisation_percent=1.0, memory_used_bytes=9) for index in range(3))
    monkeypatch.setattr(devices, "samples", lambda loads, said=tuple(real): said)
    by_process = {0: {70: 100}, 1: {70: 20, 71: 3, 80: 4_000}, 2: {90: 5}}
    monkeypatch.setattr(devices, "memory_by_process", lambda: by_process)
    sampler = Sampler(node.configuration, devices, node.runtime.folder)
    monkeypatch.setattr(sampler.jobs, "measure", lambda attempts: usage)
    sampler.step([part])
    first, second = sampler.waiting[-1].replicas
    assert (first.gpu_memory_bytes, first.gpu_memory_by_index) == (123, {"0": 100, "1": 23})
    assert (second.gpu_memory_bytes, second.gpu_memory_by_index) == (4_000, {"1": 4_000})
    # A driver that does not tell of processes.
    by_process.clear()
    sampler.step([part])
    silent, _ = sampler.waiting[-1].replicas
    assert (silent.gpu_memory_bytes, silent.gpu_memory_by_index) == (None, {})


def test_readings_wait_for_the_server(tmp_path: Path) -> None:
    node = RuntimeNode(tmp_path, sandbox="off", users=None, metrics_seconds=0.0)
    sampler = Sampler(node.configuration, node.runtime.devices, node.runtime.folder)
    for _ in range(70):
        sampler.step([])
    assert len(sampler.waiting) == 60
    first = sampler.next_readings()
    assert len(first) == 10
    sampler.step([])  # While the report is under way, the oldest reading makes room for a new one.
    sampler.delivered(first)
    assert len(sampler.waiting) == 51
    assert sampler.next_readings()[0].at >= first[-1].at
    node.runtime.close()


def test_a_reading_is_the_mean_of_its_samples(tmp_path: Path) -> None:
    node = RuntimeNode(tmp_path, sandbox="off", users=None, metrics_seconds=3600.0)
    sampler = Sampler(node.configuration, node.runtime.devices, node.runtime.folder)
    for percent in (100.0, 0.0, 20.0):
        sampler.since_reading.append(
            GpuSample(index=2, utilisation_percent=percent, memory_used_bytes=7, power_watts=None)
        )
    sampler.step([])
    assert not sampler.waiting
    sampler.every_seconds = 0.0
    sampler.step([])
    gpu = sampler.waiting[0].gpus[2]
    # Two samples of a device without a job came along.
    assert (gpu.index, gpu.utilisation_percent, gpu.power_watts) == (2, 24.0, 50.0)
    node.runtime.close()


def figures(**changes: object) -> Figures:
    gpus = tuple(InventoryGpu(index=index, uuid=f"GPU-{index}", memory_bytes=GPU_BYTES) for index in (0, 1))
    known = Figures(
        node='node-"1"',
        inventory=Inventory(
            gpu_model="V100", gpus=gpus, cpus=8, memory_bytes=GIB, address="", agent_version="1"
        ),
        gpus=(
            GpuSample(index=0, utilisation_percent=55.5, memory_used_bytes=3 * GIB, power_watts=200.0),
            GpuSample(index=1, utilisation_percent=1.0, memory_used_bytes=0, simulated=True),
        ),
        host=HostSample(cpu_percent=12.5),
        attempts=2,
        agent_cpu_seconds=1.25,
        agent_memory_bytes=40 * 2**20,
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def test_prometheus_reads_what_is_told() -> None:
    told = {
        (sample.name, sample.labels.get("gpu", "")): sample
        for family in text_string_to_metric_families(exposition(figures()))
        for sample in family.samples
    }
    utilisation = told["DCGM_FI_DEV_GPU_UTIL", "0"]
    assert utilisation.value == 55.5
    assert utilisation.labels == {
        "gpu": "0",
        "UUID": "GPU-0",
        "modelName": "V100",
        "Hostname": 'node-"1"',
    }
    assert told["DCGM_FI_DEV_GPU_UTIL", "1"].labels["simulated"] == "true"
    assert told["DCGM_FI_DEV_FB_USED", "0"].value == 3 * 1024
    assert told["allot_node_cpu_percent", ""].value == 12.5
    assert told["process_cpu_seconds_total", ""].value == 1.25
    # What a device or the machine cannot say has no line at all.
    assert ("DCGM_FI_DEV_POWER_USAGE", "1") not in told
    assert ("allot_node_memory_used_bytes", "") not in told


async def test_the_endpoint_answers_one_question_only() -> None:
    ports = HeldPorts()
    port = ports.hold(1)
    ports.release(1)
    server = asyncio.create_task(keep_exposing(f"127.0.0.1:{port}", figures))

    async def ask(request: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.encode())
        answer = (await reader.read()).decode()
        writer.close()
        return answer

    def is_open() -> bool:
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", port)) == 0

    await until_async(is_open)
    answer = await ask("GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith("HTTP/1.1 200 OK\r\n")
    assert 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0"' in answer
    assert (await ask("GET /secrets HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 404")
    assert (await ask("POST /metrics HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 405")
    assert await ask("GET /metrics " + "x" * 10_000) == ""
    server.cancel()
