"""What an operator does to upgrade, while jobs run: the agent is replaced by one of another version, and the
whole control plane is stopped and started again, for less than a lease and for more."""

import io
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.embedded import ports
from tests.e2e.counting import ran_undisturbed, submit_counting
from tests.e2e.installation import FAST, ROOT, Agent, Installation, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

#: The first agent there was, out of this project's history: it refuses whatever field it does not know.
FIRST_AGENT = "6371750"
#: Longer than anything here takes on a busy machine.
PATIENT = FAST | {"ALLOT_NODE_LEASE_SECONDS": "120"}
#: So short that the job still runs when the lease ends.
HASTY = FAST | {"ALLOT_NODE_LEASE_SECONDS": "4", "ALLOT_NODE_LEASE_MARGIN_SECONDS": "2"}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("upgrade")
    platform = Installation(home=folder / "home", port=ports.pick(), settings=PATIENT)
    try:
        platform.start("--no-demo")
        platform.sign_in()
        platform.add_node("patient", gpus=2)
        platform.call("POST", "tenants", {"name": "vision"})
        members = [{"tenant": "vision", "weight": 1}]
        body = {"name": "research", "guaranteed": {"V100": 2}, "members": members}
        platform.call("POST", "virtual-clusters", body)
        yield platform
    finally:
        platform.stop()


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Return a folder with the older agent's code."""
    archive = ["git", "archive", FIRST_AGENT, "platform/nodeagent"]
    archived = subprocess.run(archive, cwd=ROOT, capture_output=True, check=False)
    if archived.returncode != 0:
        pytest.skip("this checkout has no history")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as files:
        files.extractall(tmp_path, filter="data")
    return tmp_path


def replace(platform: Installation, agent: Agent, root: Path) -> None:
    """Stop the agent as a service manager does, and start the other version in its place."""
    assert agent.process is not None
    with platform.database() as database:

        def boot() -> str:
            query = "SELECT boot FROM scheduler_node WHERE name = %s"
            return database.execute(query, [agent.name]).fetchone()[0]

        before = boot()
        agent.process.terminate()
        agent.process.wait(30)
        agent.root = root
        agent.start()
        until(lambda: boot() != before, 60, "the other version to report")


def test_jobs_run_on_through_upgrade_and_downgrade_of_the_agent(platform: Installation, older: Path):
    (agent,) = platform.agents
    replace(platform, agent, older)
    begun_by_the_older = submit_counting(platform)
    replace(platform, agent, ROOT)
    begun_by_the_newer = submit_counting(platform)
    ran_undisturbed(platform, begun_by_the_older)
    replace(platform, agent, older)
    ran_undisturbed(platform, begun_by_the_newer)
    ran_undisturbed(platform, submit_counting(platform))
    replace(platform, agent, ROOT)


def test_back_within_the_lease_jobs_have_gone_on_as_if_nothing_had_been(platform: Installation):
    jobs = [submit_counting(platform), submit_counting(platform)]
    stop(platform)
    platform.start("--no-demo")
    for job in jobs:
        ran_undisturbed(platform, job)


def test_away_for_longer_than_the_lease_they_stand_still_and_go_on_where_they_were(platform: Installation):
    stop(platform)
    platform.settings = HASTY
    platform.start("--no-demo")
    # A node of its own: the other one's last lease is a long one, whatever the setting is now.
    platform.add_node("hasty", gpus=1, gpu_model="P100")
    job = submit_counting(platform, gpu_model="P100", guarantee="opportunistic")
    stop(platform)
    attempts = platform.home.parent / "nodes" / "hasty" / "attempts"
    until(lambda: list(attempts.glob("*/frozen")), 60, "the job to stand still, without a control plane")
    time.sleep(2 * int(HASTY["ALLOT_NODE_LEASE_SECONDS"]))
    platform.start("--no-demo")
    ran_undisturbed(platform, job)


def stop(platform: Installation) -> None:
    assert platform.supervisor is not None
    platform.supervisor.send_signal(signal.SIGINT)
    platform.supervisor.wait(60)
