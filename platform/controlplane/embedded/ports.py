"""Loopback ports: pick one, and say who holds one."""

import random
import socket

import psutil

# Below the range from which Linux (32768) and macOS (49152) serve outgoing connections, so that a
# port that is free now is not taken by chance before its server has bound it.
LOWEST, HIGHEST = 20_000, 32_000
_picked: set[int] = set()


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
    candidates = random.SystemRandom().sample(range(LOWEST, HIGHEST), 200)
    for port in candidates if preferred is None else [preferred, *candidates]:
        if port not in _picked and is_free(port):
            _picked.add(port)
            return port
    raise OSError(f"no free port between {LOWEST} and {HIGHEST} on 127.0.0.1")


def holder(port: int) -> str | None:
    """Who listens on `port`, such as "nginx (process 812)"; None when we may not know."""
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
