"""A PyTorch job under the real runtime, stopped and gone on with as the platform does: not a bit is lost."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.configuration import InventoryConfiguration
from nodeagent.messages import DesiredPart
from nodeagent.nvml import NoDriver, NvmlDevices
from tests.agent.builders import PLATFORM, make_part, make_replica
from tests.agent.runtime_node import RuntimeNode, until

SCRIPT = Path(__file__).with_name("train.py")
STEPS = 120

torch = importlib.util.find_spec("torch")
pytestmark = pytest.mark.skipif(torch is None, reason="PyTorch is not installed: pip install torch")


def training(node: RuntimeNode, attempt: int, job: int, *, step_seconds: float = 0.0) -> DesiredPart:
    """Return an attempt of the job, which writes its losses beside its checkpoints."""
    assert torch is not None
    assert torch.submodule_search_locations is not None
    (package,) = torch.submodule_search_locations
    losses = Path(node.configuration.checkpoint_folder, str(job), "losses")
    replica = make_replica(
        sys.executable,
        str(SCRIPT),
        *(str(losses), str(STEPS), str(step_seconds)),
        env={"PYTHONPATH": f"{PLATFORM}:{Path(package).parent}", "OMP_NUM_THREADS": "1"},
    )
    return make_part(replica, attempt=attempt, job=job, grace_seconds=60.0)


async def losses_of(node: RuntimeNode, *, is_interrupted: bool, first_attempt: int) -> list[str]:
    job = 100 + first_attempt
    if is_interrupted:
        await node.start(training(node, first_attempt, job, step_seconds=0.02))
        file = Path(node.configuration.checkpoint_folder, str(job), "losses")
        await until(lambda: file.exists() and file.read_text().count("\n") > STEPS // 4)
        node.runtime.stop(first_attempt, 60.0)
        outcome = await node.end_of(first_attempt)
        assert (outcome.category, outcome.exit_code) == ("stopped", 143), node.text(first_attempt)
        first_attempt += 1
    outcome = await node.run(training(node, first_attempt, job))
    assert outcome.exit_code == 0, node.text(first_attempt)
    assert ("going on from step" in node.text(first_attempt)) == is_interrupted
    return Path(node.configuration.checkpoint_folder, str(job), "losses").read_text().splitlines()


async def suspend_and_resume(node: RuntimeNode, expected_device: str) -> None:
    assert torch is not None
    assert torch.submodule_search_locations is not None
    (package,) = torch.submodule_search_locations
    readable = (str(SCRIPT.parent), str(Path(package).parent))
    node.configuration = replace(node.configuration, readable_folders=readable)
    node.restart()
    node.renew_lease(600.0)
    undisturbed = await losses_of(node, is_interrupted=False, first_attempt=1)
    assert len(undisturbed) == STEPS
    assert f"training on {expected_device}" in node.text(1)
    assert await losses_of(node, is_interrupted=True, first_attempt=2) == undisturbed


@pytest.mark.slow
async def test_a_suspended_job_goes_on_bit_for_bit(node: RuntimeNode) -> None:
    await suspend_and_resume(node, "cpu")


@pytest.mark.gpu
async def test_a_suspended_job_goes_on_bit_for_bit_on_a_gpu(node: RuntimeNode) -> None:
    try:
        NvmlDevices()
    except NoDriver as error:
        pytest.skip(str(error))
    node.configuration = replace(node.configuration, inventory=InventoryConfiguration(kind="nvml"))
    await suspend_and_resume(node, "cuda")
