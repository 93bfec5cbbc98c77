"""A job that uses allot.training, under the real runtime: stopped as the platform does, and gone on with."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from nodeagent.messages import DesiredPart
from nodeagent.process.environment import checkpoint_folder
from tests.agent.builders import PLATFORM, make_part, make_replica, shell
from tests.agent.runtime_node import RuntimeNode
from tests.patience import until_async

PLAIN = Path(__file__).resolve().parents[2] / "examples" / "plain" / "train.py"


def plain(attempt: int, *options: str) -> DesiredPart:
    """Return one attempt of the same job."""
    replica = make_replica(
        sys.executable, str(PLAIN), "--steps", "300", *options, env={"PYTHONPATH": str(PLATFORM)}
    )
    return make_part(replica, attempt=attempt, job=7, grace_seconds=20.0)


async def test_a_preempted_job_goes_on_where_it_stopped(node: RuntimeNode) -> None:
    # What is not named in the configuration a job does not see, where there is a sandbox.
    node.configuration = replace(node.configuration, examples_folder=str(PLAIN.parents[1]))
    node.restart()
    node.renew_lease()
    await node.start(plain(1, "--step-seconds", "0.01"))
    progress = Path(node.runtime.folder(1).progress(0))
    await until_async(lambda: progress.exists() and progress.read_text().count("\n") >= 2)
    node.runtime.stop(1, 600.0)
    outcome = await node.end_of(1)
    assert (outcome.category, outcome.exit_code) == ("stopped", 143), node.text(1)
    stopped_at = json.loads(progress.read_text().splitlines()[-1])["step"]
    assert f"stopped at step {stopped_at}\n" in node.text(1)

    outcome = await node.run(plain(2))
    assert (outcome.category, outcome.exit_code) == ("", 0), node.text(2)
    assert f"going on from step {stopped_at}\n" in node.text(2)
    first = Path(node.runtime.folder(2).progress(0)).read_text().splitlines()[0]
    assert json.loads(first)["restored_step"] == stopped_at
    claims = Path(checkpoint_folder(node.configuration, plain(2))) / "claims"
    assert [path.name for path in sorted(claims.iterdir())][-1] == "0000000002-0000"


async def test_a_job_is_told_of_the_checkpoint_store_below_its_tenants_name(node: RuntimeNode) -> None:
    node.configuration = replace(
        node.configuration,
        checkpoint_store="s3://bucket/jobs/",
        checkpoint_endpoint="https://store.example",
    )
    node.restart()
    node.renew_lease()
    part = make_part(shell('echo "$ALLOT_CHECKPOINT_STORE at $ALLOT_CHECKPOINT_ENDPOINT"'), job=7)
    assert (await node.run(part)).exit_code == 0
    assert node.text() == "s3://bucket/jobs/vision/7 at https://store.example\n"
