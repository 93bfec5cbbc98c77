"""`allot --version` says what the distribution is."""

from __future__ import annotations

import subprocess
import sys
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


def test_only_the_command_that_is_called_is_made() -> None:
    """A second interpreter, for here other tests have called commands."""
    code = """
from typer.testing import CliRunner
from allot.main import COMMANDS, app
CliRunner().invoke(app, ["market", "--help"])
print([name for name, command in COMMANDS.data.items() if hasattr(command, "params")])
"""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "['market']\n"


def test_help_lists_every_command_and_what_is_misspelt_is_named() -> None:
    listed = run("--help").stdout
    assert all(f"\n  {name} " in listed for name in ("login", "ls", "submit", "vc", "market", "audit"))
    assert "Did you mean 'submit'" in run("sumbit").stderr
