"""Who carries out what the server wants of a node: the seam behind `Agent`.

A `Runtime` carries out one node's attempts. There are two: `process.runtime` on the machine of the
agent, and `batch.runtime` on a machine that a `BatchSystem` manages, such as Slurm. A further system
(Kubernetes, Ray) is one class with the four calls of `BatchSystem`; see docs/architecture.md, "Executors".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from nodeagent.configuration import Configuration
from nodeagent.devices.inventory import Devices
from nodeagent.folder import AttemptFolder
from nodeagent.machine import Adopted, Event
from nodeagent.messages import DesiredPart, Turn


class Runtime(Protocol):
    """Attempts on one node. Nothing here blocks; what becomes of an attempt is posted as an event.

    What the server relies on, whatever happens to the agent, the node or the network:

    - *Once*: an attempt's processes are started once at most, also by an agent that died in the midst.
    - *Lease*: they are dead by the newest deadline given to `extend_lease`, without anybody's help.
    - *Adoption*: they outlive the agent, and `recover` finds them again.
    - *One end*: `Exited` is posted once for each attempt, and nothing of it is alive by then.
    """

    @property
    def devices(self) -> Devices:
        """The node's GPUs."""

    @property
    def isolation(self) -> dict[str, bool]:
        """What is really enforced on jobs."""

    @property
    def inventory_seconds(self) -> float:
        """How often it is worth asking the devices how they are."""

    def folder(self, attempt: int) -> AttemptFolder:
        """Return where this agent reads an attempt's output and progress, also after its end."""

    def extend_lease(self, deadline: float, lease_seconds: float) -> None:
        """Let all attempts go on until the deadline, in seconds of this machine's boot clock."""

    def lease_deadline(self) -> float:
        """Return the deadline that an earlier life of the agent left behind; 0 when there is none."""

    def prepare(self, wish: DesiredPart) -> None:
        """Take what the attempt needs, so that starting is quick and sure. Posts Prepared or Exited."""

    def release(self, attempt: int) -> None:
        """Give back what preparing took or takes: it will not be started. One still being prepared is
        posted as Prepared or Exited as always."""

    def start(self, wish: DesiredPart) -> None:
        """Start the replicas of a prepared attempt. Posts Started, and Exited at the end."""

    def stop(self, attempt: int, grace_seconds: float, *, is_leaving: bool = False) -> None:
        """SIGTERM, and SIGKILL to what is left after the grace. May be called again with less grace."""

    def take_turns(self, attempt: int, turn: Turn | None) -> None:
        """From now on let it run in these turns only, frozen in those of others; None: all the time."""

    def kill(self, attempt: int) -> None:
        """SIGKILL at once."""

    def forget(self, attempt: int) -> None:
        """Remove all that is left of an attempt that ended."""

    def recover(self) -> list[Adopted]:
        """Find what an earlier life of the agent left behind, and watch again what lives."""

    def close(self) -> None:
        """Let go of everything; attempts go on."""


#: Makes the runtime of one agent, given where to post events.
Executor = Callable[[Configuration, Callable[[Event], None]], Runtime]


class BatchError(Exception):
    """The system did not do what it was asked to, or did not answer; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One attempt's part on one node, as it is handed to a batch system."""

    #: No other errand was or will be called so.
    name: str
    node: str
    #: What to run on the node, for a shell. It may be begun more often: only the first does anything.
    command: str
    #: On a file system that node and agent share; what the system itself says of the errand goes there.
    log: str
    gpu_model: str
    gpus: int
    cpus: float
    #: 0: not said.
    memory_bytes: int


#: `ended`: nothing of it is alive; `lost`: its node does not answer, so nobody knows.
BatchJobState = Literal["waiting", "running", "ended", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """What the system says of an errand."""

    #: How people find it there.
    number: str
    state: BatchJobState
    #: The state, or why it waits, in the system's own words.
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNode:
    """What the system says of a node."""

    gpu_model: str
    gpu_memory_bytes: int
    gpus: int
    #: By anybody's jobs.
    gpus_in_use: int
    cpus: float
    memory_bytes: int
    #: Where the other nodes reach it.
    address: str
    #: Why nothing new starts there; "" if it does.
    problem: str


class BatchSystem(Protocol):
    """Another scheduler that starts, lists and ends what runs on its nodes.

    Every call raises BatchError when the system does not answer; it is then asked again.
    """

    @property
    def name(self) -> str:
        """What people call it."""

    async def submit(self, errand: Errand) -> str:
        """Have the command begun on exactly that node; return how people find it there."""

    async def jobs(self) -> Mapping[str, BatchJob]:
        """Return all errands that have not ended, and those that ended a minute ago or less, by name."""

    async def cancel(self, name: str) -> None:
        """End an errand and all that it started, at once; nothing happens if there is none."""

    async def nodes(self) -> Mapping[str, BatchNode]:
        """Return the nodes it was configured for, by name."""
