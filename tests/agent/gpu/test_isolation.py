"""What a job finds of the machine's real devices: those that it was given, whatever it sets for itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.configuration import InventoryConfiguration
from nodeagent.devices.nvml import NoDriver, NvmlDevices
from tests.agent.builders import make_part, python
from tests.agent.runtime_node import RuntimeNode

pytestmark = pytest.mark.gpu

#: Asks the driver itself, as every CUDA program does.
COUNT = """
import ctypes, os, uuid
{before}
cuda, count, found = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), []
if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0:
    for device in range(count.value):
        name = (ctypes.c_ubyte * 16)()
        assert cuda.cuDeviceGetUuid_v2(name, device) == 0
        found.append(str(uuid.UUID(bytes=bytes(name))))
print("found", *sorted(found))
"""
#: Makes a context on its first device, as the first CUDA call of a program does, and keeps it.
WORK = """
import ctypes, time
cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
print("context", cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device), flush=True)
time.sleep(600)
"""
AS_IT_IS, UNSET = "", "os.environ.pop('CUDA_VISIBLE_DEVICES')"


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RuntimeNode]:
    try:
        NvmlDevices()
    except NoDriver as error:
        pytest.skip(str(error))
    node = RuntimeNode(tmp_path, inventory=InventoryConfiguration(kind="nvml"))
    yield node
    await node.clean_up()


async def test_jobs_of_one_tenant_that_share_a_device_are_served_together(real: RuntimeNode) -> None:
    real.configuration = replace(real.configuration, mps=True)
    real.restart()
    real.renew_lease()
    if not real.runtime.mps.is_used:
        pytest.skip(real.runtime.mps.problem)
    for attempt in (1, 2):
        part = make_part(python(WORK, gpu_indexes=(0,)), attempt=attempt, shares_gpus=True)
        await real.start(part)
        assert await real.line("context", attempt) == "0", real.text(attempt)
    users = real.runtime.users
    service = real.runtime.mps.service(0 if users is None else users.number_of("vision"))
    assert len(service.processes()) >= 2, "the daemon, and the server that it started for both"


async def found_by_a_job(node: RuntimeNode, attempt: int, gpus: tuple[int, ...], before: str) -> list[str]:
    replica = python(COUNT.format(before=before), gpu_indexes=gpus)
    outcome = await node.run(make_part(replica, attempt=attempt))
    assert outcome.exit_code == 0, node.text(attempt)
    return [f"GPU-{name}" for name in (await node.line("found", attempt)).split()]


async def test_a_job_finds_its_own_device_by_its_identity(real: RuntimeNode) -> None:
    uuids = [gpu.uuid for gpu in NvmlDevices().gpus()]
    for attempt, uuid in enumerate(uuids, start=1):
        assert await found_by_a_job(real, attempt, (attempt - 1,), AS_IT_IS) == [uuid]


async def test_in_the_sandbox_no_setting_opens_another_device(real: RuntimeNode) -> None:
    if not real.runtime.isolated.has_sandbox:
        pytest.skip(real.runtime.isolated.warning())
    uuids = [gpu.uuid for gpu in NvmlDevices().gpus()]
    for attempt, uuid in enumerate(uuids, start=1):
        assert await found_by_a_job(real, attempt, (attempt - 1,), UNSET) == [uuid]
    assert await found_by_a_job(real, len(uuids) + 1, (), UNSET) == []
