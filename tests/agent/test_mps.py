"""Jobs of one tenant that share GPUs share a Multi-Process Service; its daemon is a stand-in here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.configuration import InventoryConfiguration
from nodeagent.devices.inventory import SimulatedDevices
from nodeagent.folder import AttemptFolder, read_json
from nodeagent.messages import DesiredPart, GpuPart, InventoryGpu
from nodeagent.process.mps import PROGRAM, Mps, Service, mps_limits
from nodeagent.process.sharing import SharedGpus, enforcement_of
from tests.agent.builders import make_configuration, make_part, make_replica, python
from tests.agent.runtime_node import RuntimeNode
from tests.patience import until_async

#: Takes `-f` and `quit` as the real one does, and leaves a mark in the shared memory that clients need.
DAEMON = f"""#!{sys.executable} -IS
import os, signal, sys
from pathlib import Path
control = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"], "control")
if sys.argv[1:] == ["-f"]:
    Path("/dev/shm/service").write_text("served")
    control.with_name("made").write_text(str(os.getpid()))
    control.with_name("made").rename(control)
    signal.pause()
assert sys.stdin.read() == "quit\\n"
os.kill(int(control.read_text()), signal.SIGTERM)
"""
CLIENT = """
import os, time
from pathlib import Path
pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "")
print("service", Path(pipe, "control").read_text(), Path("/dev/shm/service").read_text(), flush=True)
time.sleep({seconds})
"""


@pytest.fixture
async def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RuntimeNode]:
    daemon = tmp_path / "bin" / PROGRAM
    daemon.parent.mkdir()
    daemon.write_text(DAEMON)
    daemon.chmod(0o755)
    monkeypatch.setenv("PATH", f"{daemon.parent}{os.pathsep}{os.environ['PATH']}")
    node = RuntimeNode(tmp_path, mps=True)
    if not node.runtime.isolated.has_sandbox or node.runtime.users is None:
        pytest.skip("jobs have no sandbox or no users of their own here")
    yield node
    await node.clean_up()
    # Services end with the attempts that used them, a moment after they are killed.
    services = [Service(folder) for folder in node.runtime.mps.folder.glob("*")]
    await until_async(lambda: not any(service.processes() for service in services))


def sharing(
    attempt: int, *, tenant: str = "vision", seconds: float = 600, shares: bool = True
) -> DesiredPart:
    replica = python(CLIENT.format(seconds=seconds), gpu_indexes=(0,))
    return make_part(replica, attempt=attempt, tenant=tenant, shares_gpus=shares)


async def test_a_tenants_jobs_meet_in_one_service_that_ends_with_the_last(serving: RuntimeNode) -> None:
    assert serving.runtime.isolation["mps"]
    for attempt, tenant in ((1, "vision"), (2, "vision"), (3, "speech")):
        await serving.start(sharing(attempt, tenant=tenant))
    first, second, other = [(await serving.line("service", attempt)).split() for attempt in (1, 2, 3)]
    users = serving.runtime.users
    assert users is not None
    assert first == second != other
    assert first[1] == other[1] == "served", "through the memory that it needs"

    serving.restart()
    for attempt in (1, 2):
        assert serving.runtime.mps.service(users.number_of("vision")).processes()
        serving.runtime.stop(attempt, 0.0)
        await serving.end_of(attempt)
        serving.runtime.forget(attempt)
    await until_async(lambda: not serving.runtime.mps.service(users.number_of("vision")).processes())
    assert serving.runtime.mps.service(users.number_of("speech")).processes()
    serving.runtime.stop(3, 0.0)
    await serving.end_of(3)
    serving.runtime.forget(3)
    await until_async(lambda: not serving.runtime.mps.service(users.number_of("speech")).processes())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start processes of other users")
def test_only_the_agents_and_the_tenants_own_processes_are_a_services(tmp_path: Path) -> None:
    service = Service(tmp_path / "31007")
    environment = {"CUDA_MPS_LOG_DIRECTORY": service.log}
    processes = [
        subprocess.Popen(["/bin/sleep", "600"], env=environment, user=user, group=user)
        for user in (0, 31007, 31999)
    ]
    try:
        assert sorted(service.processes()) == sorted(process.pid for process in processes[:2])
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def test_a_part_of_a_gpu_is_held_by_the_services_limits(serving: RuntimeNode) -> None:
    part = GpuPart(request=300, limit=605, memory_bytes=6 * 2**30 + 1)
    script = "import os\nfor name in sorted(os.environ):\n  print(name, os.environ[name], flush=True)"
    # Its GPU is not shared by others yet, and may be at any time.
    desired = make_part(python(script, gpu_indexes=(2,), gpu_part=part), shares_gpus=False)
    assert (await serving.run(desired)).exit_code == 0
    assert await serving.line("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") == "60"
    assert await serving.line("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") == "0=6144M"
    assert "ALLOT_GPU_TOKEN" not in serving.text()
    assert enforcement_of(desired, read_json(serving.runtime.folder(1).held)) == "enforced"


async def test_what_holds_a_part_is_chosen_by_the_node(tmp_path: Path) -> None:
    part = GpuPart(request=300, limit=600)
    assert mps_limits(None) == {}
    assert mps_limits(part) == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "60"}
    desired = make_part(make_replica("true", gpu_indexes=(2,), gpu_part=part))
    simulated = make_configuration(tmp_path)
    real = replace(simulated, inventory=InventoryConfiguration(kind="nvml"))
    folder = AttemptFolder(str(tmp_path))
    for configuration, has_mps, can_freeze in (
        (simulated, False, True),
        (real, False, False),
        (real, True, None),
        (replace(simulated, tokens=False), False, None),
    ):
        parts = SharedGpus(tmp_path / "tokens", configuration, has_mps=has_mps).parts(folder, desired)
        assert (parts[0]["can_freeze"] if parts else None) is can_freeze
        assert read_json(folder.held) == {"0": "enforced" if has_mps else "placement_only"}


def test_instances_of_divided_gpus_have_no_service(serving: RuntimeNode) -> None:
    class Divided(SimulatedDevices):
        def gpus(self) -> tuple[InventoryGpu, ...]:
            return tuple(replace(gpu, uuid=f"MIG-{gpu.index}") for gpu in super().gpus())

    devices = Divided("node-1", serving.configuration.inventory)
    folder = serving.runtime.root / "mps"
    mps = Mps(folder, is_enabled=True, bubblewrap="", devices=devices)
    assert (mps.is_used, mps.problem) == (False, "MPS is not for instances of divided GPUs (MIG).")
    mps = Mps(folder, is_enabled=False, bubblewrap="", devices=devices)
    assert (mps.is_used, mps.problem) == (False, "")


async def test_who_has_gpus_alone_uses_no_service(serving: RuntimeNode) -> None:
    outcome = await serving.run(sharing(1, seconds=0, shares=False))
    assert outcome.exit_code != 0
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'control'" in serving.text()


async def test_a_service_that_does_not_start_fails_the_attempt_and_says_so(serving: RuntimeNode) -> None:
    Path(serving.runtime.mps.program).write_text(f"#!{sys.executable} -IS\nraise SystemExit(1)\n")
    outcome = await serving.run(sharing(1))
    assert outcome.category == "start_failed"
    assert "nvidia-cuda-mps-control did not start" in outcome.message
