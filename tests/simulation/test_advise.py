"""`manage.py cells advise` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.document import from_document
from scheduler.simulation.cells_command import main

CLUSTER = """\
nodes:
  - {name: n, count: 4, gpu_model: V100, gpus: 8, sockets: 2, switches: 4}
virtual_clusters:
  - {name: busy, guaranteed: {V100: 8}}
  - {name: idle, guaranteed: {V100: 24}}
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """busy has two jobs of a node at a time and one node; idle has three nodes and one small job."""
    (tmp_path / "lab.yaml").write_text(CLUSTER)
    rows = ["submitted_at,gpus,duration_seconds,virtual_cluster"]
    for hour in range(0, 20, 4):
        rows += [f"{hour * 3600},8,7200,busy"] * 2
    rows.append("72000,4,600,idle")
    (tmp_path / "jobs.csv").write_text("\n".join(rows) + "\n")
    return ["--cluster", str(tmp_path / "lab.yaml"), "--jobs", str(tmp_path / "jobs.csv")]


def advise(files: list[str], *more: object) -> int:
    return main(["advise", *files, *map(str, more)])


def test_prints_what_to_change_and_why(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert advise(files, "--price", "V100=2") == 0
    said = capsys.readouterr().out
    today, advised = said.splitlines()[1:3]
    assert today.split()[:5] == ["busy", "today", "1", "V100-NODE", "8"]
    assert advised.split()[:4] == ["advised", "2", "V100-NODE", "16"]
    assert "busy: 8 GPUs more give its 10 jobs a mean delay of 0 s instead of 60 min." in said
    assert "In all 32 > 20 GPUs" in said
    assert "Tried out with 11 guaranteed jobs of 20 h" in said


def test_what_it_writes_can_be_used(files: list[str], tmp_path: Path) -> None:
    assert advise(files, "--out", tmp_path / "cells.yaml", "--json", tmp_path / "advice.json") == 0
    document = yaml.safe_load((tmp_path / "cells.yaml").read_text())
    assert compiled(from_document(document)).guaranteed("busy") == {"V100": 16}
    assert main(["check", str(tmp_path / "cells.yaml")]) == 0
    numbers = json.loads((tmp_path / "advice.json").read_text())
    assert numbers["specification"] == document
    assert numbers["jobs"] == 11
    assert [point["gpus"] for point in numbers["curves"]["busy"]][:2] == [8, 16]


def test_demands_are_kept(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert advise(files, "--keep", "idle", "--minimum", "busy:V100-SOCKET=3", "--days", 2) == 1
    assert "at least" in capsys.readouterr().out
    assert advise(files, "--minimum", "idle:V100-SOCKET=3", "--budget", "V100=28") == 0
    assert "In all 32 > 28 GPUs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--budget", "V100"], "write NAME=VALUE"),
        (["--budget", "V100=few"], "is not a number"),
        (["--budget", "V100=nan"], "write MODEL=GPUS"),
        (["--budget", "V100=28", "--budget", "V100=32"], "--budget V100 is given twice"),
        (["--price", "V100=1", "--price", "V100=2"], "--price V100 is given twice"),
        (["--price", "V100=nan"], "a price must be a number of at least 0"),
        (["--minimum", "busy=3"], "write VC:TYPE=CELLS"),
        (["--minimum", "busy:V100-SOCKET=3", "--minimum", "busy:V100-SOCKET=2"], "is given twice"),
    ],
)
def test_wrong_use_is_told(
    files: list[str], wrong: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert advise(files, *wrong) == 2
    assert words in capsys.readouterr().err


def test_names_that_do_not_exist_are_told(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert advise(files, "--keep", "bussy") == 1
    assert "did you mean 'busy'" in capsys.readouterr().out
