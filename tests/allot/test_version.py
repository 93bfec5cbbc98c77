"""`allot --version` says what the distribution is."""

from __future__ import annotations

import tomllib

from allot import VERSION
from tests.agent.builders import PLATFORM
from tests.allot.in_process import run


def test_the_version_is_the_distributions_and_is_told() -> None:
    project = tomllib.loads((PLATFORM / "allot" / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"allot {VERSION}\n")


def test_help_is_still_that_of_the_command() -> None:
    assert "Submit training jobs to a shared GPU cluster" in run("--help").stdout
