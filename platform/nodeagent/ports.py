"""Ports at which gangs meet, held from when they are chosen until the job takes them over."""

from __future__ import annotations

import random
import socket

#: Outside the range from which Linux takes ports for outgoing connections, so they stay free until used.
PORTS = range(20_000, 32_000)
TRIES = 100


class HeldPorts:
    """One port per attempt, bound so that no other program on this machine is given it."""

    def __init__(self) -> None:
        self.sockets: dict[int, socket.socket] = {}

    def hold(self, attempt: int) -> int:
        """Choose a free port and hold it; raise OSError when there is none."""
        for port in random.sample(PORTS, TRIES):
            held = socket.socket()
            try:
                held.bind(("", port))
            except OSError:
                held.close()
                continue
            self.sockets[attempt] = held
            return port
        raise OSError(f"none of {TRIES} ports between {PORTS.start} and {PORTS.stop} was free")

    def release(self, attempt: int) -> None:
        if (held := self.sockets.pop(attempt, None)) is not None:
            held.close()

    def release_all(self) -> None:
        for attempt in list(self.sockets):
            self.release(attempt)
