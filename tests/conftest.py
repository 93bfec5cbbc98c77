"""Real servers for the tests that need them, none for those that do not (see `tests.servers`)."""

import gc
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from django.conf import settings
from django.core.servers.basehttp import WSGIRequestHandler
from django.db import connection
from django.test import TransactionTestCase

from allot import credentials
from tests.effort import EVERY_DAY
from tests.servers import SERVERS, migrated_home, started

if TYPE_CHECKING:
    from tests.e2e.installation import Installation

# Before NumPy is loaded. On a busy machine the threads of its linear algebra wait for each other, in problems
# so small that one alone would be done long before.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

#: Empties the tables, but those that migrations fill for all times. The locks wait for whoever still writes;
#: without triggers, for some tables refuse that rows go, and others write down who took them.
EMPTY = """
DO $$
DECLARE filled text;
BEGIN
    PERFORM set_config('session_replication_role', 'replica', true);
    SELECT string_agg(oid::regclass::text, ',') INTO filled FROM pg_class
     WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
       AND relname NOT IN ('django_migrations', 'django_content_type', 'auth_permission');
    EXECUTE 'LOCK TABLE ' || filled || ' IN EXCLUSIVE MODE';
    FOREACH filled IN ARRAY string_to_array(filled, ',') LOOP
        EXECUTE 'DELETE FROM ' || filled;
    END LOOP;
END $$
"""


def pytest_configure() -> None:
    # A shell starts what runs in the background with Ctrl-C ignored, which the tests' programs would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Each client of a test makes its middleware again, which must not read every file of the dashboard.
    settings.WHITENOISE_AUTOREFRESH = True
    # The live server sends head and body apart: without this the body waits 40 ms for news of the head.
    WSGIRequestHandler.disable_nagle_algorithm = True
    TransactionTestCase._fixture_teardown = _empty_tables
    hypothesis.settings.load_profile(EVERY_DAY)


def pytest_collection_finish() -> None:
    """Let garbage collections pass over what stays anyway: thousands of tests, and all modules."""
    gc.collect()
    gc.freeze()


def _empty_tables(self: TransactionTestCase) -> None:
    """End a test that commits. Django's own TRUNCATE makes hundreds of files anew, fifty times as slowly."""
    with connection.cursor() as cursor:
        cursor.execute(EMPTY)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let the JUnit file name each test in the words that run it by itself (`tests.tiers`)."""
    item.user_properties.append(("id", item.nodeid))


#: Where `allot` keeps who the person is who runs these tests.
OWN_CONFIG = credentials.config_path(
    {name: os.environ[name] for name in os.environ if name != "ALLOT_CONFIG"}
)
_save = credentials.save
_configs = itertools.count()


@pytest.fixture(scope="session")
def _allot_configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("allot-configs")


@pytest.fixture(autouse=True)
def allot_config(_allot_configs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a configuration of `allot` of its own; one that writes to the person's own fails."""
    path = _allot_configs / f"{next(_configs)}.json"
    monkeypatch.setenv("ALLOT_CONFIG", str(path))
    monkeypatch.setattr(credentials, "save", _save_elsewhere)
    return path


def _save_elsewhere(path: Path, kept: credentials.Credentials) -> None:
    if path.resolve() == OWN_CONFIG.resolve():
        pytest.fail(
            f"This test writes to {OWN_CONFIG}, which is not its own: let ALLOT_CONFIG name another file."
        )
    _save(path, kept)


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
def django_db_keepdb() -> bool:
    """The embedded server begins with a migrated test database, see `tests.servers.copy_template`."""
    return "postgres" in SERVERS


@pytest.fixture(scope="session")
def redis_url(_redis_server: None) -> str:
    return os.environ["REDIS_URL"]


@pytest.fixture(scope="session")
def shared_platform(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Installation]":
    """The one platform of tests/browser and tests/e2e: starting it is the expensive part.

    Two nodes of four V100; "vision" is guaranteed six of these, "speech" two.
    """
    from tests.e2e.installation import installation

    with installation(tmp_path_factory.mktemp("platform"), migrated_home) as platform:
        for name in ("bed-1", "bed-2"):
            platform.add_node(name, gpus=4, rack="north")
        for tenant, guaranteed in (("vision", 6), ("speech", 2)):
            platform.call("POST", "tenants", {"name": tenant, "title": f"{tenant.title()} group"})
            members = [{"tenant": tenant, "weight": 1}]
            fields = {"guaranteed": {"V100": guaranteed}, "members": members}
            platform.call("POST", "virtual-clusters", {"name": f"{tenant}-vc", **fields})
        yield platform
