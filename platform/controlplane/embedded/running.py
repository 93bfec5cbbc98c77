"""Start one embedded server, use it, stop it: for tests, benchmarks and scripts."""

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from controlplane.embedded.spawn import Spawn


class Server(Protocol):
    """What PostgreSQL and Redis have in common."""

    name: str
    stop_signal: signal.Signals

    @property
    def url(self) -> str: ...
    def prepare(self) -> None: ...
    def spawn(self) -> Spawn: ...
    def is_ready(self) -> bool: ...
    def finish(self) -> None: ...


@contextmanager
def running(server: Server, *, patience_seconds: float = 60.0) -> Iterator[subprocess.Popen[bytes]]:
    """The server, ready to be used inside the block and gone after it."""
    server.prepare()
    with tempfile.TemporaryFile() as output:
        process = server.spawn().popen(output=output.fileno())
        try:
            deadline = time.monotonic() + patience_seconds
            while not server.is_ready():
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    said = output.read().decode(errors="replace")[-4000:]
                    raise RuntimeError(f"{server.name} did not start (exit {process.poll()}):\n{said}")
                time.sleep(0.01)
            server.finish()
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(server.stop_signal)
            try:
                process.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
