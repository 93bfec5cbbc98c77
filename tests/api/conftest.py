"""The API is tested as the role by which an installation runs it: it may read and write rows, no more."""

from collections.abc import Iterator

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connection

from controlplane import database_roles
from controlplane.embedded.postgres import APPLICATION
from tests.servers import SERVERS


@pytest.fixture(autouse=True)
def _as_the_application(request: pytest.FixtureRequest) -> None:
    # What commits, `transactional_db`, empties the tables afterwards, which only their owner may.
    if "db" in request.fixturenames and "postgres" in SERVERS:
        request.getfixturevalue("db")
        database_roles.grant(connection, APPLICATION)
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL ROLE {APPLICATION}")


@pytest.fixture
def one_connection() -> Iterator[None]:
    """The end of a request must not close the connection that holds the tests' transaction."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)
