"""The supervisor with small fake children: nothing it started may outlive it, however it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.agent.runtime_node import is_alive
from tests.patience import PATIENCE_SECONDS, until
from tests.processes import signal_process

ROOT = Path(__file__).resolve().parents[2]


class Platform:
    """A started `fake_platform`, with its output so far."""

    def __init__(self, folder: Path, manner: str) -> None:
        self.folder = folder
        self.output = folder / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.up.fake_platform", str(folder), manner],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)])},
                stdout=output,
                stderr=output,
            )

    def said(self) -> str:
        return self.output.read_text()

    def pid(self, name: str) -> int:
        return int((self.folder / f"{name}.pid").read_text())

    def wait_until_ready(self) -> None:
        until(lambda: "all ready" in self.said() or self.process.poll() is not None, self.said)
        assert self.process.poll() is None, self.said()


@contextmanager
def platform(folder: Path, manner: str = "plain") -> Iterator[Platform]:
    started = Platform(folder, manner)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with platform(tmp_path) as running:
        running.wait_until_ready()
        pids = [running.pid("database"), running.pid("web")]
        running.process.send_signal(number)
        assert running.process.wait(timeout=PATIENCE_SECONDS) == 0
        assert (tmp_path / "ended").read_text().split() == ["web", "database"]
        assert not any(map(psutil.pid_exists, pids))


def test_kill_9_of_the_supervisor_leaves_nothing(tmp_path: Path) -> None:
    with platform(tmp_path) as running:
        running.wait_until_ready()
        pids = [running.pid("database"), running.pid("web")]
        running.process.kill()
        until(lambda: not any(map(is_alive, pids)))


def test_a_child_that_is_killed_is_started_again(tmp_path: Path) -> None:
    with platform(tmp_path) as running:
        running.wait_until_ready()
        first = running.pid("web")
        assert signal_process(first)
        until(lambda: "web works again" in running.said(), running.said)
        assert running.pid("web") != first
        assert "web was ended by signal SIGKILL; starting it again in 0.25 s" in running.said()


def test_what_a_killed_child_had_started_ends_with_it(tmp_path: Path) -> None:
    with platform(tmp_path, manner="parent") as running:
        running.wait_until_ready()
        helper = running.pid("helper")
        assert signal_process(running.pid("web"))
        until(lambda: not is_alive(helper))


def test_a_child_that_cannot_start_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with platform(tmp_path, manner="broken") as running:
        assert running.process.wait(timeout=PATIENCE_SECONDS) == 1
        assert "web ended with exit status 1. It said last:" in running.said()
        assert "    cannot find my configuration" in running.said()
        assert str(tmp_path / "web.log") in running.said()
        assert not psutil.pid_exists(running.pid("database"))


def test_an_agent_that_cannot_start_is_reported_and_all_else_goes_on(tmp_path: Path) -> None:
    with platform(tmp_path, manner="refused") as running:
        running.wait_until_ready()
        said = running.said()
        assert "agent ended with exit status 1. It said last:\n    cannot find my configuration" in said
        assert "Everything else goes on without it." in said
        assert is_alive(running.pid("web"))
        (tmp_path / "allowed").touch()
        until(lambda: "agent works again" in running.said(), running.said)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(timeout=PATIENCE_SECONDS) == 0
        assert (tmp_path / "ended").read_text().split() == ["agent", "web", "database"]


def test_a_second_signal_kills_a_child_that_does_not_listen(tmp_path: Path) -> None:
    with platform(tmp_path, manner="deaf") as running:
        running.wait_until_ready()
        web, job = running.pid("web"), running.pid("helper")
        running.process.send_signal(signal.SIGINT)
        until(lambda: "once more to kill" in running.said())
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(timeout=PATIENCE_SECONDS) == 0
        assert "killing what still runs" in running.said()
        assert not psutil.pid_exists(web)
        assert not is_alive(job)


def test_a_child_that_does_not_listen_is_killed_when_its_time_is_up(tmp_path: Path) -> None:
    with platform(tmp_path, manner="deaf") as running:
        running.wait_until_ready()
        job = running.pid("helper")
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(timeout=PATIENCE_SECONDS) == 0
        assert not is_alive(job)
        assert "web did not end within 2 s; killing it" in running.said()
        assert (tmp_path / "ended").read_text().split() == ["database"]
