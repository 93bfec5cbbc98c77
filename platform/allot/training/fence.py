"""Which start of a job may write: the newest. A zombie finds that out and ends.

Every start claims a number by creating a name that must not exist yet. Attempts are numbered by the platform
and never reused; starts within one attempt, and starts without attempt numbers, take the next free number.
What a start writes lies under its own number, so an older one that has not checked yet overwrites nothing.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from allot.training.errors import Fenced
from allot.training.naming import CLAIMS, Start, starts_in
from allot.training.store import Store


@dataclass(frozen=True, slots=True)
class Fence:
    """The claim of this start."""

    store: Store
    start: Start

    def check(self) -> None:
        """Raise Fenced when a newer start has claimed."""
        newest = max(claimed(self.store), default=self.start)
        if newest > self.start:
            raise Fenced(str(self.start), str(newest))

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Raise Fenced for what fails since a newer start has cleared it away; else let it fail as it did."""
        try:
            yield
        except Exception:
            self.check()
            raise


def claimed(store: Store) -> set[Start]:
    return starts_in(store.names(CLAIMS), CLAIMS)


def claim(store: Store, attempt: int | None, time: int | None = None) -> Fence:
    """Take the lead for a new start of the attempt, or of the newest there was when they have no numbers.

    `time` is the number that the start must have, where others have to know it too; else it is the next.
    Raises Fenced when a newer start has claimed before, or this very one is taken.
    """
    while True:
        newest = max(claimed(store), default=Start(attempt or 0, -1))
        number = newest.attempt if attempt is None else attempt
        following = newest.time + 1 if newest.attempt == number else 0
        start = Start(number, following if time is None else time)
        if newest >= start:
            raise Fenced(str(start), str(newest))
        if store.create(f"{CLAIMS}{start}", _who()):
            fence = Fence(store, start)
            fence.check()
            return fence


def _who() -> bytes:
    """Return what distinguishes this claim from any other, for people who look, and for answers that got
    lost.
    """
    content = {"host": socket.gethostname(), "process": os.getpid(), "nonce": secrets.token_hex(8)}
    return (json.dumps(content) + "\n").encode()
