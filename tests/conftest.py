"""Real servers for the tests that need them, none for those that do not (see `tests.servers`)."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from tests.servers import started

#: Folders whose tests run whole platforms, or a whole Slurm: they need the machine alone, for they take all
#: the processors there are. `make test` runs them after the others, as two processes; -m alone names them.
ALONE = ("browser", "e2e", "slurm", "up")

#: They take longest, so they come first: else one process would still be at them when the others are done.
LONGEST = ("test_fuzz.py", "test_every_route.py", "test_same_as_simulator.py")


def pytest_configure() -> None:
    """Each client of a test makes its middleware anew; that must not read every file of the dashboard."""
    settings.WHITENOISE_AUTOREFRESH = True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark those that other tests must not run beside, and put them in an order for several processes."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in ALONE:
            item.add_marker(pytest.mark.alone)
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(scope="session")
def _postgres_server() -> Iterator[None]:
    with started("postgres"):
        yield


@pytest.fixture(scope="session")
def _redis_server() -> Iterator[None]:
    with started("redis"):
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(_postgres_server: None, _redis_server: None) -> None:
    """pytest-django asks for this before it creates the test database; Redis comes along, since
    nearly everything that writes also publishes."""


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Tests that commit end with a TRUNCATE of all tables, which the audit log refuses and tells of."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgrelid::regclass::text, tgname FROM pg_trigger"
            " WHERE tgname IN ('is_never_truncated', 'audit_truncate')"
        )
        for table, trigger in cursor.fetchall():
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}")


@pytest.fixture(scope="session")
def redis_url(_redis_server: None) -> str:
    return os.environ["REDIS_URL"]
