"""The home folder of an installation: its holder, its secrets, and where its servers are."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.up.console import StartError
from tenants.sealing import new_key


@dataclass(frozen=True)
class Home:
    path: Path

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def agent_configurations(self) -> Path:
        """Written by `manage.py demo prepare`, one file per demonstration node."""
        return self.path / "demo" / "agents"

    @property
    def checkpoints(self) -> Path:
        """Where the demonstration's nodes keep checkpoints, as the server sees it."""
        return self.path / "demo" / "checkpoints"

    def create(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StartError(
                f"The folder {self.path} cannot be used: {error.strerror}. Choose another by --home."
            ) from error

    @contextmanager
    def lock(self, address: str) -> Iterator[None]:
        """Hold the home for the length of the block; the kernel lets go if we are killed in it."""
        with open(self.path / "up.lock", "a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                process, _, other = file.read().strip().partition(" ")
                raise StartError(
                    f"The platform already runs on {self.path}: process {process}, {other}. "
                    f"Stop it by Ctrl-C in its terminal or by `kill {process}`, or give this one "
                    f"its own folder by --home and its own --port."
                ) from None
            file.truncate(0)
            file.write(f"{os.getpid()} {address}\n")
            file.flush()
            yield

    def environment(self) -> dict[str, str]:
        """What `env` says, with secrets made for what it lacks."""
        values = self._read()
        for name in ("ALLOT_SECRET_KEY", "ALLOT_EMBEDDED_POSTGRES_PASSWORD", "ALLOT_EMBEDDED_REDIS_PASSWORD"):
            values.setdefault(name, secrets.token_urlsafe(48))
        values.setdefault("ALLOT_SECRETS_KEYS", new_key())
        return values

    def write_environment(self, values: dict[str, str]) -> None:
        """Replace `env` in one step: a crash leaves the old secrets or the new file, never neither."""
        lines = ["# Written by `manage.py up` at each start; read by every other command.\n"]
        lines += [f"{name}={value}\n" for name, value in sorted(values.items())]
        temporary = self.path / "env.new"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / "env")

    def _read(self) -> dict[str, str]:
        try:
            lines = (self.path / "env").read_text().splitlines()
        except FileNotFoundError:
            return {}
        pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
        return {name: value for name, _, value in pairs}
