"""The folder of one attempt: all messages between agent and shim, and what outlives either.

    part.json     what the agent was asked to run, and the port it chose
    spec.json     what the shim is to start; its presence says that starting was decided
    status.json   written by the shim (or, when that died, by the agent that cleaned up after it)
    stop          how to stop, read by the shim when it gets SIGTERM
    turns         when an attempt that shares its GPUs has its turn; null or missing: always
    frozen        written by the shim while the attempt stands still because the lease ended, and until
                  when, by the boot clock, it may stand so
    resume        until when, by the boot clock, what stands still may go on: the server still names it
    minder.lock   locked by the shim while it lives; its old name, which every version of the agent looks for
    shim.log    the shim's own complaints; normally empty
    door          a socket, at which the shim lets guests in (`shim/guest.py`)
    rank-N.log    output of replica N; rank-N.sent says how much of it the server has
    environment-N what replica N's container gets as its environment
    progress-N    the file behind $ALLOT_PROGRESS; progress.sent says how far rank 0's was reported
    held          written by the shim: how each replica with a part of a GPU is held to it
    on-gpu        written by the agent: what each replica with a part of a real GPU occupies of its memory
    passwd, group what a job in a sandbox sees as those of /etc
    trainers      written by the agent: where the trainers wait that share an input worker
    secrets       where the job finds secrets that are files; what is there is on a tmpfs, where there is one
    work/N, tmp   working folder of replica N, and its TMPDIR; work/token-N is a socket at which it may ask
                  for the token of a GPU of which it has a part (`shim/sharing.py`)

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import fcntl
import json
import os

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from typing import Any


class AttemptFolder:
    """Paths and small files of one attempt on one node."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.part = os.path.join(path, "part.json")
        self.spec = os.path.join(path, "spec.json")
        self.status = os.path.join(path, "status.json")
        self.stop = os.path.join(path, "stop")
        self.turns = os.path.join(path, "turns")
        self.frozen = os.path.join(path, "frozen")
        self.resume = os.path.join(path, "resume")
        self.shim_lock = os.path.join(path, "minder.lock")
        self.shim_log = os.path.join(path, "shim.log")
        self.held = os.path.join(path, "held")
        self.on_gpu = os.path.join(path, "on-gpu")
        self.trainers = os.path.join(path, "trainers")
        self.door = os.path.join(path, "door")
        self.progress_sent = os.path.join(path, "progress.sent")
        self.temporary = os.path.join(path, "tmp")
        self.secrets = os.path.join(path, "secrets")
        self.passwd = os.path.join(path, "passwd")
        self.group = os.path.join(path, "group")
        self.works = os.path.join(path, "work")

    def log(self, rank: int) -> str:
        return os.path.join(self.path, f"rank-{rank}.log")

    def sent(self, rank: int) -> str:
        return os.path.join(self.path, f"rank-{rank}.sent")

    def progress(self, rank: int) -> str:
        return os.path.join(self.path, f"progress-{rank}")

    def environment(self, rank: int) -> str:
        return os.path.join(self.path, f"environment-{rank}")

    def token(self, rank: int) -> str:
        """Return where replica N asks for its GPU's token; all that it may write to is below `works`."""
        return os.path.join(self.works, f"token-{rank}")

    def work(self, rank: int) -> str:
        return os.path.join(self.works, str(rank))

    def lock_shim(self) -> int | None:
        """Take the shim's lock; None when a shim lives. It is held until the descriptor is closed."""
        descriptor = os.open(self.shim_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor


def write_json(path: str, value: Any, *, is_durable: bool = False) -> None:
    """Replace the file in one step: a reader sees the old or the new text, never half of one.

    Where it is durable this holds for a reader after a loss of power, too, who sees the new text.
    """
    temporary = f"{path}.{os.getpid()}.new"
    write_private(temporary, json.dumps(value))
    if is_durable:
        _sync(temporary)
    os.replace(temporary, path)
    if is_durable:
        _sync(os.path.dirname(path))


def _sync(path: str) -> None:
    """Return once what is in the file or folder is on its disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def overwrite(path: str, text: str) -> None:
    """Write over the beginning of the file; make it if there is none.

    Unlike `write_json` it needs no room on the disk where the file is as long already; file systems that
    never write in place may need it all the same. A reader may see half of the old and half of the new text.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, text.encode(), 0)
    finally:
        os.close(descriptor)


def write_private(path: str, text: str) -> None:
    """Write a file that only its owner can read."""
    with open(path, "w", encoding="utf-8", opener=_private) as file:
        file.write(text)


def read_json(path: str) -> Any:
    """Return the file's value; None when there is no such file or it holds no JSON."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None


def _private(path: str, flags: int) -> int:
    # A job's environment may hold secrets of its tenant.
    return os.open(path, flags, 0o600)
