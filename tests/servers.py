"""A pytest plugin (`-p tests.servers` in pyproject.toml) that settles where the test's servers are.

Settings want to know that when they are imported, before any conftest is and long before a test is
chosen. So the addresses are settled here, at import, and the servers start when the first test needs
them. `DATABASE_URL` and `REDIS_URL` in the environment name servers of one's own instead.

Where tests run in several processes, each process has servers of its own.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

from controlplane.embedded import ports
from controlplane.embedded.postgres import APPLICATION, OWNER, Postgres
from controlplane.embedded.redis import Redis
from controlplane.embedded.running import Server, running
from tenants.sealing import new_key

PREFIX = "allotment-test-"


def _remove_left_behind() -> None:
    """Folders of test runs that were killed; their servers ended with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        process = folder.name.removeprefix(PREFIX).partition("-")[0]
        if process.isdigit() and not psutil.pid_exists(int(process)):
            shutil.rmtree(folder, ignore_errors=True)


_remove_left_behind()
# Processes that run tests beside each other inherit what was settled for the one that started them.
for inherited in os.environ.pop("ALLOT_TEST_SETTLED", "").split():
    del os.environ[inherited]
HOME = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
SERVERS: dict[str, Server] = {}
if "DATABASE_URL" not in os.environ:
    SERVERS["postgres"] = Postgres(
        data=HOME / "postgres", password=secrets.token_urlsafe(16), port=ports.pick(), durable=False
    )
    # The owner's, who makes the tables and empties them; tests/api walks the routes as the application.
    os.environ["DATABASE_URL"] = SERVERS["postgres"].owner_url
if "REDIS_URL" not in os.environ:
    SERVERS["redis"] = Redis(folder=HOME / "redis", password=secrets.token_urlsafe(16), port=ports.pick())
    os.environ["REDIS_URL"] = SERVERS["redis"].url
os.environ["ALLOT_TEST_SETTLED"] = " ".join(
    {"postgres": "DATABASE_URL", "redis": "REDIS_URL"}[name] for name in SERVERS
)
os.environ["ALLOT_HOME"] = str(HOME)
# On a busy machine a process takes its time to start, and a round that does not wait for it has no plan.
os.environ.setdefault("ALLOT_SOLVER_START_SECONDS", "60")
os.environ["ALLOT_SECRET_KEY"] = "only-for-tests-" + secrets.token_urlsafe(32)
os.environ["ALLOT_SECRETS_KEYS"] = new_key()


@contextmanager
def started(name: str) -> Iterator[None]:
    """The server of that name for the length of the block, unless it is one of one's own."""
    if name not in SERVERS:
        yield
        return
    with running(SERVERS[name]):
        if name == "postgres":
            with psycopg.connect(SERVERS[name].administrator_url, autocommit=True) as connection:
                # Who runs the tests makes the test database, and takes the application's part in some.
                connection.execute(f"ALTER ROLE {OWNER} CREATEDB")
                connection.execute(f"GRANT {APPLICATION} TO {OWNER}")
                # Between tests that commit: tables are emptied without their triggers.
                connection.execute(f"GRANT SET ON PARAMETER session_replication_role TO {OWNER}")
        yield


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
