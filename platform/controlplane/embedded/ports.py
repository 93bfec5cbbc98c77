"""Loopback ports: pick one, and say who holds one."""

import random
import socket
import sys

import psutil

# Below the range from which Linux (32768) and macOS (49152) serve outgoing connections, so that a
# port that is free now is not taken by chance before its server has bound it.
LOWEST, HIGHEST = 20_000, 32_000
#: Those picked, each held until this process ends where that is possible.
_picked: dict[int, socket.socket | None] = {}


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def next_free(port: int, host: str) -> int:
    """The next free port above one; 0 when there is none near."""
    near = range(port + 1, min(port + 100, 65_536))
    return next((free for free in near if is_free(free, host)), 0)


def pick(preferred: int | None = None) -> int:
    """A free loopback port, never the same one twice; the preferred one if it is free."""
    if preferred is not None and preferred not in _picked and is_free(preferred):
        _picked[preferred] = None
        return preferred
    for port in random.SystemRandom().sample(range(LOWEST, HIGHEST), 200):
        if port not in _picked and is_free(port):
            try:
                _picked[port] = _held(port) if sys.platform == "linux" else None
            except OSError:
                continue  # Another process has picked it.
            return port
    raise OSError(f"no free port between {LOWEST} and {HIGHEST} on 127.0.0.1")


def _held(port: int) -> socket.socket:
    """Bind a port and do not listen: no other process picks it, and a server that reuses addresses has it.

    Raises OSError where another holds it. Elsewhere than on Linux no server could bind it beside this.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        raise
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


def holder(port: int) -> str | None:
    """The program that listens on `port`, such as "nginx (process 812)"; None when we may not know."""
    try:
        connections = psutil.net_connections("inet")
    except psutil.AccessDenied:
        return None
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            try:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
            except psutil.NoSuchProcess:
                return None
    return None
