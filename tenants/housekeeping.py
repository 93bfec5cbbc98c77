"""The turn of a step of the housekeeping: some seconds, and some rows in each transaction.

Where very much is left over, after a long outage or a setting that keeps less, the rest goes the next time.
Meanwhile other steps have their turn, and no transaction holds its locks for long.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from django.db.models import QuerySet

TURN_SECONDS = 15.0
_ROWS_AT_ONCE = 5_000

T = TypeVar("T")


def in_turn(things: Iterable[T]) -> Iterator[T]:
    """Yield things until the turn is over; one at least, so that each turn gets further."""
    deadline = time.monotonic() + TURN_SECONDS
    for thing in things:
        yield thing
        if time.monotonic() > deadline:
            return


def repeat(step: Callable[[], int]) -> int:
    """Take a step until it finds nothing more or the turn is over; return the sum of what it returned."""
    return sum(in_turn(iter(step, 0)))


def delete_rows(rows: QuerySet[Any]) -> int:
    """Delete rows until none is left or the turn is over; return how many, with those that depend on them."""
    # Not `rows.delete()`: Django refuses it for a slice.
    some = rows.model._default_manager.filter(pk__in=rows.values("pk")[:_ROWS_AT_ONCE])
    return repeat(lambda: some.delete()[0])
