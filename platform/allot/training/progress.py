"""Report how far the training is: JSON lines appended to a file, by a thread of its own.

The training never waits for the disk: lines wait in memory, where a newer one takes the place of one that was
not written yet. What a full disk refuses is tried again.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
from collections.abc import Mapping
from pathlib import Path

#: More lines than this a second are of no use: the agent reads them once a second or less.
LINE_SECONDS = 0.1
PENDING_MOST = 1000
CLOSE_SECONDS = 5.0
#: A line that differs from the next in one of these is kept; otherwise only the newest that waits is.
KEPT_BY = ("restored_step", "batch_size", "epochs", "timed_iterations")


class ProgressWriter:
    """Appends lines to one file until closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._pending: list[dict[str, float]] = []
        self._is_closed = False
        # A daemon: a disk that hangs must not keep a process that is done.
        self._thread = threading.Thread(target=self._run, name="allot-progress", daemon=True)
        self._thread.start()

    def tell(self, line: Mapping[str, object]) -> None:
        """Have the line written soon. Returns at once. Raises TypeError for a value that is not a number."""
        numbers = {name: _plain_number(name, value) for name, value in line.items()}
        finite = {name: number for name, number in numbers.items() if math.isfinite(number)}
        with self._changed:
            if self._pending and all(self._pending[-1].get(name) == finite.get(name) for name in KEPT_BY):
                self._pending.pop()
            self._pending = [*self._pending[1 - PENDING_MOST :], finite]
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        # Whether the file ends in the middle of a line: the disk was full.
        is_torn = False
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._is_closed)
                lines, self._pending = self._pending, []
                is_last = self._is_closed
            if not lines:
                return
            text = "".join(json.dumps(line) + "\n" for line in lines).encode()
            try:
                is_whole = self._append(b"\n" + text if is_torn else text)
                is_torn = not is_whole
            except OSError:
                is_whole = False
            if not is_whole:
                self._keep(lines)
            if is_last:
                return  # No more lines follow, and what the disk refuses now it is not offered again.
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, LINE_SECONDS)

    def _append(self, content: bytes) -> bool:
        """Return whether all of it was written; raise OSError when nothing was."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            return os.write(descriptor, content) == len(content)
        finally:
            # Some file systems say only now that they are full.
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _keep(self, lines: list[dict[str, float]]) -> None:
        with self._changed:
            self._pending = [*lines, *self._pending][-PENDING_MOST:]


def _plain_number(name: str, value: object) -> float:
    """Return an int or float of Python's, whatever library the value comes from."""
    if isinstance(value, bool | int | float):
        return value
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number, not {type(value).__name__}") from error
