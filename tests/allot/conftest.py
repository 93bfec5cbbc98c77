"""A fake server, and the command run as a real process or inside the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from allot import following, transport
from tests.allot.fake_api import REASON, TOKEN, FakeApi, ended, make_attempt, running, serving
from tests.allot.in_process import Allot, signed_in
from tests.patience import PATIENCE_SECONDS

SOURCES = Path(__file__).resolve().parents[2] / "platform"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with serving(FakeApi()) as fake:
        yield fake


class Command:
    """`allot` as a process of its own, signed in to the fake server by its environment."""

    def __init__(self, api: FakeApi, home: Path) -> None:
        self.home = home
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("ALLOT_", "XDG_"))
        }
        self.environment = {
            **inherited,
            "HOME": str(home),
            "PYTHONPATH": str(SOURCES),
            "ALLOT_URL": api.url,
            "ALLOT_TOKEN": TOKEN,
            "NO_PROXY": "*",
        }

    def __call__(
        self, *arguments: str, stdin: str = "", **environment: str | None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "allot", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            cwd=self.home,
            env=self._with(environment),
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "allot", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
            env=self.environment,
            # Tests that run in the background of a shell would have their children ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def _with(self, changes: dict[str, str | None]) -> dict[str, str]:
        merged: dict[str, str | None] = {**self.environment, **changes}
        return {key: value for key, value in merged.items() if value is not None}


@pytest.fixture
def command(api: FakeApi, tmp_path: Path) -> Command:
    return Command(api, tmp_path)


@pytest.fixture
def allot(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Allot:
    """`allot("ls", "-q")` inside this process, which is faster than a process of its own."""
    monkeypatch.setenv("ALLOT_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.chdir(tmp_path)
    # The fake server moves on with each question, so that only the time between them is shorter.
    monkeypatch.setattr(following, "SHORTEST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(following, "LATE_OUTPUT_SECONDS", 0.1)
    monkeypatch.setattr(transport, "FIRST_DELAY_SECONDS", 0.02)

    return signed_in(monkeypatch, api.url, TOKEN)


@pytest.fixture
def queue(api: FakeApi) -> FakeApi:
    """A job in each state, and two tasks of an array."""
    api.add(1, name="prep", **ended())
    api.add(2, name="train", **running())
    api.add(3, name="eval", submitted_by="bob", reasons=[{**REASON, "code": "first_in_line"}])
    for number, index in ((4, 0), (5, 7)):
        api.add(number, name="sweep", array={"number": 4, "index": index, "size": 2, "at_most": None})
    api.add(6, name="bad", **ended("failed", 3, attempt=make_attempt(1, state="ended", outcome="failed")))
    return api
