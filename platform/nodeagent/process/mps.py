"""CUDA's Multi-Process Service (MPS), for jobs of one tenant that use the same GPUs at the same time.

Without it a GPU serves such jobs in turns; with it their kernels run side by side. What one client of a
service does to a GPU can end the others, so a service is one tenant's alone: jobs of two tenants take turns.

The daemon is the agent's user, as its manual has it: for each client it starts a server as the client's user.
The folder of its sockets therefore determines which users reach them: it is the tenant's alone.

Source: NVIDIA, "Multi-Process Service": control daemon, client-server connection, environment variables.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from nodeagent.devices.inventory import Devices
from nodeagent.devices.nvml import INSTANCE
from nodeagent.messages import DesiredPart, GpuPart
from nodeagent.process.users import make_folder
from nodeagent.procfs import processes_with_setting

PROGRAM = "nvidia-cuda-mps-control"
#: Its first socket; with it the daemon takes clients.
CONTROL = "control"
START_SECONDS = 10.0
QUIT_SECONDS = 5.0
LOOK_SECONDS = 0.02
MEBIBYTE = 2**20


class NotServed(OSError):
    """The service could not be started; says why."""


@dataclass(frozen=True, slots=True)
class Service:
    """One tenant's service on this node, known by the user that its jobs run as."""

    folder: Path

    @property
    def owner(self) -> int:
        """The tenant's user, as which its servers run; the daemon runs as the agent's."""
        return int(self.folder.name)

    @property
    def pipe(self) -> str:
        return str(self.folder / "pipe")

    @property
    def log(self) -> str:
        return str(self.folder / "log")

    @property
    def memory(self) -> str:
        """What daemon and clients have to have as /dev/shm, where clients have one of their own."""
        return str(self.folder / "memory")

    @property
    def members(self) -> Path:
        """A file for each attempt that uses it: what a later life of the agent goes by."""
        return self.folder / "members"

    def processes(self) -> list[int]:
        """Return its daemon and servers. Clients know where its sockets are, but not its log.

        A program of another tenant may name the log all the same, but does not run as either of these users.
        """
        return processes_with_setting(f"CUDA_MPS_LOG_DIRECTORY={self.log}", os.geteuid(), self.owner)


class Mps:
    """Starts a tenant's service with its first attempt that shares GPUs, and ends it with the last."""

    def __init__(self, folder: Path, *, is_enabled: bool, bubblewrap: str, devices: Devices) -> None:
        """`bubblewrap`: the program, where attempts have a sandbox and so a /dev/shm of their own."""
        self.folder = folder
        self.bubblewrap = bubblewrap
        self.program = shutil.which(PROGRAM) or ""
        # A service sees one instance of a divided device, and which one it would be is chance.
        is_divided = is_enabled and any(gpu.uuid.startswith(INSTANCE) for gpu in devices.gpus())
        self.is_used = is_enabled and bool(self.program) and not is_divided
        self.problem = ""
        if is_enabled and not self.is_used:
            self.problem = (
                "MPS is not for instances of divided GPUs (MIG)."
                if is_divided
                else f"{PROGRAM} is not installed."
            )
        self.lock = threading.Lock()

    def is_for(self, desired: DesiredPart) -> bool:
        """Whether an attempt uses its GPUs through its tenant's service. Containers do not."""
        has_image = any(replica.image for replica in desired.replicas)
        shares = desired.shares_gpus or any(replica.gpu_part for replica in desired.replicas)
        return self.is_used and shares and not has_image

    def service(self, owner: int) -> Service:
        return Service(self.folder / str(owner))

    def join(self, owner: int, attempt: int) -> None:
        """Keep the owner's service running until the attempt leaves. Takes a while; raises NotServed."""
        service = self.service(owner)
        with self.lock:
            for path in (service.pipe, service.log, service.memory):
                make_folder(path, owner)
            for folder in (self.folder.parent, self.folder, service.folder):
                os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | 0o111)  # Servers pass through.
            service.members.mkdir(mode=0o700, exist_ok=True)
            (service.members / str(attempt)).touch()
            if not service.processes():
                self._start(service)

    def has_joined(self, owner: int, attempt: int) -> bool:
        """Whether the owner's service runs for the attempt: not for one that others joined since."""
        return (self.service(owner).members / str(attempt)).exists()

    def leave(self, attempt: int) -> None:
        """End the service that the attempt used, if no other does. Takes a while."""
        with self.lock:
            for member in self.folder.glob(f"*/members/{attempt}"):
                member.unlink(missing_ok=True)
                if not any(member.parent.iterdir()):
                    self._end(Service(member.parents[1]))

    def keep_only(self, attempts: set[int]) -> None:
        """Leave for those that an earlier life of the agent did not see the end of."""
        for member in self.folder.glob("*/members/*"):
            if int(member.name) not in attempts:
                self.leave(int(member.name))

    def _start(self, service: Service) -> None:
        ready = Path(service.pipe, CONTROL)
        ready.unlink(missing_ok=True)
        daemon = subprocess.Popen(
            [*self._with_memory(service), self.program, "-f"],
            env=_environment(service),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            if daemon.poll() is not None or time.monotonic() > deadline:
                self._end(service)
                raise NotServed(f"{PROGRAM} did not start, and GPUs are shared; see {service.log}")
            time.sleep(LOOK_SECONDS)

    def _end(self, service: Service) -> None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                self.program,
                input=b"quit\n",
                env=_environment(service),
                cwd="/",
                capture_output=True,
                timeout=QUIT_SECONDS,
                check=False,
            )
        for pid in service.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for folder in (service.pipe, service.memory):
            shutil.rmtree(folder, ignore_errors=True)

    def _with_memory(self, service: Service) -> list[str]:
        if not self.bubblewrap:
            return []
        return [self.bubblewrap, "--dev-bind", "/", "/", "--bind", service.memory, "/dev/shm", "--"]


def mps_limits(part: GpuPart | None) -> dict[str, str]:
    """Return the variables that hold a client to its part of the one GPU that it sees.

    Threads are limited to the part's limit: the service guarantees no share, so that requests are held only
    as far as the limits on a GPU sum to no more than all of it.
    """
    if part is None:
        return {}
    limits = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, part.limit // 10))}
    if part.memory_bytes:
        limits["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={max(1, part.memory_bytes // MEBIBYTE)}M"
    return limits


def _environment(service: Service) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_MPS_PIPE_DIRECTORY": service.pipe,
        "CUDA_MPS_LOG_DIRECTORY": service.log,
    }
