"""Ports for jobs: where gangs meet, held from when they are chosen until the job takes them over; and
where the programs that people visit are to listen."""

from __future__ import annotations

import contextlib
import random
import socket

from nodeagent.folder import AttemptFolder, read_json
from nodeagent.messages import INPUT_PORT, DesiredPart

#: Outside the range from which Linux takes ports for outgoing connections, so they stay free until used.
PORTS = range(20_000, 32_000)
TRIES = 100


class HeldPorts:
    """One port per attempt, bound so that no other program on this machine is given it."""

    def __init__(self) -> None:
        self.sockets: dict[int, socket.socket] = {}
        self.reserved: dict[int, set[int]] = {}

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

    def reserve(self, attempt: int) -> int:
        """Choose a port that is free, for one of the attempt's programs; raise OSError when there is none.

        It is the attempt's until `forget`, as far as this agent is concerned. A connection to it first checks
        whether it is the job that listens there.
        """
        taken = {port for reserved in self.reserved.values() for port in reserved}
        for port in random.sample(PORTS, TRIES):
            with socket.socket() as trial, contextlib.suppress(OSError):
                trial.bind(("", port))
                if port not in taken:
                    self.reserved.setdefault(attempt, set()).add(port)
                    return port
        raise OSError(f"none of {TRIES} ports between {PORTS.start} and {PORTS.stop} was free")

    def forget(self, attempt: int) -> None:
        self.release(attempt)
        self.reserved.pop(attempt, None)

    def release(self, attempt: int) -> None:
        if (held := self.sockets.pop(attempt, None)) is not None:
            held.close()

    def release_all(self) -> None:
        for attempt in list(self.sockets):
            self.release(attempt)


def input_ports(folder: AttemptFolder, desired: DesiredPart) -> dict[str, int]:
    """Return by rank where the input workers of an attempt come to it; empty: it has none, or did not start.

    What is asked for is read first: few jobs have input workers, and this is read for every report.
    """
    if INPUT_PORT not in desired.ports:
        return {}
    replicas = (read_json(folder.spec) or {}).get("replicas", [])
    return {
        str(replica["rank"]): replica["ports"][INPUT_PORT]
        for replica in replicas
        if INPUT_PORT in replica.get("ports", {})
    }


def port_variable(name: str) -> str:
    """Return the name of the variable in which a job has the number of one of its ports."""
    return f"ALLOT_PORT_{name.upper().replace('-', '_')}"


def path_variable(name: str) -> str:
    """Return the name of the variable in which a job has the path under which its pages are seen."""
    return f"ALLOT_PATH_{name.upper().replace('-', '_')}"
