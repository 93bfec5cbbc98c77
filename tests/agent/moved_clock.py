"""The clock of a node (`nodeagent/clock.py`) as a test moves it: an hour takes no time."""

from __future__ import annotations

import os
import time
from pathlib import Path

from nodeagent.clock import boot_clock_seconds


class MovedClock:
    """It goes as the machine's does, but for what a test does to it.

    Where it stops, what has to be done by a moment of that clock may take any time on a busy machine.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._show(0.0, float("inf"))

    def stop_at(self, seconds: float) -> None:
        """Show this moment of the boot clock from now on."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._show(seconds - now, now)

    def go_on_from(self, seconds: float) -> None:
        """Show this moment of the boot clock, and go on."""
        self._show(seconds - time.clock_gettime(time.CLOCK_BOOTTIME), float("inf"))

    def jump(self, seconds: float) -> None:
        """Show so much more, and go on."""
        self.go_on_from(boot_clock_seconds() + seconds)

    def _show(self, ahead: float, stops_at: float) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{ahead!r} {stops_at!r}")
        os.replace(new, self.file)
