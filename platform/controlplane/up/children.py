"""The command line of each part of the platform, and how one knows that it works."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from controlplane.config import PROJECT_ROOT, SOURCE_PATH
from controlplane.embedded.running import Server
from controlplane.embedded.spawn import Spawn
from controlplane.up.child import ChildSpec

DATABASES, SERVER, AGENTS = 0, 1, 2
# What node agents, and so the jobs below them, must not inherit.
SERVER_ONLY = ("DATABASE_URL", "ALLOT_MIGRATION_DATABASE_URL", "REDIS_URL")
SERVER_KEYS = ("ALLOT_SECRET_KEY", "ALLOT_SECRETS_KEYS")


def python_environment(home: Path, host: str, unsafe_jobs: bool = False) -> dict[str, str]:
    """The server's processes read everything else from `<home>/env`, see `controlplane.config`."""
    # Whatever names a site allows: we ask for readiness, and the agents report, by these.
    hosts = [*os.environ.get("ALLOT_HOSTS", "").split(","), "localhost", "127.0.0.1", "[::1]", host]
    own = {name: value for name, value in os.environ.items() if value or name not in SERVER_ONLY}
    if unsafe_jobs:
        own["ALLOT_UNSAFE_JOBS"] = "true"
    return own | {
        "ALLOT_HOSTS": ",".join(name for name in dict.fromkeys(hosts) if name),
        "ALLOT_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(map(str, SOURCE_PATH)),
        "PYTHONUNBUFFERED": "1",
    }


def embedded(server: Server) -> ChildSpec:
    async def is_ready() -> bool:
        return server.is_ready()

    return ChildSpec(
        name=server.name,
        spawn=server.spawn(),
        is_ready=is_ready,
        stop_signal=server.stop_signal,
        layer=DATABASES,
        stop_seconds=30,
    )


def web(environment: dict[str, str], host: str, port: int) -> ChildSpec:
    async def is_ready() -> bool:
        return await _answers(reachable(host), port, "/readyz")

    options = ["--host", host, "--port", str(port), "--timeout-graceful-shutdown", "2"]
    spawn = _server_process(environment, "controlplane.uvicorn_server", *options)
    return ChildSpec("web", spawn, is_ready=is_ready, layer=SERVER)


def worker(environment: dict[str, str]) -> ChildSpec:
    options = ["--queues", "rounds,default", "--concurrency", "2", "--loglevel", "INFO"]
    # One worker has no other to gossip with, and asking around costs seconds at each start.
    options += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    return ChildSpec(
        "worker",
        _server_process(environment, "celery", "-A", "controlplane.celery", "worker", *options),
        ready_line=re.compile(r"@\S+ ready\."),
        routine=re.compile(r"Task \S+ (received|succeeded)"),
        layer=SERVER,
    )


def beat(environment: dict[str, str]) -> ChildSpec:
    # Kept in memory: the longest interval is minutes, and a file would be one more thing to break.
    options = ["--scheduler", "celery.beat:Scheduler", "--pidfile", "", "--loglevel", "INFO"]
    return ChildSpec(
        "beat",
        _server_process(environment, "celery", "-A", "controlplane.beat", "beat", *options),
        ready_line=re.compile("beat: Starting"),
        routine=re.compile("Sending due task"),
        layer=SERVER,
    )


def agents(environment: dict[str, str], folder: Path) -> Sequence[ChildSpec]:
    """One node agent for each configuration file in `folder`, beside the server on this machine."""
    own = {name: value for name, value in environment.items() if name not in SERVER_ONLY + SERVER_KEYS}
    return [
        ChildSpec(
            name=path.stem,
            spawn=Spawn(
                # What they say to the server's address, whichever it is, does not leave the machine.
                _module("nodeagent", "--config", str(path), "--stop-jobs-on-exit", "--insecure"),
                PROJECT_ROOT,
                own,
            ),
            ready_line=re.compile("The control plane answers"),
            layer=AGENTS,
            stop_seconds=20,
            is_needed=False,
        )
        for path in sorted(folder.glob("*.json"))
    ]


def stream(environment: dict[str, str]) -> ChildSpec:
    """What keeps the demonstration going."""
    manage = [sys.executable, str(PROJECT_ROOT / "manage.py"), "demo", "stream"]
    return ChildSpec(
        name="stream",
        spawn=Spawn(manage, PROJECT_ROOT, environment, death_signal=signal.SIGKILL),
        ready_line=re.compile("The stream goes on"),
        layer=SERVER,
        is_needed=False,
    )


def reachable(host: str) -> str:
    """The address at which this machine itself meets a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _server_process(environment: dict[str, str], module: str, *arguments: str) -> Spawn:
    # Nothing is lost when one of them is killed, whereas an orphan that tries to end in good order may
    # wait for ever: a Celery worker was seen to, for its pool, which ends at once when it is killed.
    return Spawn(_module(module, *arguments), PROJECT_ROOT, environment, death_signal=signal.SIGKILL)


def _module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", name, *arguments]


async def _answers(host: str, port: int, path: str) -> bool:
    """Whether a GET is answered with 200."""
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
