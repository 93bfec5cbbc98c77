"""What a job reports of its progress: JSON lines appended to $ALLOT_PROGRESS, numbered by line.

    {"step": 120, "samples": 7680, "loss": 0.31}

`step` is required; `samples` counts from the job's start; `at` (Unix seconds) may say when, else it is
when the agent read it; every other number is kept as a named value. One whose name no database can hold, with
NUL or half a surrogate pair in it, is left out.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import time
from typing import Any

from nodeagent.folder import AttemptFolder, read_json, write_json
from nodeagent.messages import PROGRESS_PER_REPORT, ProgressLine, encode

log = logging.getLogger(__name__)

LINE_LONGEST_BYTES = 4 * 1024
NAME_LONGEST_CHARACTERS = 64
VALUES_MOST = 32
READ_BYTES = 1024 * 1024
STEP_MOST = 2**53
AT_OLDEST_SECONDS = 24 * 3600.0
_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")


def parse_line(line: bytes, *, sequence: int, now: float) -> ProgressLine:
    """Return the line as progress; raise ValueError with what is wrong with it."""
    if len(line) > LINE_LONGEST_BYTES:
        raise ValueError(f"is longer than {LINE_LONGEST_BYTES} bytes")
    try:
        value: Any = json.loads(line)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("is not a JSON object")
    step = value.pop("step", None)
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= STEP_MOST:
        raise ValueError("step must be a whole number from 0 on")
    numbers = {name: float(item) for name, item in value.items() if _is_number(item)}
    at = numbers.pop("at", now)
    samples = numbers.pop("samples", None)
    # A result that is not a number cannot be stored or drawn; the step still counts.
    values = {
        name: item
        for name, item in list(numbers.items())[:VALUES_MOST]
        if len(name) <= NAME_LONGEST_CHARACTERS and not _NOT_STORABLE.search(name)
    }
    # What a clock cannot have said is not passed on: the server could not store it.
    at = at if now - AT_OLDEST_SECONDS <= at <= now else now
    return ProgressLine(sequence=sequence, at=at, step=step, samples=samples, values=values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def thin_out(lines: list[ProgressLine], most: int = PROGRESS_PER_REPORT) -> tuple[ProgressLine, ...]:
    """Return at most `most` of the lines, evenly spread, the newest among them."""
    if len(lines) <= most:
        return tuple(lines)
    # Whole numbers: a quotient that was rounded up once asked for a line behind the newest.
    return tuple(lines[((index + 1) * len(lines) - 1) // most] for index in range(most))


def fitting(lines: list[ProgressLine], most_bytes: int) -> tuple[ProgressLine, ...]:
    """Thin the lines out until they take at most `most_bytes` in a report; the newest stays."""
    fewer = thin_out(lines)
    while len(fewer) > 1 and len(json.dumps([encode(line) for line in fewer])) > most_bytes:
        fewer = thin_out(lines, len(fewer) // 2)
    return fewer


class ProgressFile:
    """The lines of one attempt that no acknowledged report has carried yet."""

    def __init__(self, attempt: int, folder: AttemptFolder) -> None:
        self.attempt = attempt
        self.path = folder.progress(0)
        self.journal = folder.progress_sent
        kept = read_json(self.journal) or {}
        self.offset: int = kept.get("offset", 0)
        self.line_number: int = kept.get("line_number", 0)
        self.bad_lines: int = 0
        self.pending: list[ProgressLine] = []

    def read(self) -> bool:
        """Take in complete new lines; return whether there were any."""
        try:
            with open(self.path, "rb", opener=_ordinary) as file:
                file.seek(self.offset)
                data = file.read(READ_BYTES)
        except OSError:
            return False  # There is no file, or the job put something else in its place.
        if b"\n" not in data and len(data) == READ_BYTES:
            # No line is this long: leave it out as one bad line, or it would be read for ever.
            data = data[:-1] + b"\n"
        complete = data[: data.rfind(b"\n") + 1]
        self.offset += len(complete)
        for line in complete.splitlines():
            self.line_number += 1
            self._take(line)
        self.pending = list(thin_out(self.pending))
        return bool(complete)

    def reported(self, newest: int) -> None:
        """Drop what the server has now, and remember it across a restart."""
        self.pending = [line for line in self.pending if line.sequence > newest]
        if not self.pending:
            try:
                write_json(self.journal, {"offset": self.offset, "line_number": self.line_number})
            except OSError as error:
                # After a restart the lines are sent again, and the server keeps each once.
                log.warning("What was reported of attempt %d cannot be noted: %s", self.attempt, error)

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            self.pending.append(parse_line(line, sequence=self.line_number, now=time.time()))
        except ValueError as error:
            self.bad_lines += 1
            if self.bad_lines == 1:
                log.warning(
                    "Attempt %d: line %d of its progress is left out: %s. Further ones are only counted.",
                    self.attempt,
                    self.line_number,
                    error,
                )


def _ordinary(path: str, flags: int) -> int:
    """Open a file that a job may have replaced: at a pipe the agent would wait, a link leads it away."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(path)
    return descriptor
