"""See the package; Django looks for its `DatabaseWrapper` here."""

import select
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool


class DatabaseWrapper(base.DatabaseWrapper):
    """PostgreSQL. Its pool gives a connection without asking the server about it (`CONN_HEALTH_CHECKS`).

    To ask costs each request a message to the server and back. A server that ends closes its connections, and
    the kernel knows that without asking.
    """

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a connection from the pool, or a new one where there is no pool."""
        while not _lives(connection := super().get_new_connection(conn_params)):
            # It is closed, so the pool forgets it and opens another.
            connection._pool.putconn(connection)
        return connection


def _lives(connection: psycopg.Connection) -> bool:
    """Whether the server still has its end of an idle connection; if not, the connection is closed."""
    arrivals = select.poll()
    arrivals.register(connection.fileno(), select.POLLIN)
    if not arrivals.poll(0):
        return True
    # Something came that was not asked for: a farewell, or a notice, which the server's answer tells apart.
    try:
        ConnectionPool.check_connection(connection)
    except psycopg.OperationalError:
        connection.close()
        return False
    return True
