"""What the commands without Django do before they begin."""

from __future__ import annotations

import os

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
