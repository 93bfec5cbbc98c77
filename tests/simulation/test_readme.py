"""What README.md says to type runs as it stands there."""

import re
import shlex
from pathlib import Path

import pytest

from scheduler.simulation.command import main

ROOT = Path(__file__).parents[2]


def test_the_simulation_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "README.md").read_text().replace("\\\n", " ")
    (command,) = re.findall(r"^\.venv/bin/python manage\.py simulate (.*)$", text, re.MULTILINE)
    words = shlex.split(command)
    words[words.index("--report") + 1] = str(tmp_path / "report")
    monkeypatch.chdir(ROOT)
    # A tenth of it says as well whether file and options are right.
    assert main([*words, "--limit", "40"]) == 0
    assert (tmp_path / "report" / "report.html").exists()
