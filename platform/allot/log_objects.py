"""Output of jobs as the API gives it."""

from __future__ import annotations

from typing import TypedDict


class LogChunk(TypedDict):
    sequence: int
    at: str
    text: str


class LogRemoved(TypedDict):
    """That output was there and is no longer; `message` says since when and why."""

    at: str
    bytes: int
    message: str


class LogPage(TypedDict):
    """`complete`: the attempt has ended and there is nothing after `next_after`, the last sequence seen (-1
    for none); a busy node may still send some. `ranks`: which ones the job has."""

    attempt: int | None
    rank: int
    ranks: list[int]
    tasks: list[str]
    chunks: list[LogChunk]
    next_after: int
    complete: bool
    truncated: bool
    removed: LogRemoved | None


class RankedLogChunk(LogChunk):
    rank: int
    task: str


class MergedLogPage(TypedDict):
    """Output of all `ranks` by time; `next_after` is a text that only the server understands."""

    attempt: int | None
    ranks: list[int]
    chunks: list[RankedLogChunk]
    next_after: str
    complete: bool
    removed: LogRemoved | None


class LogHit(TypedDict):
    """A line that was found. `start` and `end` bound the match in `text`."""

    rank: int
    task: str
    line: int
    sequence: int
    chunk_line: int
    text: str
    start: int
    end: int
    before: list[str]
    after: list[str]


class LogSearch(TypedDict):
    """`next_after` is empty when all was searched."""

    attempt: int | None
    hits: list[LogHit]
    lines_searched: int
    next_after: str
    removed: LogRemoved | None
