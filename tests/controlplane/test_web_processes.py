"""Several web processes at one port, as `ALLOT_WEB_PROCESSES` asks for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from controlplane.config import SOURCE_PATH
from controlplane.embedded import ports
from tests.patience import until
from tests.processes import children_of, command_of, signal_process

# Nothing here is stuck: what waits for that fails. The manager says which process it asks for an answer.
SERVER = """
from controlplane import uvicorn_server as server
from uvicorn.supervisors.multiprocess import Process

def ping(process, timeout, ask=Process.ping):
    print(process.pid, flush=True)
    return ask(process, timeout)

Process.ping = ping
server.STUCK_SECONDS = 3_600
server.main()
"""


class Web:
    """A web server of two processes, which needs its databases for nothing that is asked here."""

    def __init__(self, asked: Path) -> None:
        self._asked = asked
        port = ports.pick()
        self.url = f"http://127.0.0.1:{port}/"
        with asked.open("w") as stdout:
            self.manager = subprocess.Popen(
                [sys.executable, "-c", SERVER, "--port", str(port)],
                env=os.environ
                | {"ALLOT_WEB_PROCESSES": "2", "PYTHONPATH": os.pathsep.join(map(str, SOURCE_PATH))},
                stdout=stdout,
            )

    def answers(self) -> bool:
        try:
            return b"<html" in httpx.get(self.url).content
        except httpx.TransportError:
            return False

    def processes(self) -> list[psutil.Process]:
        """Those that serve, and not the one that looks after what they share."""
        children = children_of(self.manager.pid)
        return [child for child in children if any("spawn_main" in word for word in command_of(child))]

    def asks(self, process: psutil.Process) -> bool:
        """Return whether the manager has asked it for an answer."""
        return str(process.pid) in self._asked.read_text().split()

    def another(self, *known: psutil.Process) -> psutil.Process:
        """Return the second process beside those known, once there are two; one that was killed ends soon."""

        def found() -> set[psutil.Process]:
            children = set(self.processes())
            return children - set(known) if len(children) == 2 else set()

        (child,) = until(found)
        return child


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    web = Web(tmp_path / "asked")
    try:
        until(web.answers)
        yield web
    finally:
        web.manager.kill()
        web.manager.wait()


def test_one_that_dies_is_replaced_at_once_and_none_outlives_its_manager(web: Web) -> None:
    first, second = until(web.processes)
    assert signal_process(first)
    third = web.another(first, second)
    # It cannot answer its manager, which waits for that.
    assert signal_process(third, signal.SIGSTOP)
    until(lambda: web.asks(third))
    assert signal_process(third)
    fourth = web.another(first, second, third)
    assert set(web.processes()) == {second, fourth}
    assert web.answers()
    web.manager.kill()
    until(lambda: not web.answers())
