"""The sandbox of one attempt as its shim holds it: bubblewrap makes it and keeps it, replicas enter it.

bubblewrap mounts what the job may see and leaves one `cat` waiting in there. Replicas are children of the
shim like any other and join the namespaces just before they become the command, so that their exit
status and their signals are their own. When bubblewrap or the shim ends, the kernel kills all inside.

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys

from nodeagent.procfs import descendants, drop_capability_bounds, enter_namespace

#: ioctl_ns(2): the user namespace that owns another namespace.
NS_GET_USERNS = 0xB701
READY = b"\n"
#: bubblewrap's process inside, and its `cat`.
OWN_PROCESSES_INSIDE = 2
COMPLAINT_BYTES = 4096


class EnclosureError(Exception):
    """The sandbox could not be made; says what bubblewrap said."""


class Enclosure:
    """Namespaces that live as long as this object's bubblewrap."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.pid = 0
        self.namespaces: list[int] = []

    def open(self) -> None:
        """Make the sandbox and let what this process forks from now on be numbered in it.

        Raises EnclosureError when bubblewrap cannot, or the kernel does not let this process enter.
        """
        keep_read, self.keep = os.pipe2(os.O_CLOEXEC)
        said, say = os.pipe2(os.O_CLOEXEC)
        facts, tell = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            self._become_bubblewrap(keep_read, say, tell)
        for descriptor in (keep_read, say, tell):
            os.close(descriptor)
        with contextlib.suppress(BrokenPipeError):  # It ended, and has said why.
            os.write(self.keep, READY)
        answer = os.read(said, COMPLAINT_BYTES)
        if answer != READY:
            while more := os.read(said, COMPLAINT_BYTES):
                answer += more
            raise EnclosureError(answer.decode(errors="replace").strip() or "bubblewrap ended at once")
        with open(facts, "rb") as file:
            first = int(json.loads(file.read())["child-pid"])
        try:
            self._join(first)
        except OSError as error:
            raise EnclosureError(f"the sandbox cannot be entered: {error.strerror}") from error

    def enter(self) -> None:
        """Move the calling process, a child of the one that opened it, all the way in, without rights."""
        for descriptor in self.namespaces:
            enter_namespace(descriptor)
        drop_capability_bounds()

    def has_others(self) -> bool:
        """Whether any process but bubblewrap's own is left inside."""
        return len(descendants(self.pid)) > OWN_PROCESSES_INSIDE

    def close(self) -> None:
        """End it and whatever is inside."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _join(self, pid: int) -> None:
        process_ids = _namespace(pid, "pid")
        self.namespaces = [_namespace(pid, "ipc"), _namespace(pid, "mnt")]
        inside = _namespace(pid, "user")
        if not _is_same(inside, _namespace(os.getpid(), "user")):
            # Without root a user namespace owns the mounts, and bubblewrap may have nested another in it.
            owner = fcntl.ioctl(process_ids, NS_GET_USERNS)
            if not _is_same(inside, owner):
                self.namespaces.append(inside)
            enter_namespace(owner)
        enter_namespace(process_ids)

    def _become_bubblewrap(self, keep: int, say: int, tell: int) -> None:
        """Runs in the child; does not return."""
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for source, target in ((keep, 0), (say, 1), (say, 2)):
                os.dup2(source, target)
            os.set_inheritable(tell, True)
            program, *arguments = self.command
            os.execve(
                program, [program, "--info-fd", str(tell), *arguments, "cat"], {"PATH": "/usr/bin:/bin"}
            )
        except OSError as error:
            os.write(say, f"{self.command[0]}: {error.strerror}".encode())
        finally:
            os._exit(127)


def main() -> None:
    """Try a sandbox whose command is in the arguments: make it and enter it, or say why that cannot be."""
    enclosure = Enclosure(sys.argv[1:])
    try:
        enclosure.open()
    except EnclosureError as error:
        sys.exit(str(error))
    pid = os.fork()
    if pid == 0:
        try:
            enclosure.enter()
            os._exit(0)
        except OSError as error:
            os.write(2, f"the sandbox cannot be entered: {error.strerror}".encode())
        finally:
            os._exit(1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _namespace(pid: int, kind: str) -> int:
    return os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def _is_same(first: int, second: int) -> bool:
    return os.path.samestat(os.fstat(first), os.fstat(second))
