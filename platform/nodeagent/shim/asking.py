"""Where a replica asks for the token of its GPU: a socket of its own, which serves one process.

The client is not trusted. One process of the attempt is let in at a time, strangers never. It is read every
few milliseconds however much it sends, and an invalid message ends its connection.

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
from _socket import (
    AF_UNIX,
    SO_PEERCRED,
    SOCK_CLOEXEC,
    SOCK_NONBLOCK,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
)

from nodeagent.procfs import is_below
from nodeagent.shim.guest import reached_by

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from typing import Any

MESSAGE_BYTES = 256
#: How often the replica is heard, so that it cannot keep the shim and the token daemon busy.
HEAR_SECONDS = 0.005


class AskingPlace:
    """The socket of one replica, and the client that asks there. Times are seconds of the boot clock."""

    def __init__(self, path: str, poll: select.poll, *, is_everybodys: bool) -> None:
        """`is_everybodys`: let in processes that are not below the shim, as an engine's containers need not
        be.
        """
        self.path = path
        self.poll = poll
        self.is_everybodys = is_everybodys
        #: None: it cannot be asked here, or no more.
        self.door: socket | None = None
        self.asker: socket | None = None
        #: When it is heard again; None: it is.
        self.hear_at: float | None = None

    @property
    def descriptors(self) -> list[int]:
        return [one.fileno() for one in (self.door, self.asker) if one is not None]

    def open(self) -> None:
        """Make the socket, before the replica is started."""
        door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            # For the replica's user, who owns the folder: no other user can enter it.
            before = os.umask(0)
            try:
                reached_by(self.path, door.bind)
            finally:
                os.umask(before)
            door.listen(1)
        except OSError:  # A full disk, say: then it cannot ask.
            door.close()
            return
        self.door = door
        self.poll.register(door, select.POLLIN)

    def hear(self, descriptor: int, now: float) -> dict[str, Any] | None:
        """Return the message that came on one of the descriptors; {}: none; None: the asker is gone."""
        message: dict[str, Any] | None = {}
        if self.door is not None and descriptor == self.door.fileno():
            self._let_in()
        elif self.asker is not None:
            message = received(self.asker)
            if message is None:
                self._drop(self.asker)
                self.asker = None
        for each in self.descriptors:
            with contextlib.suppress(KeyError):
                self.poll.unregister(each)
        self.hear_at = now + HEAR_SECONDS
        return message

    def step(self, now: float) -> None:
        """Read from the replica again if it is time."""
        if self.hear_at is not None and now >= self.hear_at:
            self.hear_at = None
            for each in self.descriptors:
                self.poll.register(each, select.POLLIN)

    def answer(self, microseconds: int) -> None:
        """Answer the client that it may run for `microseconds`."""
        if self.asker is not None:
            with contextlib.suppress(OSError):
                self.asker.send(json.dumps({"quota": microseconds}).encode())

    def close(self) -> None:
        for one in (self.door, self.asker):
            if one is not None:
                self._drop(one)
        self.door = self.asker = self.hear_at = None

    def _let_in(self) -> None:
        assert self.door is not None
        with contextlib.suppress(OSError):
            number, _ = self.door._accept()  # type: ignore[attr-defined]
            asker = socket(fileno=number)
            # The user's other jobs get to the socket where there is no sandbox.
            if self.asker is not None or not (self.is_everybodys or is_below(_peer(asker), os.getpid())):
                asker.close()
                return
            asker.setblocking(False)
            self.asker = asker

    def _drop(self, line: socket) -> None:
        with contextlib.suppress(KeyError):
            self.poll.unregister(line)
        line.close()


def received(line: socket) -> dict[str, Any] | None:
    """Return a message; None when the other side is gone, or sends something invalid."""
    try:
        message = json.loads(line.recv(MESSAGE_BYTES))
    except BlockingIOError:
        return {}
    except (OSError, ValueError):
        return None
    return message if isinstance(message, dict) else None


def _peer(line: socket) -> int:
    """Return the process at the other side, 0 for one that cannot be seen from here."""
    return int.from_bytes(line.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)[:4], sys.byteorder)
