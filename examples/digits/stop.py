"""Turns SIGTERM and SIGINT into a request that the training loop honours between two steps."""

import os
import select
import signal
from types import FrameType

from errors import Stopped


class StopRequest:
    """Remembers the first signal, and can be waited for.

    The pipe makes the wait end at once: a plain `time.sleep` would go on sleeping after the handler ran.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._reader, self._writer = os.pipe()

    def listen(self) -> None:
        signal.signal(signal.SIGTERM, self._remember)
        signal.signal(signal.SIGINT, self._remember)

    def _remember(self, signal_number: int, frame: FrameType | None) -> None:
        if self.signal_number is None:
            self.signal_number = signal_number
            os.write(self._writer, b"!")

    @property
    def requested(self) -> bool:
        return self.signal_number is not None

    @property
    def exit_code(self) -> int:
        """128 + signal, as a shell reports it. A rank that a peer stopped counts as sent SIGTERM."""
        return 128 + (self.signal_number or signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Sleep, but no longer than until a stop is requested."""
        if seconds > 0:
            select.select([self._reader], [], [], seconds)

    def raise_if_requested(self) -> None:
        if self.requested:
            raise Stopped
