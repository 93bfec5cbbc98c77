"""A PyTorch job under the real runtime, stopped and gone on with as the platform does: not a bit is lost."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.configuration import InventoryConfiguration
from nodeagent.devices.nvml import NoDriver, NvmlDevices
from nodeagent.messages import DesiredPart
from tests.agent.builders import PLATFORM, make_part, make_replica, shell
from tests.agent.runtime_node import RuntimeNode
from tests.patience import PATIENCE_SECONDS, until_async

SCRIPT = Path(__file__).with_name("train.py")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
STEPS = 120

torch = importlib.util.find_spec("torch")
pytestmark = pytest.mark.skipif(torch is None, reason="PyTorch is not installed: pip install torch")
#: The folder of installed packages in which it is.
PACKAGES = str(Path(torch.origin).parents[1]) if torch is not None and torch.origin is not None else ""
ENVIRONMENT = {"PYTHONPATH": f"{PLATFORM}:{PACKAGES}", "OMP_NUM_THREADS": "1"}


def training(node: RuntimeNode, attempt: int, job: int, *, step_seconds: float = 0.0) -> DesiredPart:
    """Return an attempt of the job, which writes its losses beside its checkpoints."""
    losses = Path(node.configuration.checkpoint_folder, str(job), "losses")
    replica = make_replica(
        sys.executable,
        str(SCRIPT),
        *(str(losses), str(STEPS), str(step_seconds)),
        env=ENVIRONMENT,
    )
    return make_part(replica, attempt=attempt, job=job, grace_seconds=60.0)


async def losses_of(node: RuntimeNode, *, is_interrupted: bool, first_attempt: int) -> list[str]:
    job = 100 + first_attempt
    if is_interrupted:
        await node.start(training(node, first_attempt, job, step_seconds=0.02))
        file = Path(node.configuration.checkpoint_folder, str(job), "losses")
        await until_async(lambda: file.exists() and file.read_text().count("\n") > STEPS // 4)
        node.runtime.stop(first_attempt, 60.0)
        outcome = await node.end_of(first_attempt)
        assert (outcome.category, outcome.exit_code) == ("stopped", 143), node.text(first_attempt)
        first_attempt += 1
    outcome = await node.run(training(node, first_attempt, job))
    assert outcome.exit_code == 0, node.text(first_attempt)
    assert ("going on from step" in node.text(first_attempt)) == is_interrupted
    return Path(node.configuration.checkpoint_folder, str(job), "losses").read_text().splitlines()


async def suspend_and_resume(node: RuntimeNode, expected_device: str) -> None:
    node.configuration = replace(node.configuration, readable_folders=(str(SCRIPT.parent), PACKAGES))
    node.restart()
    node.renew_lease()
    undisturbed = await losses_of(node, is_interrupted=False, first_attempt=1)
    assert len(undisturbed) == STEPS
    assert f"training on {expected_device}" in node.text(1)
    assert await losses_of(node, is_interrupted=True, first_attempt=2) == undisturbed


@pytest.mark.slow
async def test_a_suspended_job_goes_on_bit_for_bit(node: RuntimeNode) -> None:
    await suspend_and_resume(node, "cpu")


@pytest.mark.slow
async def test_under_torchrun_a_gang_goes_on_with_fewer_replicas(node: RuntimeNode) -> None:
    """Each replica is a node of torchrun's. Told to stop, all save at one step; one alone goes on there."""
    node.configuration = replace(
        node.configuration, examples_folder=str(EXAMPLES), readable_folders=(PACKAGES,)
    )
    node.restart()
    node.renew_lease()
    launch = (
        "exec python -m torch.distributed.run --nnodes=$NNODES --node-rank=$NODE_RANK"
        " --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT --nproc-per-node=1"
        " $ALLOT_EXAMPLES/pytorch/train.py --epochs 2"
    )
    pair = [shell(f"{launch} --step-seconds 0.05", rank=rank, env=ENVIRONMENT) for rank in (0, 1)]
    desired = make_part(*pair, job=7, grace_seconds=60.0)
    assert await node.prepare(desired)
    node.runtime.start(replace(desired, master_address="127.0.0.1", master_port=node.ports[1] or 0))
    progress = Path(node.runtime.folder(1).progress(0))
    await until_async(
        lambda: (progress.exists() and progress.read_text().count("\n") >= 3) or node.outcomes, 90
    )
    node.runtime.stop(1, 60.0)
    assert (await node.end_of(1)).category == "stopped", node.text(1)
    stopped = {
        line.rpartition(" ")[2]
        for rank in (0, 1)
        for line in node.text(1, rank).splitlines()
        if "stopped at step" in line
    }
    assert len(stopped) == 1, node.text(1)

    alone = make_part(shell(launch, env=ENVIRONMENT), attempt=2, job=7)
    assert await node.prepare(alone)
    node.runtime.start(replace(alone, master_address="127.0.0.1", master_port=node.ports[2] or 0))
    await until_async(lambda: 2 in node.outcomes, seconds=2 * PATIENCE_SECONDS)
    assert node.outcomes[2].exit_code == 0, node.text(2)
    assert f"going on from step {stopped.pop()}\n" in node.text(2)
    assert "done: accuracy" in node.text(2)


@pytest.mark.gpu
async def test_a_suspended_job_goes_on_bit_for_bit_on_a_gpu(node: RuntimeNode) -> None:
    try:
        NvmlDevices()
    except NoDriver as error:
        pytest.skip(str(error))
    node.configuration = replace(node.configuration, inventory=InventoryConfiguration(kind="nvml"))
    await suspend_and_resume(node, "cuda")
