"""A working folder travels: packed here, uploaded, fetched by a real agent, and the job starts in it."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.e2e.installation import ROOT, Agent, Installation
from tests.e2e.test_jobs import log_of, spec
from tests.patience import until


@pytest.fixture
def environment(platform: Installation) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(ROOT / "platform"),
        "ALLOT_URL": platform.url,
        "ALLOT_TOKEN": platform.token,
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "words.py").write_text("WORDS = 'brought along'\n")
    (folder / "train.py").write_text("from lib.words import WORDS\nprint(WORDS)\n")
    (folder / "large.pt").write_text("left out")
    (folder / ".gitignore").write_text("*.pt\n")
    return folder


def test_a_job_runs_a_script_that_was_uploaded(
    platform: Installation, environment: dict[str, str], project: Path
):
    command = ["run", "--upload", ".", "--tenant", "vision", "-g", "1", "--", "python", "train.py"]
    ran = subprocess.run(
        [sys.executable, "-m", "allot", *command],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "brought along" in ran.stdout
    (job,) = platform.call("GET", "jobs?page_size=1")["results"]
    code = job["code"]
    assert (code["files"], code["is_removed"]) == (3, False)
    content = platform.api.get(f"jobs/{job['id']}/code").content
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.getnames() == [".gitignore", "lib/words.py", "train.py"]
    # It is submitted again by what it says, and requeued with it.
    again = platform.submit(**spec("python train.py; exec sleep 600", code={"archive": code["archive"]}))
    platform.wait_for(again, "running")
    platform.call("POST", f"jobs/{again}/requeue", {})
    until(lambda: platform.call("GET", f"jobs/{again}")["attempts"] == 2, "its second attempt")
    platform.wait_for(again, "running")
    until(lambda: log_of(platform, again) == "brought along\n", "the log of its second attempt")
    platform.call("POST", f"jobs/{again}/cancel", {})
    platform.wait_for(again, "cancelled")


def test_a_job_runs_a_commit_of_a_repository(platform: Installation, left: Agent, project: Path):
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "first")
    code = {"git": f"file://{project}", "commit": git("rev-parse", "HEAD")}
    only = {"only": [left.name], "avoid": []}
    refused = platform.submit(**spec("true", code=code, nodes=only, retry={"max_attempts": 1}))
    failed = platform.wait_for(refused, "failed")
    assert "accepts no git addresses that begin with file://" in failed["message"]
    assert failed["attempt"]["failure"] == "code_unavailable"
    configuration = json.loads(left.configuration.read_text())
    left.configuration.write_text(json.dumps(configuration | {"code": {"git": ["https", "file"]}}))
    left.kill()
    left.start()
    job = platform.submit(**spec("python train.py", code=code, nodes=only))
    platform.wait_for(job, "succeeded")
    assert until(lambda: log_of(platform, job), "the log") == "brought along\n"
    shown = platform.call("GET", f"jobs/{job}")["code"]
    assert (shown["git"], shown["commit"], shown["archive"]) == (code["git"], code["commit"], None)
