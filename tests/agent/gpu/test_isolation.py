"""What a job finds of the machine's real devices: those that it was given, whatever it sets for itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent.configuration import InventoryConfiguration
from nodeagent.nvml import NoDriver, NvmlDevices
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
    if not real.runtime.sandbox.is_used:
        pytest.skip(real.runtime.sandbox.problem)
    uuids = [gpu.uuid for gpu in NvmlDevices().gpus()]
    for attempt, uuid in enumerate(uuids, start=1):
        assert await found_by_a_job(real, attempt, (attempt - 1,), UNSET) == [uuid]
    assert await found_by_a_job(real, len(uuids) + 1, (), UNSET) == []
