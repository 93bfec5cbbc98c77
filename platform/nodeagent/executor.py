"""What carries out what the server wants of a node: the seam behind `Agent`.

A `Runtime` carries out one node's attempts. There are two: `process.runtime` on the machine of the agent, and
`batch.runtime` on a machine that another scheduler manages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import IO, Any, Protocol

from nodeagent.configuration import Configuration
from nodeagent.devices.inventory import Devices
from nodeagent.folder import AttemptFolder
from nodeagent.machine import AttemptAdopted, AttemptExited, Event, Outcome
from nodeagent.messages import (
    NO_SECRETS,
    Category,
    DesiredPart,
    MessageError,
    Replica,
    SecretsAnswer,
    Turn,
    decode,
)


class Runtime(Protocol):
    """Attempts on one node. Nothing here blocks; what becomes of an attempt is posted as an event.

    What the server relies on, whatever happens to the agent, the node or the network:

    - *Once*: an attempt's processes are started once at most, even if the agent died in between.
    - *Lease*: by the newest deadline given to `extend_lease` they are dead or frozen, without help from
      outside. What is frozen runs again only when `extend_lease` names it, and is killed after
      `freeze_seconds`.
    - *Adoption*: they outlive the agent, and `recover` finds them again.
    - *One end*: `AttemptExited` is posted once for each attempt, and nothing of it is alive by then.
    """

    @property
    def devices(self) -> Devices:
        """The node's GPUs."""

    @property
    def isolation(self) -> dict[str, bool]:
        """What is really enforced on jobs."""

    @property
    def problem(self) -> str:
        """Why no job starts on this node as it is; "" when they do. Does not change."""

    @property
    def inventory_seconds(self) -> float:
        """How often it is worth asking the devices how they are."""

    def folder(self, attempt: int) -> AttemptFolder:
        """Return where this agent reads an attempt's output and progress, also after its end."""

    def extend_lease(self, deadline: float, lease_seconds: float, attempts: Collection[int]) -> None:
        """Let all that runs go on until the deadline, in seconds of this machine's boot clock; among the
        attempts that the end of a lease froze, only these.
        """

    def is_frozen(self, attempt: int) -> bool:
        """Whether the attempt is frozen since the lease ended, and need not be killed yet."""

    def lease_deadline(self) -> float:
        """Return the deadline that an earlier life of the agent left behind; 0 when there is none."""

    def prepare(self, desired: DesiredPart, code: IO[bytes] | None = None) -> None:
        """Take what the attempt needs, so that starting is quick and sure. Posts
        AttemptPrepared or AttemptExited.

        `code`: an archive for the working folder of each replica, which the runtime closes.
        """

    def release(self, attempt: int) -> bool:
        """Give back what preparing took or takes: it will not be started.

        True: it was still being prepared, and nothing will be posted of it; its caller says that it ended.
        """

    def is_queued(self, attempt: int) -> bool:
        """Whether another scheduler keeps the attempt in its queue, and will start it there."""

    def start(self, desired: DesiredPart, secrets: SecretsAnswer = NO_SECRETS) -> None:
        """Start the replicas of a prepared attempt. Posts AttemptStarted, and AttemptExited at the end.

        What is secret reaches its processes by way of memory only: nothing of it is written to a disk.
        """

    def stop(self, attempt: int, grace_seconds: float, *, is_leaving: bool = False) -> None:
        """SIGTERM, and SIGKILL to what is left after the grace. May be called again with less grace."""

    def take_turns(self, attempt: int, turn: Turn | None) -> None:
        """From now on let it run in these turns only, frozen in those of others; None: all the time."""

    def change_limits(self, desired: DesiredPart) -> None:
        """From now on let the replicas of an attempt that runs have the CPUs and memory stated here."""

    def name_trainers(self, attempt: int, trainers: str) -> None:
        """Let an input worker that runs know which trainers it serves from now on."""

    def kill(self, attempt: int) -> None:
        """SIGKILL at once; what is frozen does not run before it."""

    def forget(self, attempt: int) -> None:
        """Remove all that is left of an attempt that ended."""

    def recover(self) -> list[AttemptAdopted]:
        """Find what an earlier life of the agent left behind, and watch again what lives."""

    def close(self) -> None:
        """Let go of everything; attempts go on."""


#: Makes the runtime of one agent, given where to post events.
Executor = Callable[[Configuration, Callable[[Event], None]], Runtime]


def start_failed(attempt: int, message: str, category: Category = "start_failed") -> AttemptExited:
    """Return the end of an attempt of which nothing was started."""
    outcome = Outcome(exit_code=None, category=category, message=message, ended_at=time.time())
    return AttemptExited(attempt=attempt, outcome=outcome)


def kept_desired(attempt: int, desired: Any, spec: Any) -> DesiredPart | None:
    """Return what was asked for; None when it was not even prepared.

    Another version of the agent may have written it in a form of its own. What it started still runs: then
    as much is made up as stopping it and shipping its output take, until the server says the rest.
    """
    try:
        return decode(DesiredPart, desired)
    except MessageError:
        if spec is None:
            return None
    ranks = [replica["rank"] for replica in spec["replicas"]]
    return DesiredPart(
        attempt=attempt,
        job=0,
        number=0,
        name="unknown",
        tenant="",
        gpu_model="",
        replicas=tuple(Replica(rank=rank, task="", gpu_indexes=(), command=()) for rank in ranks),
        world_size=len(ranks),
        go=True,
        stop=False,
        grace_seconds=spec["grace_seconds"],
        has_rank_zero=0 in ranks,
    )
