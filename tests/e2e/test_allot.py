"""The command line against a running platform, also while its web server dies."""

import os
import subprocess
import sys

import httpx
import pytest

from tests.e2e.installation import ROOT, Installation
from tests.patience import PATIENCE_SECONDS, until
from tests.processes import signal_process

#: Writes lines until a file says that it is enough.
COUNTS = """i=0
until [ -e "$ALLOT_CHECKPOINT_DIR/enough" ]; do i=$((i + 1)); echo line $i; sleep 0.1; done
echo the end; exit 3"""


@pytest.fixture
def environment(platform: Installation) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(ROOT / "platform"),
        "ALLOT_URL": platform.url,
        "ALLOT_TOKEN": platform.token,
    }


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "allot", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_web(platform: Installation) -> None:
    assert signal_process(platform.pid_of("web"))


def answers(platform: Installation) -> bool:
    try:
        return httpx.get(f"{platform.url}/readyz").is_success
    except httpx.TransportError:
        return False


def output(platform: Installation, job: int, attempt: int) -> str:
    answer = platform.call("GET", f"jobs/{job}/logs?attempt={attempt}&limit=1000")
    return "".join(chunk["text"] for chunk in answer["chunks"])


def submit_arguments(command: str, *more: str) -> tuple[str, ...]:
    return ("submit", *more, "--tenant", "vision", "--name", "cli", "-g", "1", "--", "sh", "-c", command)


def test_a_killed_web_server_costs_a_follower_no_line_and_no_exit_code(
    platform: Installation, environment: dict[str, str]
):
    following = start(environment, *submit_arguments(COUNTS, "--follow"))
    assert following.stdout is not None
    assert following.stderr is not None
    with following.stdout, following.stderr:
        # Not communicate(), which does not know of what readline() has read ahead.
        printed = following.stdout.readline()
        job = platform.call("GET", "jobs?q=cli")["results"][0]
        kill_web(platform)
        until(lambda: answers(platform), "the web server to be started again")
        # Lines that the server that was killed has never seen.
        meanwhile = output(platform, job["id"], 1).count("\n")
        while printed.count("\n") <= meanwhile:
            line = following.stdout.readline()
            assert line, following.stderr.read()
            printed += line
        (platform.home.parent / "checkpoints" / str(job["id"]) / "enough").touch()
        printed, told = printed + following.stdout.read(), following.stderr.read()
    assert following.wait(PATIENCE_SECONDS) == 3, told
    assert "Trying again" in told
    job = platform.job(job["id"])
    # An outage longer than the node's lease costs an attempt, whose last lines may come too late.
    *earlier, last = (output(platform, job["id"], number) for number in range(1, job["attempts"] + 1))
    assert last.endswith("the end\n")
    assert printed.endswith(last)
    assert "".join(earlier).startswith(printed.removesuffix(last))


def test_a_submission_while_the_web_server_is_away_is_one_job(
    platform: Installation, environment: dict[str, str]
):
    before = {job["id"] for job in platform.call("GET", "jobs?q=cli&page_size=200")["results"]}
    kill_web(platform)
    submitting = start(environment, *submit_arguments("true", "-q", "--wait"))
    printed, told = submitting.communicate(timeout=2 * PATIENCE_SECONDS)
    assert submitting.returncode == 0, told
    job = until(lambda: platform.wait_for(int(printed), "succeeded"), "the job")
    jobs = platform.call("GET", "jobs?q=cli&page_size=200")["results"]
    assert {found["id"] for found in jobs} - before == {job["id"]}
