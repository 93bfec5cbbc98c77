"""One replica as its shim holds it: a child process, its limits and its output.

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import warnings  # noqa: F401 - os.execvpe loads it, which the job's user may not be able to.

from nodeagent.procfs import (
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    drop_capability_bounds,
    prctl,
    process_identity,
)
from nodeagent.shim.cgroups import CgroupOfReplica
from nodeagent.shim.enclosure import Enclosure
from nodeagent.shim.landlock import Confinement
from nodeagent.shim.secrets import Mask

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from typing import Any

READ_BYTES = 64 * 1024
KILLED = -signal.SIGKILL
#: How long an engine may take to say something of a container, or to remove it.
ENGINE_SECONDS = 10.0
#: To freeze one: it has to be done before the lease ends.
PAUSE_SECONDS = 1.5


class CommandNotStarted(Exception):
    """The command of a replica could not be executed."""


class OutputFile:
    """What one replica wrote, up to a limit; what follows is read and dropped, so that it never blocks.

    Secrets are masked before anything is on the disk.
    """

    def __init__(self, path: str, limit_bytes: int, mask: Mask) -> None:
        self.mask = mask
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.left_bytes = limit_bytes
        self.limit_bytes = limit_bytes
        #: Something was dropped, and the output says so.
        self.is_cut = False

    def write(self, data: bytes) -> None:
        self._keep(self.mask.through(data))

    def finish(self) -> None:
        """Nothing follows: write what may have been the beginning of a secret."""
        self._keep(self.mask.rest())

    def _keep(self, data: bytes) -> None:
        if self.is_cut:
            return
        kept = data[: self.left_bytes]
        self.left_bytes -= len(kept)
        notice = b""
        if len(kept) < len(data):
            self.is_cut = True
            text = f"\n[allotment] Output limit of {self.limit_bytes} bytes reached; the rest is dropped.\n"
            notice = text.encode()
        try:
            _write_all(self.descriptor, kept + notice)
        except OSError:
            # The disk is full. That costs this output, and must not cost the job its shim.
            self.is_cut = True


class RunningReplica:
    """One child of the shim and its output."""

    def __init__(
        self,
        spec: dict[str, Any],
        output: OutputFile,
        enclosure: Enclosure | None = None,
        confinement: Confinement | None = None,
    ) -> None:
        self.spec = spec
        self.user: int | None = spec["user"]
        self.enclosure = enclosure
        self.confinement = confinement
        #: Commands of its container's engine; None: it is not a container.
        self.container: dict[str, list[str]] | None = spec["container"]
        self.rank: int = spec["rank"]
        self.output = output
        self.cgroup = CgroupOfReplica(spec["cgroup"]["is_unified"], spec["cgroup"]["paths"])
        self.pid = 0
        self.identity = ""
        self.pipe: int | None = None
        self.wait_status: int | None = None
        self.was_out_of_memory = False

    def start(self) -> None:
        """Fork and execute the command; raise CommandNotStarted with the reason."""
        try:
            self.cgroup.create(
                cpus=self.spec["cpus"],
                memory_bytes=self.spec["memory_bytes"],
                processes=self.spec["processes"],
            )
        except OSError as error:
            raise CommandNotStarted(f"The limits could not be set: {error}") from error
        self.pipe, output = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(output, True)
        if self.user is not None:
            os.fchown(output, self.user, self.user)  # Else it could not open /dev/stderr.
        problem_read, problem_write = os.pipe2(os.O_CLOEXEC)
        shim = os.pidfd_open(os.getpid())
        self.pid = os.fork()
        if self.pid == 0:
            self._become_command(shim, output, problem_write)
        os.close(shim)
        os.close(output)
        os.close(problem_write)
        # Closed by a successful exec; else it says why there was none.
        with open(problem_read, "rb") as file:
            problem = file.read()
        self.identity = process_identity(self.pid)
        if problem:
            raise CommandNotStarted(problem.decode(errors="replace"))

    def _become_command(self, shim: int, output: int, problem: int) -> None:
        """Runs in the child; does not return."""
        command = self.spec["command"]
        try:
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (output, 1), (output, 2)):
                os.dup2(source, target)
            self.become(shim)
            os.chdir(self.spec["cwd"])
            self.confine()
            os.execvpe(command[0], command, self.spec["env"])
        except OSError as error:
            reason = "command not found" if error.errno == errno.ENOENT else error.strerror
            os.write(problem, f"{command[0]}: {reason}".encode())
        except ValueError as error:
            os.write(problem, f"the command or environment cannot be passed on: {error}".encode())
        finally:
            os._exit(127)

    def become(self, shim: int) -> None:
        """Runs in a child of the shim: be what this replica is, short of its command and its output."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        self.cgroup.enter()
        with (
            contextlib.suppress(OSError),
            open("/proc/self/oom_score_adj", "w", encoding="ascii") as file,
        ):
            file.write("300")  # When memory runs out, the kernel should kill the job rather than the agent.
        self._give_up_rights()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if select.select([shim], [], [], 0)[0]:
            os._exit(1)  # The shim died before the line above took effect.

    def confine(self) -> None:
        """Runs in the child, last of all: from here on it opens only what the attempt's commands may."""
        if self.confinement is not None:
            self.confinement.enter()

    def _give_up_rights(self) -> None:
        """Runs in the child: from here on it is what a job may be."""
        _limit(resource.RLIMIT_CORE, 0)
        if self.container is not None:
            return  # It is the engine's client, and the engine sets the limits.
        _limit(resource.RLIMIT_NOFILE, self.spec["files"])
        if "pids" not in self.cgroup.paths:
            # This counts all processes of the user, so that it is coarser than a group's limit.
            _limit(resource.RLIMIT_NPROC, self.spec["processes"])
        if self.enclosure is not None:
            self.enclosure.enter()
        if self.user is not None:
            if self.enclosure is None:
                with contextlib.suppress(OSError):  # In a container root may lack the right, and then others.
                    drop_capability_bounds()
            os.setgroups([])
            os.setresgid(self.user, self.user, self.user)
            os.setresuid(self.user, self.user, self.user)
        if self.enclosure is not None or self.user is not None:
            prctl(PR_SET_NO_NEW_PRIVS, 1)

    def signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """End the group at once. A container's engine has to do it, or it loses track of what it started."""
        if self.container is not None:
            _said(self.container["remove"], self.spec["env"])
        self.signal_group(signal.SIGKILL)

    def pause(self) -> bool:
        """Have the engine freeze a container; return whether it did."""
        return (
            self.container is not None and _run(self.container["pause"], self.spec["env"], PAUSE_SECONDS)[0]
        )

    def unpause(self) -> None:
        """Have the engine let a container go on."""
        if self.container is not None:
            _said(self.container["unpause"], self.spec["env"])

    def pump(self) -> bool:
        """Move what there is into the file; return whether there may be more."""
        if self.pipe is None:
            return False
        try:
            data = os.read(self.pipe, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            os.close(self.pipe)
            self.pipe = None
            return False
        self.output.write(data)
        return True

    def ended(self, wait_status: int) -> None:
        self.wait_status = wait_status
        self.was_out_of_memory = self.cgroup.was_out_of_memory()
        if self.container is not None:
            if self.code == KILLED:
                said = _said(self.container["was_out_of_memory"], self.spec["env"])
                self.was_out_of_memory = said.strip() == b"true"
            _said(self.container["remove"], self.spec["env"])

    @property
    def has_failed(self) -> bool:
        return self.wait_status not in (None, 0)

    @property
    def code(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        if self.wait_status is None:
            return None
        code = os.waitstatus_to_exitcode(self.wait_status)
        # The engine's client reports the end of the program inside as a shell does.
        return 128 - code if self.container is not None and code > 128 else code

    def status(self) -> dict[str, Any]:
        code = self.code
        return {
            "rank": self.rank,
            "pid": self.pid,
            "identity": self.identity,
            "exit_code": code if code is None or code >= 0 else 128 - code,
            "signal": -code if code is not None and code < 0 else 0,
            "was_out_of_memory": self.was_out_of_memory,
            "is_container": self.container is not None,
        }


def _said(command: list[str], environment: dict[str, str]) -> bytes:
    """Run a command to its end and return what it wrote; after a while it is killed."""
    return _run(command, environment, ENGINE_SECONDS)[1]


def _run(command: list[str], environment: dict[str, str], seconds: float) -> tuple[bool, bytes]:
    """Run a command for `seconds` at most; return whether it did what it should, and what it wrote."""
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            os.dup2(write, 1)
            os.execvpe(command[0], command, environment)
        finally:
            os._exit(127)
    os.close(write)
    said = b""
    ended = select.poll()
    pidfd = os.pidfd_open(pid)
    ended.register(pidfd, select.POLLIN)
    if not ended.poll(seconds * 1000):
        os.kill(pid, signal.SIGKILL)
    _, wait_status = os.waitpid(pid, 0)
    os.close(pidfd)
    os.set_blocking(read, False)
    with contextlib.suppress(BlockingIOError):
        said = os.read(read, READ_BYTES)
    os.close(read)
    return wait_status == 0, said


def _limit(kind: int, most: int) -> None:
    """Set soft and hard limit, as far as it lowers what is allowed already."""
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(kind, (most, most))


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
