"""Tutorials run as they are written: every block of shell, one after the other, in one folder."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.e2e.installation import ROOT, Installation
from tests.patience import PATIENCE_SECONDS

TUTORIALS = ROOT / "docs" / "tutorials"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(name: str) -> list[str]:
    """Return the blocks of shell of a tutorial. Those of `console` show what only a person can type."""
    return _BLOCK.findall((TUTORIALS / f"{name}.md").read_text())


def run(name: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """Run a tutorial in one shell, as a reader does; return what each block wrote."""
    # The environment of the checkout stands where the reader has his.
    (folder / ".venv").symlink_to(sys.prefix)
    for each in ("manage.py", "examples", "scheduler", "platform", "tenants"):
        (folder / each).symlink_to(ROOT / each)
    mark = "==== end of block"
    script = "".join(f"{block}\necho '{mark}'\n" for block in blocks(name))
    shell = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_SECONDS,
    )
    assert shell.returncode == 0, f"{name}: {shell.stdout}\n{shell.stderr}"
    return shell.stdout.split(f"{mark}\n")


@pytest.fixture
def environment(platform: Installation) -> dict[str, str]:
    named = {"ALLOT_URL": platform.url, "ALLOT_TOKEN": platform.token, "PYTHONPATH": str(ROOT / "platform")}
    return os.environ | named


@pytest.fixture
def no_agent_left(tmp_path: Path) -> Iterator[None]:
    """End the agent that a tutorial started, though a later block failed."""
    yield
    pid = tmp_path / "garage.pid"
    if pid.exists():
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


def test_the_first_job(environment: dict[str, str], tmp_path: Path) -> None:
    hello, gang, _, checked, trained, refused, waits, _ = run("first-job", tmp_path, environment)
    assert "rank 0 of 1 on a V100" in hello
    assert "rank 0 of 2" in gang
    assert "Would start" in checked
    assert "trained for 5 steps" in trained
    assert "refused, as it should be" in refused
    assert re.search(r"It starts when job \d+ has succeeded", waits)


@pytest.mark.usefixtures("no_agent_left")
def test_two_teams_share_a_machine(
    platform: Installation, environment: dict[str, str], tmp_path: Path
) -> None:
    written = run("two-teams", tmp_path, environment)
    _, machine, _, link, _, borrows, claims, quota, *_ = written
    assert "READY" in machine
    assert "RUNNING" in borrows
    assert "rank 0 has its GPU" in claims
    assert "of virtual cluster rose-bed" in claims, "for whom the borrower was preempted"
    assert "refused by the quota" in quota
    (borrower,) = platform.call("GET", "jobs?name=borrower")["results"]
    assert borrower["preemptions"] == 1
    account = {"username": "tulla", "password": "nine tulips in a row"}
    key = re.split("[/=#]", link.split()[0])[-1]
    joined = httpx.post(f"{platform.url}/api/v1/invitations/join", json={"invitation": key, **account})
    assert joined.status_code == 201, joined.text
    assert "tulla" in {
        member["username"] for member in platform.call("GET", "tenants/tulips/members")["results"]
    }


def test_policies_compared_on_a_trace(tmp_path: Path) -> None:
    first, *_ = run("compare-policies", tmp_path, dict(os.environ))
    assert "tiresias" in first
    assert (tmp_path / "report" / "report.html").exists()
