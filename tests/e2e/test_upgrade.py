"""Another version of the agent takes over while jobs run: a real older one, out of this project's history."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.e2e.counting import ran_undisturbed, submit_counting
from tests.e2e.installation import ROOT, Agent, Installation, until

pytestmark = pytest.mark.slow

#: The first agent there was: it refuses whatever field it does not know.
FIRST_AGENT = "6371750"
MODEL = "A100"


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
    return submit_counting(platform, gpu_model=MODEL, guarantee="opportunistic")


def test_jobs_run_on_through_upgrade_and_downgrade(platform: Installation, agent: Agent, older: Path):
    replace(platform, agent, older)
    begun_by_the_older = submit(platform)
    replace(platform, agent, ROOT)
    begun_by_the_newer = submit(platform)
    ran_undisturbed(platform, begun_by_the_older)
    replace(platform, agent, older)
    ran_undisturbed(platform, begun_by_the_newer)
    ran_undisturbed(platform, submit(platform))
