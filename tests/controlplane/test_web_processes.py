"""Several web processes at one port, as `ALLOT_WEB_PROCESSES` asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from controlplane.config import SOURCE_PATH
from controlplane.embedded import ports
from controlplane.uvicorn_server import STUCK_SECONDS
from tests.patience import PATIENCE_SECONDS, until
from tests.processes import children_of, command_of, signal_process


class Web:
    """A web server of two processes, which needs its databases for nothing that is asked here."""

    def __init__(self) -> None:
        port = ports.pick()
        self.url = f"http://127.0.0.1:{port}/"
        self.manager = subprocess.Popen(
            [sys.executable, "-m", "controlplane.uvicorn_server", "--port", str(port)],
            env=os.environ
            | {"ALLOT_WEB_PROCESSES": "2", "PYTHONPATH": os.pathsep.join(map(str, SOURCE_PATH))},
        )

    def answers(self) -> bool:
        try:
            return b"<html" in httpx.get(self.url).content
        except httpx.TransportError:
            return False

    def processes(self) -> list[int]:
        """Those that serve, and not the one that looks after what they share."""
        children = children_of(self.manager.pid)
        return [child.pid for child in children if any("spawn_main" in word for word in command_of(child))]


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    try:
        until(web.answers)
        yield web
    finally:
        web.manager.kill()
        web.manager.wait()


def test_one_that_dies_is_replaced_and_none_outlives_its_manager(web: Web) -> None:
    until(lambda: len(web.processes()) == 2)
    first, second = web.processes()
    assert signal_process(first)
    # Its manager may be waiting for an answer of the one that was killed.
    until(
        lambda: len(web.processes()) == 2 and first not in web.processes(),
        "a process in its place",
        seconds=STUCK_SECONDS + PATIENCE_SECONDS,
    )
    assert second in web.processes()
    assert web.answers()
    web.manager.kill()
    until(lambda: not web.answers())
