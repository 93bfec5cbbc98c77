"""The output of one attempt, read from where one is: of one rank, or of several with names before lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from allot.client import Client
from allot.errors import WrongUse

if TYPE_CHECKING:
    from allot.schema import LogPage, MergedLogPage

#: The sequence before the first.
NONE_SEEN = -1


@dataclass(frozen=True, slots=True)
class Piece:
    """What came next. `complete`: the attempt has ended and there was no more; `removed` says why not."""

    text: str
    complete: bool
    truncated: bool = False
    removed: str = ""


class Stream(Protocol):
    """Remembers how far it has read."""

    def read(self) -> Piece:
        """Return what follows; an empty text when there is nothing new."""


class RankStream:
    """The output of one rank, as it is."""

    def __init__(self, client: Client, job_id: int, attempt: int, rank: int, task: str | None = None) -> None:
        self._client = client
        self._job_id = job_id
        self._which = {"attempt": attempt, "task": task, "rank": rank}
        self._after = NONE_SEEN

    def read(self) -> Piece:
        page = self._client.logs.page(self._job_id, after=self._after, **self._which)  # type: ignore[arg-type]
        _check_rank(page, self._job_id)
        self._after = page["next_after"]
        text = "".join(chunk["text"] for chunk in page["chunks"])
        # A server from before retention does not speak of it.
        removed = page.get("removed")
        return Piece(text, page["complete"], page["truncated"], removed["message"] if removed else "")


class MergedStream:
    """The output of all ranks, or of those of a task, line by line in the order in which it came.

    Of a line that has not ended, `follow` says to wait for the rest.
    """

    def __init__(self, client: Client, job_id: int, attempt: int, task: str | None, *, follow: bool) -> None:
        self._client = client
        self._job_id = job_id
        self._attempt = attempt
        self._task = task
        self._follow = follow
        self._after = ""
        #: By rank: its name, and the line that has not ended.
        self._unended: dict[int, tuple[str, str]] = {}

    def read(self) -> Piece:
        while True:
            page = self._client.logs.merged(
                self._job_id, attempt=self._attempt, task=self._task, after=self._after
            )
            self._after = page["next_after"]
            text = self._lines(page)
            # Chunks may have brought no end of a line.
            if text or not page["chunks"]:
                removed = page["removed"]
                return Piece(text, page["complete"], removed=removed["message"] if removed else "")

    def _lines(self, page: MergedLogPage) -> str:
        has_names = len(page["ranks"]) > 1
        shown = []
        for chunk in page["chunks"]:
            rank = chunk["rank"]
            name = f"[{chunk['task']} {rank}] " if has_names else ""
            *lines, rest = (self._unended.pop(rank, ("", ""))[1] + chunk["text"]).split("\n")
            shown += [f"{name}{line}\n" for line in lines]
            if rest:
                self._unended[rank] = (name, rest)
        if page["complete"] or not (page["chunks"] or self._follow):
            shown += [f"{name}{line}\n" for name, line in self._unended.values()]
            self._unended.clear()
        return "".join(shown)


def _check_rank(page: LogPage, job_id: int) -> None:
    """Raise WrongUse when the job has no such rank: it would be waited for in vain."""
    if page["rank"] not in page["ranks"]:
        raise WrongUse(
            f"Job {job_id} has no rank {page['rank']}. Expected a number from 0 to {max(page['ranks'])}."
        )
