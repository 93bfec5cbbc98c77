"""The part of the client that reads output: `client.logs.page(17)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from allot.schema import LogPage, LogSearch, MergedLogPage


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """What jobs wrote: read, merged, searched, downloaded."""

    read: Callable[..., Any]
    save: Callable[..., Path]

    def page(
        self,
        job_id: int,
        *,
        attempt: int | None = None,
        task: str | None = None,
        rank: int | None = 0,
        after: int = -1,
        limit: int | None = None,
    ) -> LogPage:
        """Chunks of one rank's output with a sequence greater than `after`."""
        parameters = {"attempt": attempt, "task": task, "rank": rank, "after": after, "limit": limit}
        return cast("LogPage", self.read(f"/jobs/{job_id}/logs", parameters))

    def merged(
        self, job_id: int, *, attempt: int | None = None, task: str | None = None, after: str = ""
    ) -> MergedLogPage:
        """What all ranks, or those of a task, wrote after the place `after`, by time."""
        parameters = {"attempt": attempt, "task": task, "after": after or None}
        return cast("MergedLogPage", self.read(f"/jobs/{job_id}/logs/merged", parameters))

    def search(
        self,
        job_id: int,
        wanted: str,
        *,
        regex: bool = False,
        match_case: bool = False,
        attempt: int | None = None,
        task: str | None = None,
        rank: int | None = None,
        context: int = 0,
        limit: int | None = None,
    ) -> Iterator[LogSearch]:
        """Answers with the lines that contain a text or match an expression, until all was searched."""
        parameters = {
            "q": wanted,
            "regex": regex,
            "match_case": match_case,
            "attempt": attempt,
            "task": task,
            "rank": rank,
            "context": context,
            "limit": limit,
        }
        after: str | None = None
        while after != "":
            path = f"/jobs/{job_id}/logs/search"
            found = cast("LogSearch", self.read(path, {**parameters, "after": after}))
            yield found
            after = found["next_after"]

    def download(
        self,
        job_id: int,
        target: Path,
        *,
        attempt: int | None = None,
        task: str | None = None,
        rank: int | None = None,
    ) -> Path:
        """Write an attempt's output to a file, or into a folder under the server's name for it: the text of
        one rank, or a zip of several. Returns the file, which is whole or not there at all."""
        parameters = {"attempt": attempt, "task": task, "rank": rank}
        return self.save(f"/jobs/{job_id}/logs/download", parameters, target)
