"""What the commands without Django do before they begin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane import command_line


def test_simulations_do_their_linear_algebra_by_one_thread_unless_another_number_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr("sys.argv", ["manage.py", "simulate", "--help"])
    with pytest.raises(SystemExit) as end:
        command_line.main()
    assert end.value.code == 0
    assert [os.environ[name] for name in names] == ["1", "3", "1"]


def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run manage.py where no settings are."""
    root = Path(__file__).parents[2]
    bare = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, root / "manage.py", *arguments],
        cwd=root, env=bare | {"ALLOT_HOME": "/nonexistent"}, capture_output=True, text=True,
    )  # fmt: skip


def test_the_help_of_a_command_without_django_needs_no_settings() -> None:
    ended = manage("help", "simulate")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("usage: manage.py simulate")


def test_a_misspelt_command_is_a_sentence_with_the_nearest_one() -> None:
    ended = manage("simulat")
    assert ended.returncode == 2
    assert "did you mean simulate?" in ended.stderr
    assert "Traceback" not in ended.stderr
