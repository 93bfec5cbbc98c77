"""The database's clock in a test's hands: time stands still until the test moves it."""

from __future__ import annotations

from django.db import connection

#: An instant that is a multiple of every round length and quantum, so that sums of times are exact.
BEGINNING = 1_800_000_000

# Names are looked up in the schemas of the search path in turn; PostgreSQL's own come first only where they
# are not named. All of it ends with the test's transaction.
_INSTALL = """
CREATE SCHEMA virtual_time;
CREATE FUNCTION virtual_time.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
AS $$ SELECT to_timestamp(current_setting('virtual_time.seconds')::float8) $$;
SET LOCAL search_path = virtual_time, pg_catalog, public;
"""


class VirtualClock:
    """What `clock_timestamp()` says in this transaction, in seconds from BEGINNING."""

    def __init__(self) -> None:
        self.move_to(0)
        with connection.cursor() as cursor:
            cursor.execute(_INSTALL)

    def move_to(self, seconds: float) -> None:
        self.seconds = seconds
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('virtual_time.seconds', %s, true)", [str(BEGINNING + seconds)])
