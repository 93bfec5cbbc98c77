"""What happens in the cluster, as it happens: `GET /events/stream`, by Server-Sent Events."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from allot.errors import Busy, NotSignedIn, Unreachable, WrongServer
from allot.transport import FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS, Transport

if TYPE_CHECKING:
    from allot.schema import Event

_PATH = "/events/stream"
#: Ends after which there is no use in coming back.
_SIGNED_OUT = "not_signed_in"

Filter = str | int | None


class Message(NamedTuple):
    """One message of a stream; a heartbeat has an id only."""

    name: str
    id: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """What happened, and what happens. Filters: job, node, tenant, kind."""

    pages: Callable[..., Iterator[dict[str, Any]]]
    transport: Transport

    def listed(self, *, limit: int | None = None, **filters: Filter) -> Iterator[Event]:
        """Yield the newest first."""
        return cast("Iterator[Event]", self.pages("/events", filters, limit))

    def follow(
        self, *, since: datetime | None = None, patience_seconds: float = 0.0, **filters: Filter
    ) -> Iterator[Event]:
        """Yield events by id as they are written, without end; with `since` also those from then on.

        After a lost connection it goes on behind the last message, without loss or repetition. Raises what
        keeps it from a connection for longer than `patience_seconds`, and NotSignedIn when the sign-in ends.
        """
        after = None if since is None else self._last_before(since, filters)
        delay, heard = FIRST_DELAY_SECONDS, time.monotonic()
        while True:
            problem: Exception
            try:
                headers = {} if after is None else {"Last-Event-ID": str(after)}
                for said in messages(self.transport.lines(_PATH, filters, headers)):
                    delay, heard = FIRST_DELAY_SECONDS, time.monotonic()
                    after = int(said.id) if said.id else after
                    if said.name == "end":
                        problem = _ended(json.loads(said.data), self.transport.url)
                        break
                    if said.name == "event":
                        yield cast("Event", json.loads(said.data))
                else:
                    problem = Unreachable("The stream of events ended.", url=self.transport.url)
            except WrongServer:
                raise
            except (Unreachable, Busy) as error:
                problem = error
            if isinstance(problem, NotSignedIn):
                raise problem
            asked = problem.retry_after_seconds if isinstance(problem, Busy) else None
            pause = asked if asked is not None else delay * random.uniform(0.75, 1.25)
            if time.monotonic() + pause > heard + patience_seconds:
                raise problem
            self.transport.on_retry(str(problem))
            self.transport.sleep(pause)
            delay = min(delay * 2, LONGEST_DELAY_SECONDS)

    def _last_before(self, since: datetime, filters: Mapping[str, Filter]) -> int:
        """Return the id behind which all events since that instant are."""
        first: int | None = None
        for event in cast("Iterator[Event]", self.pages("/events", filters, None)):
            if datetime.fromisoformat(event["at"]) < since:
                return event["id"] if first is None else first - 1
            first = event["id"] if first is None else min(first, event["id"])
        return 0 if first is None else first - 1


def messages(lines: Iterable[str]) -> Iterator[Message]:
    """Yield the messages of Server-Sent Events; one that a broken connection cut off is left out."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif fields:
            yield Message(fields.get("event", ""), fields.get("id", ""), fields.get("data", ""))
            fields = {}


def _ended(said: Mapping[str, Any], url: str) -> Exception:
    if said["code"] == _SIGNED_OUT:
        return NotSignedIn(said["message"], status=401, code=_SIGNED_OUT)
    return Unreachable(said["message"], url=url)
