"""The one clock of the control plane: the database's."""

from datetime import datetime

from django.db import connection


def database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now
