"""A pytest plugin (`-p tests.servers` in pyproject.toml) that settles where the test's servers are.

Settings want to know that when they are imported, before any conftest is and long before a test is
chosen. So the addresses are settled here, at import, and the servers start when the first test needs
them. `DATABASE_URL` and `REDIS_URL` in the environment name servers of one's own instead.

Where tests run in several processes, each process has servers of its own. The data folders of PostgreSQL are
copies of one with a migrated database, which lies in `.test-database` until the code changes.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from controlplane.embedded import ports
from controlplane.embedded.postgres import APPLICATION, DATABASE, OWNER, Postgres
from controlplane.embedded.redis import Redis
from controlplane.embedded.running import Server, running
from tenants.sealing import new_key

PREFIX = "allotment-test-"
ROOT = Path(__file__).resolve().parents[1]
#: What decides which tables there are, and rather more.
CODE = ("constraints.txt", "platform/controlplane/**/*.py", "scheduler/**/*.py", "tenants/**/*.py")
#: The database that Django's tests use, and that of the platform: both are in the template.
TEST_DATABASE = f"test_{DATABASE}"


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
KEPT = ROOT / ".test-database" if os.access(ROOT, os.W_OK) else HOME / "template"
KEPT.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def _alone() -> Iterator[None]:
    """Let no other process of tests change what is kept for the length of the block."""
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _password() -> str:
    """The password of the administrator of all test servers, since they are copies of one."""
    with _alone():
        kept = KEPT / "password"
        if not kept.exists():
            kept.write_text(secrets.token_urlsafe(16))
        return kept.read_text()


PASSWORD = _password()
SERVERS: dict[str, Server] = {}
if "DATABASE_URL" not in os.environ:
    SERVERS["postgres"] = Postgres(
        data=HOME / "postgres", password=PASSWORD, port=ports.pick(), durable=False
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


def _digest() -> str:
    found = hashlib.sha256(sys.version.encode())
    for path in sorted(path for pattern in CODE for path in ROOT.glob(pattern)):
        found.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _make_template(folder: Path) -> None:
    """Make a data folder with two migrated databases: the platform's, and that of tests."""
    with tempfile.TemporaryDirectory(dir=HOME) as making:
        postgres = Postgres(data=Path(making) / "data", password=PASSWORD, port=ports.pick(), durable=False)
        with running(postgres):
            migrate = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
            own = {"DATABASE_URL": postgres.owner_url, "ALLOT_MIGRATION_DATABASE_URL": ""}
            subprocess.run(migrate, cwd=ROOT, env=os.environ | own, check=True)
            administrator = make_conninfo(postgres.administrator_url, dbname="postgres")
            with psycopg.connect(administrator, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {TEST_DATABASE} TEMPLATE {DATABASE} OWNER {OWNER}")
        _copy(postgres.data, folder)


def _copy(data: Path, to: Path) -> None:
    """Copy a data folder with its owner, who is not who runs the tests where root does."""
    subprocess.run(["cp", "-a", str(data), str(to)], check=True)


def copy_template(data: Path) -> None:
    """Make a data folder of PostgreSQL, with migrated databases; its password is PASSWORD."""
    with _alone():
        template = KEPT / _digest()
        if not template.exists():
            for old in KEPT.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            _make_template(KEPT / "new")
            (KEPT / "new").rename(template)
        _copy(template, data)


def migrated_home(home: Path) -> None:
    """Lay out the home of a platform that has its tables. Only tests/up begin with none."""
    home.mkdir(mode=0o700)
    copy_template(home / "postgres")
    (home / "env").write_text(f"ALLOT_EMBEDDED_POSTGRES_PASSWORD={PASSWORD}\n")


@contextmanager
def started(name: str) -> Iterator[None]:
    """The server of that name for the length of the block, unless it is one of one's own."""
    if name not in SERVERS:
        yield
        return
    if name == "postgres":
        copy_template(HOME / "postgres")
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
