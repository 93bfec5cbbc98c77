"""`make nightly`: what its steps are given."""

from pathlib import Path

import pytest

from scripts import nightly
from scripts.nightly import Step


def test_a_step_takes_none_of_the_arguments_of_the_make_that_runs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(nightly, "FOLDER", tmp_path)
    monkeypatch.setenv("MAKEFLAGS", " -- ARGS=slow")
    monkeypatch.setenv("ARGS", "slow")
    monkeypatch.setenv("OTHER", "kept")
    done = nightly.carry_out(Step("echo", 'printf "%s" "<$ARGS$MAKEFLAGS$OTHER>"', 1))
    assert (done.result, done.log.read_text()) == ("passed", "<kept>")
