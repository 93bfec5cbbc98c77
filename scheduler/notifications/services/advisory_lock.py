"""The right to do something alone, among all processes; it ends with its holder's connection."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

DISPATCH, MAIL, WEBHOOKS, AUDIT, REPORTS = 7_001, 7_002, 7_003, 7_004, 7_005


@contextmanager
def advisory_lock(key: int) -> Iterator[bool]:
    """Hold the right for the length of the block; False when another process has it.

    PostgreSQL's own lock of a session: a process that is killed no longer holds it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        (is_mine,) = cursor.fetchone()
    try:
        yield is_mine
    finally:
        if is_mine:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
