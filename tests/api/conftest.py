"""The API is tested as the role by which an installation runs it: it may read and write rows, no more."""

import pytest
from django.db import connection

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
