"""Requests of people are repeated when PostgreSQL ended them for a deadlock (decision 0004)."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import OperationalError
from psycopg.errors import DeadlockDetected

_TRIES = 3

P = ParamSpec("P")
T = TypeVar("T")


def repeated_on_deadlock(service: Callable[P, T]) -> Callable[P, T]:
    """Repeat the service when PostgreSQL ended its transaction, one of two that waited for each other.

    Only for requests of people: agents and rounds repeat automatically. The service is a transaction
    (or savepoint) of its own, so nothing of the first try is left.
    """

    @wraps(service)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_TRIES - 1):
            try:
                return service(*args, **kwargs)
            except OperationalError as error:
                if not isinstance(error.__cause__, DeadlockDetected):
                    raise
        return service(*args, **kwargs)

    return repeated
