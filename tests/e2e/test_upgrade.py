"""What an operator does to upgrade, while jobs run: the agent is replaced by one of another version, the
whole control plane is stopped and started again, for less than a lease and for more, or by a newer one."""

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.embedded import ports
from tests.e2e.counting import ran_undisturbed, submit_counting
from tests.e2e.installation import FAST, ROOT, Agent, Installation
from tests.patience import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

#: The first agent there was, out of this project's history: it refuses whatever field it does not know.
FIRST_AGENT = "6371750"
#: The last platform before the server was folded, and before the specification was a typed value.
EARLIER_PLATFORM = "40d71b0e"
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


def checkout(commit: str, folder: Path, *paths: str) -> Path:
    """Return the folder, with these paths of an earlier commit in it; all of them where none is named."""
    archive = ["git", "archive", commit, *paths]
    archived = subprocess.run(archive, cwd=ROOT, capture_output=True, check=False)
    if archived.returncode != 0:
        pytest.skip("this checkout has no history")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Return a folder with the older agent's code."""
    return checkout(FIRST_AGENT, tmp_path, "platform/nodeagent")


def replace(platform: Installation, agent: Agent, root: Path) -> None:
    """Stop the agent as a service manager does, and start the other version in its place."""
    assert agent.process is not None
    with platform.database() as database:

        def boot() -> str:
            query = "SELECT boot FROM scheduler_node WHERE name = %s"
            return database.execute(query, [agent.name]).fetchone()[0]

        before = boot()
        agent.process.terminate()
        agent.process.wait(PATIENCE_SECONDS)
        agent.root = root
        agent.start()
        until(lambda: boot() != before, "the other version to report")


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
    until(lambda: list(attempts.glob("*/frozen")), "the job to stand still, without a control plane")
    later = time.monotonic() + 2 * int(HASTY["ALLOT_NODE_LEASE_SECONDS"])
    until(lambda: time.monotonic() > later, "two leases to be over")
    platform.start("--no-demo")
    ran_undisturbed(platform, job)


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[Installation]:
    """An earlier platform whose virtual clusters have policies that remember, with agents of its age."""
    root = checkout(EARLIER_PLATFORM, tmp_path / "earlier")
    shutil.copytree(ROOT / "frontend" / "dist", root / "frontend" / "dist")
    platform = Installation(home=tmp_path / "home", port=ports.pick(), root=root, settings=PATIENT)
    try:
        platform.start("--no-demo")
        platform.sign_in()
        platform.call("POST", "tenants", {"name": "vision"})
        platform.call("POST", "tenants", {"name": "speech"})
        members = [{"tenant": "vision", "weight": 2}, {"tenant": "speech", "weight": 1}]
        models = {"V100": "themis", "P100": "gavel", "K80": "gandiva_fair"}
        for gpu_model, policy in models.items():
            platform.add_node(gpu_model.lower(), gpus=2, gpu_model=gpu_model, root=root)
            name = f"of-{gpu_model.lower()}"
            body = {"name": name, "guaranteed": {gpu_model: 2}, "members": members, "policy": policy}
            # A text, as these versions had it.
            body["placer"] = "delay:relax_after_seconds=1"
            platform.call("POST", "virtual-clusters", body)
        yield platform
    finally:
        platform.stop()


def test_an_earlier_platform_is_taken_over_with_its_jobs_agents_rounds_and_clients(earlier: Installation):
    models = ("V100", "P100", "K80")
    # The earlier platform gave a whole GPU to a job that asks for a part.
    counting = {
        model: submit_counting(earlier, gpu_model=model, gpu=0.5 if model == "K80" else 1, **vc(model))
        for model in models
    }
    short = [
        submit_short(earlier, model, tenant) for model in models for tenant in ("vision", "speech", "speech")
    ]
    until(lambda: len(stored_rounds(earlier)) >= 10, "ten rounds", seconds=2 * PATIENCE_SECONDS)
    numbers = stored_rounds(earlier)
    stop(earlier)
    client = earlier.root / "platform"
    earlier.root = ROOT
    earlier.start("--no-demo")

    said = earlier.manage("replay_round", *map(str, numbers))
    assert said.count("identical plan") == len(numbers)
    taken_over = earlier.call("GET", "virtual-clusters/of-v100")
    assert taken_over["policy_plugin"] == {"name": "themis", "parameters": {}}
    assert taken_over["placer_plugin"] == {"name": "delay", "parameters": {"relax_after_seconds": 1}}
    # The earlier agents, with the jobs they run, and an earlier client with its token go on as they were.
    for model in ("V100", "P100"):
        ran_undisturbed(earlier, counting[model])
    assert "counts" in allot(earlier, client, "ls", "--all")
    job = ("--tenant", "vision", "--vc", "of-v100", "--model", "V100", "-g", "1")
    assert "followed" in allot(earlier, client, "submit", "--follow", *job, "--", "echo", "followed")
    replace(earlier, next(agent for agent in earlier.agents if agent.name == "k80"), ROOT)
    ran_undisturbed(earlier, counting["K80"])
    for job in short:
        earlier.wait_for(job, "succeeded")


def submit_short(platform: Installation, gpu_model: str, tenant: str) -> int:
    task = {"name": "main", "resources": {"gpu": 1, "gpu_model": gpu_model}, "command": ["sleep", "3"]}
    return platform.submit(name="short", tenant=tenant, tasks=[task], **vc(gpu_model))


def stored_rounds(platform: Installation) -> list[int]:
    with platform.database() as database:
        query = "SELECT number FROM scheduler_round WHERE snapshot IS NOT NULL ORDER BY number"
        return [number for (number,) in database.execute(query)]


def allot(platform: Installation, source: Path, *arguments: str) -> str:
    """Return what the command of that source folder writes."""
    environment = os.environ | {
        "PYTHONPATH": str(source),
        "ALLOT_URL": platform.url,
        "ALLOT_TOKEN": platform.token,
    }
    done = subprocess.run(
        [sys.executable, "-m", "allot", *arguments],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def vc(gpu_model: str) -> dict[str, str]:
    return {"virtual_cluster": f"of-{gpu_model.lower()}"}


def stop(platform: Installation) -> None:
    assert platform.supervisor is not None
    platform.supervisor.send_signal(signal.SIGINT)
    platform.supervisor.wait(PATIENCE_SECONDS)
