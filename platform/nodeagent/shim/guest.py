"""Guests: commands that people run beside a replica, in all that it runs in, while their shim watches them.

The agent asks at a Unix socket in the attempt's folder, which only its own user can connect to. A guest is
a child of the shim like a replica, so it obeys the lease, has no right that the replica has not, and is
gone when the attempt ends. It counts for nothing there: when the replicas have ended, so have the guests.

    request   {"rank", "command", "terminal": [rows, columns] or null, "type": $TERM} and, without a
              terminal, three descriptors
    answers   {"ready": true}, with the terminal; then {"exit_code"}; or {"problem"}

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import struct
import termios
from _socket import (
    AF_UNIX,
    MSG_CMSG_CLOEXEC,
    SCM_RIGHTS,
    SOCK_CLOEXEC,
    SOCK_NONBLOCK,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
)

from nodeagent.procfs import descendants
from nodeagent.shim.replica import RunningReplica

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

REQUEST_BYTES = 128 * 1024
#: What a shell exits with when it is given such a command.
NOT_EXECUTABLE, NOT_FOUND = 126, 127
MOST_GUESTS = 16
SHELL = ("sh", "-c", 'if command -v bash >/dev/null; then exec bash -l; else exec "${SHELL:-sh}"; fi')


class Guest:
    """One command, and the agent's connection that asked for it; closing that ends it."""

    def __init__(self, line: socket) -> None:
        self.line = line
        self.pid = 0

    def tell(self, **answer: Any) -> None:
        _send(self.line, answer)

    def end(self) -> None:
        """Kill it and all below it; what it let go of is the job's own from then on."""
        if self.pid:
            for pid in [self.pid, *descendants(self.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class Guests:
    """All guests of an attempt, by the descriptor of their connection."""

    def __init__(self, path: str, replicas: list[RunningReplica]) -> None:
        self.path = path
        self.replicas = replicas
        self.guests: dict[int, Guest] = {}
        #: Why no guest is let in now; "": they are.
        self.refusal = ""
        self.door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK)

    def __contains__(self, descriptor: int) -> bool:
        return descriptor in self.guests or descriptor == self.door.fileno()

    def open(self, poll: select.poll) -> None:
        """Let guests in; descriptors of theirs are registered as they come."""
        self.poll = poll
        with contextlib.suppress(OSError):  # A full disk, say. That costs visits, and not the job.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            reached_by(self.path, self.door.bind)
            os.chmod(self.path, 0o600)
            self.door.listen(MOST_GUESTS)
            poll.register(self.door, select.POLLIN)

    def handle(self, descriptor: int) -> None:
        """Take in what came on one of the descriptors."""
        if descriptor in self.guests:
            self._hear(self.guests[descriptor])
            return
        with contextlib.suppress(OSError):
            number, _ = self.door._accept()  # type: ignore[attr-defined]
            line = socket(fileno=number)
            line.setblocking(False)
            self.guests[number] = Guest(line)
            self.poll.register(number, select.POLLIN)

    def ended(self, pid: int, wait_status: int) -> None:
        """Report to the other side that a process ended, if it was a guest."""
        for descriptor, guest in list(self.guests.items()):
            if guest.pid == pid:
                code = os.waitstatus_to_exitcode(wait_status)
                guest.pid = 0
                guest.tell(exit_code=code if code >= 0 else 128 - code)
                self._forget(descriptor)

    def end_all(self) -> None:
        """Let no further guest in, and end those who are there."""
        with contextlib.suppress(KeyError, ValueError):  # It was never open, or is closed already.
            self.poll.unregister(self.door)
        self.door.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        for guest in self.guests.values():
            guest.end()

    def _hear(self, guest: Guest) -> None:
        try:
            text, ancillary, _, _ = guest.line.recvmsg(REQUEST_BYTES, 1024, MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            text, ancillary = b"", []
        handed = descriptors_in(ancillary)
        try:
            if not text or guest.pid:
                # The agent let go of it, or speaks out of turn.
                guest.end()
                self._forget(guest.line.fileno())
            else:
                self._start(guest, json.loads(text), handed)
        finally:
            for descriptor in handed:
                os.close(descriptor)

    def _start(self, guest: Guest, request: dict[str, Any], handed: list[int]) -> None:
        replica = next((one for one in self.replicas if one.rank == request["rank"]), None)
        problem = self.refusal
        if replica is None or not replica.pid or replica.wait_status is not None:
            problem = f"Rank {request['rank']} does not run here any more."
        elif len(self.guests) > MOST_GUESTS:
            problem = f"There are already {MOST_GUESTS} sessions in this attempt on this node."
        if problem or replica is None:
            guest.tell(problem=problem)
            self._forget(guest.line.fileno())
            return
        shim = os.pidfd_open(os.getpid())
        guest.pid = os.fork()
        if guest.pid == 0:
            _become_guest(guest, replica, request, handed, shim)
        os.close(shim)

    def _forget(self, descriptor: int) -> None:
        self.poll.unregister(descriptor)
        self.guests.pop(descriptor).line.close()


def _become_guest(
    guest: Guest, replica: RunningReplica, request: dict[str, Any], handed: list[int], shim: int
) -> None:
    """Runs in the child; does not return."""
    command = list(request["command"] or SHELL)
    terminal: list[int] | None = request["terminal"]
    try:
        guest.line.setblocking(True)
        environment = dict(replica.spec["env"])
        if replica.container is not None:
            command = _inside(replica.container, command, request)
        environment["TERM"] = request["type"]
        replica.become(shim)
        if terminal is None:
            guest.tell(ready=True)
        else:
            # Opened in here: it is the sandbox's own, so that the command finds it by its name.
            master, slave = os.openpty()
            resize(master, *terminal)
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            _send(guest.line, {"ready": True}, [master])
            handed = [slave, slave, slave]
        os.chdir(replica.spec["cwd"])
        for source, target in zip(handed, (0, 1, 2), strict=True):
            os.dup2(source, target)
        replica.confine()
        _execute(command, environment)
    except OSError as error:
        guest.tell(problem=f"{command[0]} could not be started: {error}")
    except ValueError as error:
        guest.tell(problem=f"the command cannot be passed on: {error}")
    finally:
        os._exit(NOT_FOUND)


def _execute(command: list[str], environment: dict[str, str]) -> None:
    """Become the command; where that cannot be, say so and exit as a shell does."""
    name = command[0]
    try:
        os.execvpe(name, command, environment)
    except OSError as error:
        is_missing = error.errno == errno.ENOENT or (error.errno == errno.ENOTDIR and "/" not in name)
        reason = "command not found" if is_missing and "/" not in name else error.strerror
        os.write(2, f"{name}: {reason}\n".encode())
        os._exit(NOT_FOUND if is_missing else NOT_EXECUTABLE)


def _inside(container: dict[str, list[str]], command: list[str], request: dict[str, Any]) -> list[str]:
    """Return the engine's command that runs another one in the container."""
    program, verb, name = container["exec"]
    terminal = ["--tty", "--env", f"TERM={request['type']}"] if request["terminal"] else []
    return [program, verb, "--interactive", *terminal, name, *command]


def resize(terminal: int, rows: int, columns: int) -> None:
    """Set the size of a terminal; its reader gets a signal."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def reached_by(path: str, use: Callable[[str], None]) -> None:
    """Bind or connect a Unix socket to a path, which may be longer than the 107 bytes allowed."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)


def descriptors_in(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors that came with a message."""
    found: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
            found += struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4])
    return found


def _send(line: socket, answer: dict[str, Any], descriptors: list[int] | None = None) -> None:
    handed = descriptors or []
    ancillary = [(SOL_SOCKET, SCM_RIGHTS, struct.pack(f"{len(handed)}i", *handed))] if handed else []
    with contextlib.suppress(OSError):  # The other side no longer listens: then its end is near.
        line.sendmsg([json.dumps(answer).encode()], ancillary)
