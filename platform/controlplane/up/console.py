"""What the person at the terminal sees, what is kept in `<home>/logs`, and what stops a start."""

import io
import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

LOG_BYTES = 4 * 1024 * 1024
COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)


class Console:
    """Progress lines, children's prefixed lines, and warnings of the supervisor itself.

    Children's lines go to their log files. They are shown here too once the platform works, where that was
    asked for: else the box with the passwords would scroll away.
    """

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that knows no "✓" gets a "?" in its place.
            stream.reconfigure(errors="replace")
        self.stream = stream
        self.follow = False
        self._coloured = stream.isatty() and not os.environ.get("NO_COLOR")
        self._names: dict[str, int] = {}
        self._width = 8

    def say(self, text: str = "") -> None:
        try:
            print(text, file=self.stream, flush=True)
        except OSError:
            # The terminal is gone (or the reader of our pipe): stopping cleanly matters more.
            self.stream = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process

    def done(self, what: str, seconds: float) -> None:
        self.say(f"{self._paint('✓', 32)} {what:<22} {self._paint(f'{seconds:5.1f} s', 2)}")

    def warn(self, text: str) -> None:
        self.say(f"{self._paint('!', 33)} {text}")

    def fail(self, text: str) -> None:
        self.say(f"{self._paint('✗', 31)} {text}")

    def box(self, lines: list[str]) -> None:
        width = max(map(len, lines))
        self.say()
        self.say("┌" + "─" * (width + 4) + "┐")
        for line in lines:
            self.say(f"│  {line:<{width}}  │")
        self.say("└" + "─" * (width + 4) + "┘")
        self.say()

    def child_line(self, name: str, line: str) -> None:
        if self.follow:
            colour = COLOURS[self._names.setdefault(name, len(self._names)) % len(COLOURS)]
            self._width = max(self._width, len(name))
            self.say(f"{self._paint(f'{name:<{self._width}} │', colour)} {line}")

    def _paint(self, text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._coloured else text


class LogFile(RotatingFileHandler):
    """Loses lines while the disk is full; logging itself prints a traceback to the terminal for each."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)


def log_file(folder: Path, name: str) -> logging.FileHandler:
    """A file that keeps the last 4 to 8 MiB of one child's lines."""
    handler = LogFile(folder / f"{name}.log", maxBytes=LOG_BYTES, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    return handler


class StartError(Exception):
    """The platform cannot start, or a part of it cannot."""
