"""`manage.py cells check`: every mistake with its place, or what each virtual cluster gets."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.management.commands.cells import Command
from scheduler.simulation.cells_command import main
from tests.scheduler.builders import make_node, make_vc

ROOT = Path(__file__).resolve().parents[2]

DOCUMENT: dict[str, Any] = {
    "types": {
        "V100-SWITCH": {"of": "V100", "count": 2},
        "V100-NODE": {"of": "V100-SWITCH", "count": 4, "node": True},
        "V100-RACK": {"of": "V100-NODE", "count": 2},
    },
    "physical": [
        {"type": "V100-RACK", "name": "rack-1", "nodes": ["n1", "n2"]},
        {"type": "V100-RACK", "name": "rack-2", "nodes": ["n3", "n4"]},
    ],
    "virtual_clusters": {
        "vision": {"cells": {"V100-NODE": 1, "V100-SWITCH": 2}, "pinned": {"demo": "rack-2/n3"}},
        "speech": {},
    },
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cells.yaml"
    path.write_text(yaml.safe_dump(DOCUMENT, sort_keys=False))
    return path


def test_it_says_what_everybody_gets_and_needs_no_settings(file: Path) -> None:
    command = [sys.executable, "manage.py", "cells", "check", str(file)]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "V100-RACK: 2 V100-RACK, 4 V100-NODE, 16 V100-SWITCH, 32 V100",
        "vision: 1 V100-NODE, 2 V100-SWITCH, rack-2/n3 as demo: 20 GPUs of V100",
        "speech: no cells",
    ]


def test_every_mistake_is_a_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(yaml.safe_dump({**DOCUMENT, "virtual_clusters": {"a": {"cells": {"X": 1, "Y": -1}}}}))
    assert main(["check", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{file}: virtual_clusters.a.cells.X: the hardware has no cells of type X (one of: V100, V100-NODE,"
        " V100-RACK, V100-SWITCH)",
        f"{file}: virtual_clusters.a.cells.Y: -1 is less than 0 (a whole number from 0)",
    ]


def test_a_file_that_can_not_be_read_is_told_with_its_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("types: {\n  a: [")
    assert main(["check", str(file)]) == 2
    assert f"cells: {file}:2: is not YAML" in capsys.readouterr().err
    assert main(["check", str(file) + "-not-there"]) == 2


@pytest.mark.django_db
def test_nodes_and_virtual_clusters_are_looked_up_if_asked_for(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("n1", "n2", "n3"):
        make_node(name)
    make_vc("vision")

    def check() -> list[str]:
        with pytest.raises(SystemExit) as end:
            Command().run_from_argv(["manage.py", "cells", "check", str(file), "--nodes-from-database"])
        lines = capsys.readouterr().out.splitlines()
        assert end.value.code == (1 if lines[0].startswith(str(file)) else 0)
        return lines

    assert [line.split(": ")[1] for line in check()] == ["virtual_clusters.speech", "physical[1].nodes[1]"]
    make_node("n4")
    make_vc("speech")
    assert check()[0].startswith("V100-RACK: ")
