"""How the two ends of a session meet: its user's here, the node agent's in this or another process.

Each end has an address. Within a process frames are handed over directly, so that a slow reader slows the
sender; between processes they go through Redis, whose pub/sub would take any amount. There and everywhere
else what is under way is bounded by the window that both ends keep (`nodeagent.frames`), and an end that
sends more is cut off.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from channels.layers import get_channel_layer

from nodeagent.frames import FRAME_BYTES, PROBLEM, TAKEN, WINDOW, cost, read_taken

Event = dict[str, Any]
Hear = Callable[[Event], Awaitable[None]]

#: Ends in this process, by address.
_here: dict[str, Hear] = {}
_LONGEST_PROBLEM_BYTES = 1_000


class RelayError(Exception):
    """An end did not keep to the rules, or frames were lost on the way; says which."""


class Relay:
    """One end's account of what it sends to the other and gets from it."""

    def __init__(self, address: str, hear: Hear) -> None:
        self.address = address
        self.peer = ""
        #: The cost of what this end sent and the other has not yet taken.
        self.under_way = 0
        self.passed_bytes = 0
        self._sent = self._heard = 0
        self._order = asyncio.Lock()
        _here[address] = hear

    def close(self) -> None:
        _here.pop(self.address, None)

    async def send(self, frame: bytes, kinds: frozenset[bytes]) -> None:
        """Pass on a frame of this end's user or agent; raise RelayError for one that may not be sent."""
        if len(frame) > FRAME_BYTES or frame[:1] not in kinds:
            raise RelayError("A frame of an unknown kind, or too long.")
        self.under_way += cost(frame)
        if self.under_way > WINDOW:
            raise RelayError("More was sent than may be under way.")
        self.passed_bytes += len(frame)
        async with self._order:
            self._sent += 1
            await self._tell({"type": "session.frame", "number": self._sent, "frame": frame})

    def heard(self, event: Event) -> bytes:
        """Return the frame in an event from the other end; raise RelayError when others were lost."""
        self._heard += 1
        if event["number"] != self._heard:
            raise RelayError("The connection between servers was interrupted.")
        frame: bytes = event["frame"]
        if frame[:1] == TAKEN:
            try:
                self.under_way = max(0, self.under_way - read_taken(frame))
            except ValueError as error:
                raise RelayError(str(error)) from error
        self.passed_bytes += len(frame)
        return frame

    async def join(self, peer: str) -> None:
        """Let the end at this address know that this one is there."""
        self.peer = peer
        await self._tell({"type": "session.joined", "address": self.address})

    async def leave(self, problem: str = "") -> None:
        if self.peer:
            await self._tell({"type": "session.left", "problem": problem})

    async def _tell(self, event: Event) -> None:
        hear = _here.get(self.peer)
        if hear is not None:
            await hear(event)
        elif self.peer:
            await get_channel_layer().send(self.peer, event)


def problem_frame(problem: str) -> bytes:
    return PROBLEM + problem.encode()[:_LONGEST_PROBLEM_BYTES]
