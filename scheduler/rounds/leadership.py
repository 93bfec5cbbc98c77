"""The round number: the name of a round, and the fence that keeps an overtaken one from writing."""

from django.conf import settings
from django.db import connection


class Fenced(Exception):
    """Another round has been started over this one; what it decided is thrown away."""


def take_number() -> int | None:
    """Start a round: return its number, or None while another one is being decided."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduler_leadership (id, number, expires_at) VALUES (1, 0, NULL)"
            " ON CONFLICT (id) DO NOTHING"
        )
        cursor.execute(
            "UPDATE scheduler_leadership"
            " SET number = number + 1, expires_at = clock_timestamp() + make_interval(secs => %s)"
            " WHERE id = 1 AND (expires_at IS NULL OR expires_at < clock_timestamp())"
            " RETURNING number",
            [settings.CONFIG.round_lease_seconds],
        )
        row = cursor.fetchone()
    return None if row is None else row[0]


def hold_fence(number: int) -> None:
    """Lock the leadership row for this transaction; raise Fenced when the number is no longer ours.

    The lease is given back in the same transaction: what the round writes and the right to start the
    next one become visible together.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT number FROM scheduler_leadership WHERE id = 1 FOR UPDATE")
        (current,) = cursor.fetchone()
        if current != number:
            raise Fenced(f"round {number} was overtaken by round {current}")
        cursor.execute("UPDATE scheduler_leadership SET expires_at = NULL WHERE id = 1")


def give_up(number: int) -> None:
    """Give the lease back after a failure, unless another round has taken it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_leadership SET expires_at = NULL WHERE id = 1 AND number = %s", [number]
        )
