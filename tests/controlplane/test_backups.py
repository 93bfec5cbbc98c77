"""The commands of docs/backups.md as they stand: a dump, and a restore into another database."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from controlplane.embedded.postgres import Postgres, binaries
from controlplane.management.commands.migrate import SKIPPED
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import make_job, make_tenant
from tests.servers import SERVERS, TEST_DATABASE

ROOT = Path(__file__).resolve().parents[2]
RESTORED = "restored"


@pytest.mark.django_db(transaction=True)
def test_what_was_dumped_is_there_again_for_the_platforms_role(tmp_path: Path) -> None:
    server = SERVERS.get("postgres")
    if not isinstance(server, Postgres):
        pytest.skip("the tests were given a PostgreSQL, in which they make no database")
    job = make_job(tenant=make_tenant("roses"))
    page = (ROOT / "docs" / "backups.md").read_text()
    dump, restore = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "manage.py").symlink_to(ROOT / "manage.py")
    run(dump, tmp_path, ALLOT_MIGRATION_DATABASE_URL=url(server.owner_url, TEST_DATABASE))
    try:
        run(
            restore,
            tmp_path,
            ALLOT_ADMIN_DATABASE_URL=server.administrator_url,
            ALLOT_MIGRATION_DATABASE_URL=url(server.owner_url, RESTORED),
            DATABASE_URL=url(server.url, RESTORED),
        )
        with psycopg.connect(url(server.url, RESTORED)) as restored:
            jobs = restored.execute(
                "SELECT j.id, t.name FROM scheduler_job j JOIN tenants_tenant t ON t.id = tenant_id"
            )
            assert jobs.fetchall() == [(job.id, "roses")]
            # Its rights are back: it writes rows, and rewrites no audit log.
            restored.execute("UPDATE scheduler_job SET name = 'again'")
            numbers = restored.execute("SELECT nextval(pg_get_serial_sequence('scheduler_job', 'id'))")
            # No new job finds the checkpoints of one that the dump does not hold.
            assert numbers.fetchall() == [(job.id + SKIPPED + 1,)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                restored.execute("DELETE FROM tenants_auditentry")
    finally:
        administrator = make_conninfo(server.administrator_url, dbname="postgres")
        with psycopg.connect(administrator, autocommit=True) as whole_server:
            whole_server.execute(f"DROP DATABASE IF EXISTS {RESTORED}")


def url(of_server: str, database: str) -> str:
    """Return the address of another database of a server."""
    return urlsplit(of_server)._replace(path=f"/{database}").geturl()


def run(script: str, folder: Path, **environment: str) -> None:
    """Run a block of the page as a reader does; the programs of PostgreSQL are those of the embedded one."""
    path = f"{binaries()}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=folder,
        env=os.environ | environment | {"PATH": path, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
