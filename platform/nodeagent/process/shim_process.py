"""A shim as the agent holds it: started or found, watched, signalled; and where it lays out secrets.

That is a folder of a tmpfs, so that they lie in memory only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from secrets import token_hex

from nodeagent.clock import environment
from nodeagent.folder import AttemptFolder
from nodeagent.messages import HandedSecret, encode
from nodeagent.programs import program
from nodeagent.shim.main import RUNNING
from nodeagent.shim.secrets import FOLDER_PREFIX, remove_abandoned

FORK_SERVER = program("nodeagent.shim.fork_server")
#: A fork takes milliseconds. A server that does not answer for this long is replaced.
FORK_SECONDS = 5.0
ANSWER_BYTES = 32
#: Where a tmpfs is looked for, in this order; root alone may write into the first.
PLACES = ("/run", "/dev/shm")
MOUNTS = "/proc/self/mounts"


class ShimProcess:
    """A shim that lives; it need not have been started by this agent."""

    def __init__(self, pid: int, *, pidfd: int | None = None, said: int | None = None) -> None:
        """`said`: what it writes to when its replicas run; both descriptors become this object's."""
        self.pid = pid
        self.said = said
        #: A descriptor, not a number: the number may belong to another process by now.
        self.pidfd = os.pidfd_open(pid) if pidfd is None else pidfd

    def watch(self, running: Callable[[], None], ended: Callable[[], None]) -> None:
        """Call `running` when all replicas run, if this agent started it, and `ended` when it ended."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.pidfd, ended)
        if self.said is not None:
            loop.add_reader(self.said, self._read, running)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def wake(self) -> None:
        """Let the shim read its orders again."""
        # Any version of it takes this for the end of a child; another signal would end an older one.
        self.signal(signal.SIGCHLD)

    def close(self) -> None:
        """Watch it no longer."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.pidfd)
        os.close(self.pidfd)
        if self.said is not None:
            loop.remove_reader(self.said)
            os.close(self.said)

    def _read(self, running: Callable[[], None]) -> None:
        assert self.said is not None
        said = os.read(self.said, len(RUNNING))
        asyncio.get_running_loop().remove_reader(self.said)
        if said == RUNNING:
            running()


class ShimStarter:
    """Starts shims through a fork server, which is started with the first one and again when it was lost.

    Where a server is lost before it answers, an attempt may get two shims: the second finds the lock of the
    first and ends.
    """

    def __init__(self, attempts: str) -> None:
        """`attempts`: the folder that the attempts' folders are in."""
        # A number has 20 digits at most.
        self._place = " " * (len(os.fsencode(attempts)) + 21)
        self._server: subprocess.Popen[bytes] | None = None
        self.connection: socket.socket | None = None

    def start(self, folder: AttemptFolder, secrets: Sequence[HandedSecret] = ()) -> ShimProcess:
        """Start a shim in a session of its own; raise OSError when that is not possible.

        It reads its secrets from a file without a name, in memory, that ends with it.
        """
        handed = os.memfd_create("secrets of an attempt")
        with open(handed, "w+b") as memory, open(folder.shim_log, "wb") as complaints:
            memory.write(json.dumps([encode(secret) for secret in secrets]).encode())
            memory.seek(0)
            said, say = os.pipe2(os.O_CLOEXEC)
            try:
                pid, pidfd = self._forked(folder.path, [handed, say, complaints.fileno()])
            except BaseException:
                os.close(said)
                raise
            finally:
                os.close(say)
        return ShimProcess(pid, pidfd=pidfd, said=said)

    def close(self) -> None:
        """Let the server end; the shims go on."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self._server is not None:
            # It has nothing to end in good order, and may hang.
            self._server.kill()
            self._server.wait()
            self._server = None

    def _forked(self, path: str, descriptors: Sequence[int]) -> tuple[int, int]:
        """Return a shim's process number and descriptor."""
        if self.connection is not None:
            with contextlib.suppress(OSError):
                return self._ask(self.connection, path, descriptors)
        return self._ask(self._started(), path, descriptors)

    def _ask(self, server: socket.socket, path: str, descriptors: Sequence[int]) -> tuple[int, int]:
        received: list[int] = []
        with contextlib.suppress(OSError):
            socket.send_fds(server, [os.fsencode(path)], descriptors)
            answer, received, _, _ = socket.recv_fds(server, ANSWER_BYTES, 1)
        if not received:
            self.close()
            raise OSError("the process that starts shims does not answer")
        return int(answer), received[0]

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(FORK_SECONDS)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", FORK_SERVER, self._place],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=environment(),
                start_new_session=True,
            )
        self.connection = ours
        return ours


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
