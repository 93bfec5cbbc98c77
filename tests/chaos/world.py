"""The platform that is to suffer, its nodes, and who starts again what dies there."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from controlplane.embedded import ports
from nodeagent.folder import read_json
from tests.chaos.faults import WEIGHTS
from tests.chaos.network import Network, Place, can_cut
from tests.e2e.installation import ROOT, Agent, Installation
from tests.processes import children_of, command_of, processes_with_command

LEASE_SECONDS, MARGIN_SECONDS = 6, 2
SETTINGS: Mapping[str, str] = {
    "ALLOT_NODE_LEASE_SECONDS": str(LEASE_SECONDS),
    "ALLOT_NODE_LEASE_MARGIN_SECONDS": str(MARGIN_SECONDS),
    "ALLOT_ROUND_SECONDS": "2",
    # A full disk of checkpoints fails the health checks of all nodes: they return soon, and as often.
    "ALLOT_NODE_RETURN_SECONDS": "5",
    "ALLOT_NODE_RETURNS_PER_DAY": "1000",
}
GPUS_PER_NODE = 2
SMALL_DISK_BYTES = 48 * 2**20
DATABASE_DISK_BYTES = 1536 * 2**20
CHECKPOINT_DISK_BYTES = 256 * 2**20
NODES = ("north", "east", "south", "west")
IN_NAME_SPACES = ("north", "east")
#: Whose wall clock can be stepped, and whose disk is small enough to be filled.
STEPPED, SMALL = "south", "west"
CGROUPS = Path("/sys/fs/cgroup")
RESIZES = 50


@dataclass(frozen=True)
class Disk:
    """A file system in memory, of a size that can be made so small that there is no room left. Needs root."""

    folder: Path
    size_bytes: int

    def mount(self) -> None:
        self.folder.mkdir(parents=True)
        options = f"size={self.size_bytes},mode=0711"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "allotment-chaos", self.folder], check=True)

    def fill(self) -> None:
        """Leave no room but what is given back from now on."""
        for _ in range(RESIZES):
            now = os.statvfs(self.folder)
            # The kernel refuses what is less than is in it by then.
            if self._resize((now.f_blocks - now.f_bfree) * now.f_frsize):
                return
        raise RuntimeError(f"{self.folder} grows too fast to be filled")

    def make_room(self) -> None:
        self._resize(self.size_bytes)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=False)

    def _resize(self, size_bytes: int) -> bool:
        command = ["mount", "-o", f"remount,size={size_bytes}", self.folder]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass
class Node:
    """A node's agent, and what a service manager knows of it: when to start it again."""

    agent: Agent
    place: Place | None = None
    clock: Path | None = None
    disk: Disk | None = None
    start_at: float = 0.0
    #: By the boot clock, when processes that had been stopped for long went on.
    thaws: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def work_folder(self) -> Path:
        return self.agent.configuration.parent / self.name

    def processes(self) -> list[psutil.Process]:
        """Return the agent, its shims, and all that these started."""
        found = {process.pid: process for process in self.agent.shims()}
        for shim in list(found.values()):
            found |= {child.pid: child for child in children_of(shim, recursive=True)}
        if self.agent.process is not None and self.agent.process.poll() is None:
            found[self.agent.process.pid] = psutil.Process(self.agent.process.pid)
        return list(found.values())


class World:
    """A platform with four nodes of two GPUs: two in name spaces, one with a clock, one with a small disk.

    As root, the platform's own folder and that of the checkpoints are disks of their own too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network = Network() if can_cut() else None
        self.platform = Installation(home=folder / "home", port=ports.pick(), settings=SETTINGS)
        self.nodes: dict[str, Node] = {}
        self.database_disk = Disk(self.platform.home, DATABASE_DISK_BYTES)
        self.checkpoint_disk = Disk(self.checkpoints, CHECKPOINT_DISK_BYTES)
        self.mounted: list[Disk] = []
        #: By the monotonic clock: when the web server was stopped, and when it went on.
        self.web_stops: list[tuple[float, float]] = []

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def program(self) -> Path:
        return self.folder / "program" / "job.py"

    @property
    def gpu_locks(self) -> Path:
        return self.folder / "gpus"

    def kinds_missing(self) -> set[str]:
        """Return the faults that this machine cannot be given."""
        missing = set() if self.network is not None else {"cut node off"}
        disks = {kind for kind in WEIGHTS if kind.startswith("fill")}
        return missing if os.geteuid() == 0 else missing | disks

    def open(self) -> None:
        self.program.parent.mkdir(parents=True)
        self.gpu_locks.mkdir()
        # Of its own, so that nobody changes it while jobs are started from it.
        shutil.copy(Path(__file__).with_name("job.py"), self.program)
        if self.network is not None:
            self.network.open()
            self.platform.host = self.network.address
        for disk in (self.database_disk, self.checkpoint_disk):
            self._mount(disk)
        self.platform.start("--no-demo")
        self.platform.sign_in()
        for name in NODES:
            self._add_node(name)

    def _mount(self, disk: Disk) -> None:
        if os.geteuid() == 0:
            disk.mount()
            self.mounted.append(disk)

    def _add_node(self, name: str) -> None:
        words = [sys.executable, "-m", "nodeagent"]
        place = clock = disk = None
        if self.network is not None and name in IN_NAME_SPACES:
            place = self.network.add_node()
            words = [*place.enter, *words]
        if name == STEPPED:
            clock = self.folder / "clock"
            clock.write_text("0")
            words = [sys.executable, str(Path(__file__).with_name("stepped_clock.py")), str(clock)]
        words.append("--insecure")  # The networks between name spaces are of this machine alone.
        if name == SMALL:
            disk = Disk(self.folder / "nodes" / name, SMALL_DISK_BYTES)
            self._mount(disk)
        for device in range(GPUS_PER_NODE):
            (self.gpu_locks / f"{name}-{device}").touch()
        address = place.address if place is not None else self.platform.host
        readable = [str(self.program.parent), str(self.gpu_locks), str(ROOT / "platform")]
        agent = self.platform.add_node(
            name, gpus=GPUS_PER_NODE, program=words, address=address, readable_folders=readable
        )
        self.nodes[name] = Node(agent, place, clock, disk)

    def look_after(self) -> None:
        """Start agents that died, as a service manager would; the rest has its own supervisor."""
        for node in self.nodes.values():
            process = node.agent.process
            if process is not None and process.poll() is not None and time.monotonic() >= node.start_at:
                node.agent.start()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.platform.stop()
        for disk in self.mounted:
            disk.unmount()
        if self.network is not None:
            self.network.close()

    def web_stopped_seconds(self, begin: float, end: float) -> float:
        """Return for how much of that time the web server was stopped, so that it served nobody."""
        return sum(max(0.0, min(end, went_on) - max(begin, stopped)) for stopped, went_on in self.web_stops)

    # Who is there to be hit

    def jobs(self) -> list[psutil.Process]:
        """Return the processes of jobs that have begun, not those that only hold their sandbox."""
        program = str(self.program)
        return processes_with_command(lambda words: program in words and "python" in Path(words[0]).name)

    def shims(self) -> list[psutil.Process]:
        return [shim for node in self.nodes.values() for shim in node.agent.shims()]

    def token_daemons(self) -> dict[str, psutil.Process]:
        """Return by path the processes that say who of the jobs with parts of a GPU may run."""
        folders = {str(node.work_folder / "tokens") for node in self.nodes.values()}
        daemons = processes_with_command(lambda words: words != [] and str(Path(words[-1]).parent) in folders)
        return {words[-1]: process for process in daemons if (words := command_of(process))}

    def needs_token_daemon(self, path: str) -> bool:
        """Whether a job runs that has a part of the GPU of which the path is the daemon's."""
        attempts = Path(path).parents[1] / "attempts"
        for spec in attempts.glob("*/spec.json"):
            replicas = (read_json(str(spec)) or {}).get("replicas", [])
            status = read_json(str(spec.with_name("status.json"))) or {}
            is_on_it = any(each["part"] and each["part"]["daemon"] == path for each in replicas)
            if is_on_it and not status.get("is_final"):
                return True
        return False

    def server(self, name: str) -> list[psutil.Process]:
        """Return a process of the control plane and all it started; none while it is being started."""
        try:
            parent = psutil.Process(self.platform.pid_of(name))
            return [parent, *parent.children(recursive=True)]
        except (psutil.NoSuchProcess, AssertionError):
            return []

    # What must not be left

    def leftovers(self) -> list[str]:
        """Return what jobs left behind: processes, control groups, folders."""
        left = [f"process {process.pid}: {' '.join(command_of(process))[:100]}" for process in self.jobs()]
        left += [f"shim {shim.pid}" for shim in self.shims()]
        left += [f"token daemon {path}" for path in self.token_daemons()]
        for node in self.nodes.values():
            left += [f"folder {path}" for path in sorted((node.work_folder / "attempts").iterdir())]
            of_node = f"allotment-{node.name}-"
            # Unlike `glob`, it goes on where a group is removed meanwhile.
            for folder, inside, _ in os.walk(CGROUPS):
                if Path(folder).name.startswith(of_node):
                    left += [
                        f"control group {folder}/{name}" for name in inside if name.startswith("attempt-")
                    ]
        return left
