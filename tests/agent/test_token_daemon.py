"""The token daemon of a GPU as a process, with clients that mean harm or say what nobody can go by."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from socket import AF_UNIX, SOCK_SEQPACKET, socket

import pytest

from nodeagent.process.sharing import DAEMON
from nodeagent.procfs import is_stopped
from nodeagent.shim.guest import reached_by
from nodeagent.token_daemon import MOST_CLIENTS
from nodeagent.tokens import BASE_QUOTA, MOST_QUOTA
from tests.agent.runtime_node import settled
from tests.patience import PATIENCE_SECONDS, until, until_async

#: How many files the daemon may open here.
FILES = 300


class Daemon:
    """One daemon and its clients."""

    def __init__(self, path: Path, ending: ExitStack) -> None:
        self.path = path
        self.ending = ending
        limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (FILES, FILES))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", DAEMON, str(path)], stderr=subprocess.DEVNULL, preexec_fn=limit
        )
        ending.callback(self.process.wait)
        ending.callback(self.process.kill)

    def connect(self) -> socket:
        line = self.ending.enter_context(socket(AF_UNIX, SOCK_SEQPACKET))
        line.settimeout(PATIENCE_SECONDS)

        def is_connected() -> bool:
            try:
                reached_by(str(self.path), line.connect)
            except OSError:
                return False  # It is only just starting.
            return True

        until(is_connected)
        return line

    def client(self, name: str, request: int = 500, **changes: object) -> socket:
        line = self.connect()
        say(line, join=name, request=request, limit=1000, **changes)
        return line

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


def say(line: socket, **message: object) -> None:
    line.send(json.dumps(message).encode())


def heard(line: socket) -> dict[str, int]:
    answer = line.recv(256)
    assert answer, "it was let go"
    found: dict[str, int] = json.loads(answer)
    return found


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with ExitStack() as ending:
        yield Daemon(tmp_path / "0", ending)


@pytest.mark.parametrize(
    "message",
    [
        b"not JSON",
        b"[]",
        b"[" * 1000,
        b'{"ask": true, "name": "' + 2000 * b"a" + b'"}',
        b'{"ask": true}',
        b'{"join": "a"}',
        b'{"join": "a", "request": [], "limit": 300}',
        b'{"join": "a", "request": 700, "limit": 300}',
        b'{"join": "a", "request": 1, "limit": 1, "burst": "long"}',
        b'{"join": "a", "request": 1, "limit": 1, "burst": Infinity}',
    ],
)
def test_it_lets_go_of_whoever_it_cannot_understand_and_serves_on(daemon: Daemon, message: bytes) -> None:
    holder = daemon.client("holder")
    say(holder, ask=True)
    assert heard(holder) == {"quota": BASE_QUOTA}
    line = daemon.connect()
    line.send(message)
    assert line.recv(256) == b""
    say(holder, ask=True)
    assert heard(holder) == {"quota": BASE_QUOTA}
    assert daemon.process.poll() is None


def test_nobody_passes_for_another(daemon: Daemon) -> None:
    victim, rival = daemon.client("victim"), daemon.client("rival")
    say(victim, ask=True)
    assert "quota" in heard(victim)
    # Neither beside it nor by another name than one's own.
    assert daemon.client("victim").recv(256) == b""
    say(rival, join="another", request=0, limit=1000)
    assert rival.recv(256) == b""
    say(victim, more=True)
    assert "quota" in heard(victim), "it is the holder as before"


def test_who_claims_to_need_long_gets_a_second(daemon: Daemon) -> None:
    line = daemon.client("a", burst=10**300)
    say(line, ask=True)
    assert heard(line) == {"quota": MOST_QUOTA}


async def test_no_number_of_connections_keeps_it_from_serving(daemon: Daemon) -> None:
    holder, other = daemon.client("holder"), daemon.client("other")
    say(holder, ask=True)
    assert "quota" in heard(holder)
    lines = [daemon.connect() for _ in range(FILES + 10)]
    lines[-1].recv(256)  # The last of them was turned away.
    assert len(lines) > MOST_CLIENTS
    await settled(daemon.processor_seconds)  # Nothing keeps it busy.
    say(other, ask=True)
    say(holder, **{"return": True})
    assert "quota" in heard(other)
    for line in lines:
        line.close()

    def is_served() -> bool:
        try:
            say(daemon.client("late"), ask=True)
        except BrokenPipeError:
            return False  # The daemon has not read yet that the others are gone.
        return True

    await until_async(is_served)


def test_a_client_that_floods_it_delays_nobody_much(daemon: Daemon) -> None:
    flood, other = daemon.client("flood"), daemon.client("other")
    flood.setblocking(False)
    # When it goes on it finds all of this, and what the other asks for last.
    daemon.process.send_signal(signal.SIGSTOP)
    until(lambda: is_stopped(daemon.process.pid))
    said = served = 0
    with suppress(BlockingIOError):
        while True:
            say(flood, ask=True)
            say(flood, **{"return": True})
            said += 1
    say(other, ask=True)
    daemon.process.send_signal(signal.SIGCONT)
    assert "quota" in heard(other)
    with suppress(BlockingIOError):
        while heard(flood):
            served += 1
    assert served <= 3 < said / 10
