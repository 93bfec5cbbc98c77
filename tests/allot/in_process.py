"""`allot` inside the test's own process, which is faster than a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from typer.testing import CliRunner, Result

#: `allot("ls", "-q")`
Allot = Callable[..., Result]


def run(*arguments: str, stdin: str = "") -> Result:
    """Run the command; only what it answers by its exit code is no exception."""
    from allot.main import app

    result = CliRunner().invoke(app, list(arguments), input=stdin, prog_name="allot")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def signed_in(monkeypatch: pytest.MonkeyPatch, url: str, token: str, *before: str) -> Allot:
    """Return the command, signed in by its environment; `before` stands ahead of its arguments."""
    monkeypatch.setenv("ALLOT_URL", url)
    monkeypatch.setenv("ALLOT_TOKEN", token)
    monkeypatch.setenv("NO_PROXY", "*")
    return partial(run, *before)


def lines(allot: Allot, *arguments: str, code: int = 0) -> list[str]:
    """Return what a command of Slurm prints, when it exits with this code."""
    result = allot("slurm", *arguments)
    assert result.exit_code == code, result.stderr
    return result.stdout.splitlines()


def refused(allot: Allot, *arguments: str) -> str:
    """Return what a command of Slurm says, when it refuses its arguments and prints nothing."""
    result = allot("slurm", *arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.stdout
    return result.stderr
