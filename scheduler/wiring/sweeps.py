"""Sweeps: what is done again and again for each of many things, of which one may be broken."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from django.db import OperationalError, connection

log = logging.getLogger(__name__)

T = TypeVar("T")


def for_each(what: str, things: Iterable[T], act: Callable[[T], object]) -> None:
    """Act on each thing, also where one before it failed: that one must not cost all others their turn.

    `act` is a transaction of its own, and `what` names the kind of thing in the log. Raises OperationalError
    where the database is away, since nothing can be done for any of them.
    """
    for thing in things:
        try:
            act(thing)
        except Exception as error:
            if isinstance(error, OperationalError) and not connection.is_usable():
                raise
            log.exception("%s %s failed", what, getattr(thing, "__name__", thing))
