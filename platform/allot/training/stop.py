"""SIGTERM and SIGINT become a request that the training loop honours between two steps."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Remembers the first signal. Python lets only the main thread listen: elsewhere none comes."""

    def __init__(self) -> None:
        self.signal_number = 0
        self._owner = os.getpid()
        self._before: dict[int, Any] = {}

    @property
    def is_made(self) -> bool:
        return self.signal_number != 0

    def listen(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._remember)

    def stop_listening(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            # Forked off the training, as PyTorch's data loaders are: a signal ends it as it always did.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif number == signal.SIGINT and self.signal_number == signal.SIGINT:
            raise KeyboardInterrupt  # A person pressed Ctrl-C again, and does not want to wait.
        elif not self.signal_number:
            self.signal_number = number
