"""allot artefacts: a job's files, listed and downloaded from the real server."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from scheduler.models import Job
from tests.allot.in_process import Allot
from tests.allot.test_real_api import allot, url

__all__ = ["allot", "url"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(allot: Allot) -> int:
    return int(allot("submit", "-q", "-g", "1", "--", "true").stdout)


@pytest.fixture
def own(settings, tmp_path: Path, job: int) -> Path:
    settings.CONFIG = settings.CONFIG.model_copy(update={"checkpoint_folder": str(tmp_path / "shared")})
    folder = tmp_path / "shared" / str(job)
    (folder / "step-100").mkdir(parents=True)
    (folder / "step-100" / "model.pt").write_bytes(b"w" * 12_345)
    (folder / "step-100" / os.fsdecode(b"\x1b[2J\xff")).touch()
    (folder / "latest").symlink_to("step-100")
    return folder


def test_a_folder_is_listed_with_sizes_and_times(allot: Allot, job: int, own: Path) -> None:
    listed = allot("artefacts", str(job))
    lines = [line.split() for line in listed.stdout.splitlines()]
    assert (listed.exit_code, lines[0]) == (0, ["BYTES", "MODIFIED", "NAME"])
    assert [line[0] for line in lines[1:]] == ["-", "-"]
    assert [line[3:] for line in lines[1:]] == [["latest", "(link)"], ["step-100/"]]
    below = allot("artefacts", str(job), "step-100", "-o", "json")
    assert [(entry["path"], entry["bytes"]) for entry in json.loads(below.stdout)] == [
        (r"step-100/\x1b[2J\xff", 0),
        ("step-100/model.pt", 12_345),
    ]
    assert "12,345" in allot("artefacts", str(job), "step-100").stdout
    short = allot("artefacts", str(job), "step-100", "-n", "1")
    assert len(short.stdout.splitlines()) == 2
    assert "There is more" in short.stderr


def test_more_than_a_page_is_listed_whole(allot: Allot, job: int, own: Path) -> None:
    for number in range(450):
        (own / "step-100" / f"{number:04}").touch()
    found = json.loads(allot("artefacts", str(job), "step-100", "-o", "json").stdout)
    assert len(found) == len({entry["path"] for entry in found}) == 452


def test_a_file_is_downloaded_under_a_name_or_into_a_folder(
    allot: Allot, job: int, own: Path, tmp_path: Path
) -> None:
    target = tmp_path / "mine.pt"
    done = allot("artefacts", str(job), "step-100/model.pt", "--download", str(target))
    assert done.exit_code == 0, done.stderr
    assert target.read_bytes() == b"w" * 12_345
    assert "12,345 bytes" in done.stderr
    (own / "ré sumé").write_text("text")
    for name in ("step-100/model.pt", "ré sumé", r"step-100/\x1b[2J\xff"):
        assert allot("artefacts", str(job), name, "--download", str(tmp_path)).exit_code == 0
        assert (tmp_path / name.rpartition("/")[2]).is_file()


def test_what_can_not_be_had_is_said_and_leaves_nothing(
    allot: Allot, job: int, own: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    for path, code, said in (
        ("latest", 1, "leads to a link, which is not followed"),
        ("step-100", 1, "leads to a folder"),
        ("../1", 1, "path: has '..' among its names"),
        ("..", 1, "path: has '..' among its names"),
        ("none", 3, "There is no such file"),
    ):
        refused = allot("artefacts", str(job), path, "--download", str(tmp_path))
        assert (refused.exit_code, said in refused.stderr) == (code, True), refused.stderr
    assert sorted(tmp_path.iterdir()) == before
    assert allot("artefacts", str(job), "--download", ".").exit_code == 2
    own.rename(tmp_path / "gone")
    assert allot("artefacts", str(job)).stderr == "The folder is empty.\n"


def test_a_server_that_does_not_see_the_folder_says_so(allot: Allot, job: int) -> None:
    refused = allot("artefacts", str(job))
    assert refused.exit_code == 1
    assert "ALLOT_CHECKPOINT_FOLDER" in refused.stderr
    assert Job.objects.get(id=job).state == "queued"
