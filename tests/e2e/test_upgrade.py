"""Another version of the agent takes over while jobs run: a real older one, out of this project's history."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.e2e.installation import ROOT, Agent, Installation, until
from tests.e2e.test_jobs import log_of

pytestmark = pytest.mark.slow

#: The first agent there was: it refuses whatever field it does not know.
FIRST_AGENT = "6371750"
MODEL = "A100"
COUNTS = """
echo "$ALLOT_ATTEMPT" >>"$ALLOT_CHECKPOINT_DIR/runs"
n=0
until [ -e "$ALLOT_CHECKPOINT_DIR/finish" ]; do echo "line $n"; n=$((n + 1)); sleep 0.05; done
echo "$n" >"$ALLOT_CHECKPOINT_DIR/lines"
"""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the older agent's code."""
    archived = subprocess.run(
        ["git", "archive", FIRST_AGENT, "platform/nodeagent"], cwd=ROOT, capture_output=True, check=False
    )
    if archived.returncode != 0:
        pytest.skip("this checkout has no history")
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def agent(platform: Installation) -> Agent:
    return platform.add_node("changing", gpus=3, gpu_model=MODEL)


def replace(platform: Installation, agent: Agent, root: Path) -> None:
    """Stop the agent as a service manager does, and start the other version in its place."""
    assert agent.process is not None
    agent.process.terminate()
    agent.process.wait(10)
    agent.root = root
    agent.start()
    with platform.database() as database:
        before = database.execute("SELECT boot FROM scheduler_node WHERE name = %s", [agent.name]).fetchone()

        def is_taken_over() -> bool:
            query = "SELECT boot FROM scheduler_node WHERE name = %s"
            return database.execute(query, [agent.name]).fetchone() != before

        until(is_taken_over, 15, "the other version to report")


def submit(platform: Installation) -> int:
    task = {
        "name": "main",
        "resources": {"gpu": 1, "gpu_model": MODEL},
        "command": ["sh", "-c", COUNTS],
    }
    job = platform.submit(
        name="counts",
        tenant="vision",
        guarantee="opportunistic",
        tasks=[task],
        checkpoint={"grace_seconds": 5},
    )
    platform.wait_for(job, "running")
    until(lambda: (folder(platform, job) / "runs").exists(), 10, "the job's first line")
    return job


def folder(platform: Installation, job: int) -> Path:
    return platform.home.parent / "checkpoints" / str(job)


def ends_well(platform: Installation, job: int) -> None:
    """Let the job end; it must have run once, without a gap in its output."""
    (folder(platform, job) / "finish").touch()
    assert platform.wait_for(job, "succeeded")["attempts"] == 1
    assert len((folder(platform, job) / "runs").read_text().split()) == 1
    lines = int((folder(platform, job) / "lines").read_text())
    expected = "".join(f"line {number}\n" for number in range(lines))
    until(lambda: log_of(platform, job) == expected, 10, "the whole output")


def test_jobs_run_on_through_upgrade_and_downgrade(platform: Installation, agent: Agent, older: Path):
    replace(platform, agent, older)
    begun_by_the_older = submit(platform)
    replace(platform, agent, ROOT)
    begun_by_the_newer = submit(platform)
    ends_well(platform, begun_by_the_older)
    replace(platform, agent, older)
    ends_well(platform, begun_by_the_newer)
    ends_well(platform, submit(platform))
