"""Turns of jobs that share GPUs one at a time: whose it is follows from the wall clock alone.

So the nodes of a gang take turns at the same instants without a word between them, as far as their clocks
agree, and a shim goes on taking turns while its agent is away. Imported by the shim, so it imports
nearly nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from typing import Any


class Turns:
    """The turns of one attempt: number `index` of `count`, each of so many seconds."""

    def __init__(self, index: int, count: int, seconds: float) -> None:
        self.index, self.count, self.seconds = index, count, seconds

    @classmethod
    def read(cls, value: Any) -> Turns | None:
        """Return what was written down as JSON; None when it is nothing that one could go by."""
        try:
            turns = cls(int(value["index"]), int(value["count"]), float(value["seconds"]))
        except (KeyError, TypeError, ValueError):
            return None
        return turns if turns.count > 1 and turns.seconds > 0 and 0 <= turns.index < turns.count else None

    def is_on(self, now: float) -> bool:
        """Whether it is this attempt's turn at that instant (Unix seconds)."""
        return int(now // self.seconds) % self.count == self.index

    def changes_at(self, now: float) -> float:
        """Return when a turn ends or begins next, whoever's it is (Unix seconds)."""
        return (now // self.seconds + 1) * self.seconds
