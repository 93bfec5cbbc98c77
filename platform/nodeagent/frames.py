"""What goes over the sockets of a session: frames, and how much of them may be under way.

    user's program <- WebSocket -> server <- WebSocket -> node agent -> a process or a port of a job

Each binary WebSocket message is one frame: a byte that says its kind, and a payload. The servers between hand
frames on as they are. No process on the way needs more memory than `WINDOW` for each direction: a sender has
at most this much under way, and goes on as the far end sends `TAKEN`. Standard library only; agent, server
and client import it.
"""

from __future__ import annotations

import asyncio
import struct
import sys

#: Bytes towards the job, and from it.
INPUT, OUTPUT, ERRORS = b"i", b"o", b"e"
#: No more bytes of this kind will come; the payload is the kind.
END = b"z"
#: Four bytes: how much of what was sent has been consumed, by `cost`.
TAKEN = b"t"
#: Two numbers of two bytes: rows and columns of the user's terminal.
SIZE = b"s"
#: It has begun; the end of the command, one byte; why there is nothing (more), as UTF-8.
OPENED, EXIT, PROBLEM = b"b", b"x", b"p"

TOWARDS_JOB = frozenset({INPUT, END, TAKEN, SIZE})
FROM_JOB = frozenset({OUTPUT, ERRORS, END, TAKEN, OPENED, EXIT, PROBLEM})

DATA_BYTES = 32 * 1024
FRAME_BYTES = DATA_BYTES + 1
WINDOW = 256 * 1024
#: What a frame costs beside its bytes, so that a flood of empty ones is stopped as well.
COST_OF_ONE = 1024


def cost(frame: bytes) -> int:
    """Return what a frame takes of the window; a report of what was consumed takes nothing."""
    return 0 if frame[:1] == TAKEN else len(frame) + COST_OF_ONE


def taken(amount: int) -> bytes:
    return TAKEN + struct.pack("!I", amount)


def size(rows: int, columns: int) -> bytes:
    return SIZE + struct.pack("!HH", rows, columns)


def read_taken(frame: bytes) -> int:
    """Return the amount; raise ValueError for another frame."""
    return _unpacked("!I", frame)[0]


def read_size(frame: bytes) -> tuple[int, int]:
    """Return rows and columns; raise ValueError for another frame."""
    rows, columns = _unpacked("!HH", frame)
    return rows, columns


def _unpacked(form: str, frame: bytes) -> tuple[int, ...]:
    try:
        return struct.unpack(form, frame[1:])
    except struct.error as error:
        raise ValueError(f"a frame {frame[:1]!r} of {len(frame)} bytes") from error


class Flow:
    """One end's account of both directions."""

    def __init__(self) -> None:
        self.left = WINDOW
        self._owed = 0
        self._room = asyncio.Event()

    async def spend(self, frame: bytes) -> None:
        """Wait until the frame may be sent, and count it as sent."""
        while self.left < cost(frame):
            self._room.clear()
            await self._room.wait()
        self.left -= cost(frame)

    def give_up(self) -> None:
        """Let a waiting sender go on: the other end will accept nothing any more."""
        self.left = sys.maxsize
        self._room.set()

    def regain(self, frame: bytes) -> None:
        """Take in a frame `TAKEN` of the far end; raise ValueError for a wrong one."""
        self.left = min(WINDOW, self.left + read_taken(frame))
        self._room.set()

    def consume(self, frame: bytes) -> bytes | None:
        """Count a frame as consumed; return the frame to send to the far end, if it is time to."""
        self._owed += cost(frame)
        if self._owed < WINDOW // 4:
            return None
        owed, self._owed = self._owed, 0
        return taken(owed)
