"""A shim as the agent holds it: started or found, watched, signalled; and where it lays out secrets.

That is a folder of a tmpfs, so that they lie in memory only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import IO

from nodeagent.clock import environment
from nodeagent.folder import AttemptFolder
from nodeagent.messages import HandedSecret, encode
from nodeagent.programs import program
from nodeagent.shim.main import RUNNING
from nodeagent.shim.secrets import FOLDER_PREFIX, remove_abandoned

#: Without site packages it is up in 20 ms.
SHIM = program("nodeagent.shim.main")
#: Where a tmpfs is looked for, in this order; root alone may write into the first.
PLACES = ("/run", "/dev/shm")
MOUNTS = "/proc/self/mounts"


class ShimProcess:
    """A shim that lives; it need not be a child of this process."""

    def __init__(self, pid: int, child: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.child = child
        self.said = child.stdout if child is not None else None
        #: A descriptor, not a number: the number may belong to another process by now.
        self.pidfd = os.pidfd_open(pid)

    @classmethod
    def start(cls, folder: AttemptFolder, secrets: Sequence[HandedSecret] = ()) -> ShimProcess:
        """Start a shim in a session of its own; raise OSError when that is not possible.

        It reads its secrets from a file without a name, in memory, that ends with it.
        """
        handed = os.memfd_create("secrets of an attempt")
        with open(handed, "w+b") as memory:
            memory.write(json.dumps([encode(secret) for secret in secrets]).encode())
            memory.seek(0)
            return cls._start(folder, memory)

    @classmethod
    def _start(cls, folder: AttemptFolder, handed: IO[bytes]) -> ShimProcess:
        with open(folder.shim_log, "wb") as complaints:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", SHIM, folder.path],
                stdin=handed,
                stdout=subprocess.PIPE,
                stderr=complaints,
                cwd="/",
                env=environment(),
                start_new_session=True,
            )
        return cls(child.pid, child)

    def watch(self, running: Callable[[], None], ended: Callable[[], None]) -> None:
        """Call `running` when all replicas run, if it is a child, and `ended` when it ended."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.pidfd, ended)
        if self.said is not None:
            loop.add_reader(self.said, self._read, running)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def wake(self) -> None:
        """Let the shim look again at what it was told."""
        # Any version of it takes this for the end of a child; another signal would end an older one.
        self.signal(signal.SIGCHLD)

    def close(self) -> None:
        """Watch it no longer, and take note of its end if it has ended."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.pidfd)
        os.close(self.pidfd)
        if self.said is not None:
            loop.remove_reader(self.said)
            self.said.close()
        if self.child is not None:
            self.child.poll()

    def _read(self, running: Callable[[], None]) -> None:
        assert self.said is not None
        said = os.read(self.said.fileno(), len(RUNNING))
        asyncio.get_running_loop().remove_reader(self.said)
        if said == RUNNING:
            running()


def memory_folder() -> str:
    """Return the first tmpfs that can be written to and passed by all users; "" when there is none."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="replace") as file:
            mounts = {words[1]: words[2] for words in map(str.split, file)}
    except OSError:
        return ""
    usable = (path for path in PLACES if mounts.get(path) == "tmpfs" and os.access(path, os.W_OK | os.X_OK))
    return next(usable, "")


def folder_for_secrets(folder: AttemptFolder) -> str:
    """Return a path at which nothing is yet. Without a tmpfs it is in the attempt's own folder, on a disk."""
    parent = memory_folder() or folder.path
    return os.path.join(parent, f"{FOLDER_PREFIX}{token_hex(16)}")


def forget_abandoned() -> None:
    """Remove what was left behind by shims that were killed together with their agents."""
    if parent := memory_folder():
        remove_abandoned(parent)
