"""The notebook brings Jupyter along where the node's Python has none, or says in one line what is missing."""

import os
import subprocess
from pathlib import Path

import pytest

SERVE = Path(__file__).parents[2] / "examples" / "notebook" / "serve.sh"
#: Stands for a Python without Jupyter; what `-m venv` makes has it once pip was there, unless that fails.
PYTHON = """#!/bin/sh
echo "$0 $*" >>"$CALLS"
case "$*" in
    "-m jupyter "*) [ -e "${0%python}jupyter" ] ;;
    "-m venv "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    "-m pip install "*) [ -z "$OFFLINE" ] && touch "${0%python}jupyter" ;;
esac
"""


def serve(folder: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "CALLS": str(folder / "calls"),
        "ALLOT_CHECKPOINT_DIR": str(folder),
        "ALLOT_PORT_NOTEBOOK": "20123",
        "ALLOT_PATH_NOTEBOOK": "/job/7/notebook/",
        **more,
    }
    return subprocess.run(["sh", SERVE], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def test_jupyter_is_brought_along_once(folder: Path) -> None:
    first, second = serve(folder), serve(folder)
    assert (first.returncode, second.returncode) == (0, 0)
    # It takes a minute, in which its user sees no page.
    assert "pip installs it" in first.stdout
    assert second.stdout == ""
    calls = (folder / "calls").read_text()
    assert calls.count("-m pip install --quiet jupyterlab") == 1
    last = calls.splitlines()[-1]
    assert last.startswith(f"{folder}/.jupyter/bin/python -m jupyter lab --ip 127.0.0.1 --port 20123 ")


def test_jupyter_that_is_there_is_used(folder: Path) -> None:
    (folder / "jupyter").touch()
    assert serve(folder).returncode == 0
    assert "venv" not in (folder / "calls").read_text()


def test_what_is_missing_is_said_in_the_last_line_by_which_no_other_attempt_is_made(folder: Path) -> None:
    ended = serve(folder, OFFLINE="1")
    assert ended.returncode == 127
    installs, line = ended.stdout.splitlines()
    assert installs.startswith("Jupyter is not installed here")
    assert line.startswith("pip could not install Jupyter: add jupyterlab")
    assert ended.stderr == ""
