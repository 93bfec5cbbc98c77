"""What has to be known of another scheduler that runs attempts as its jobs: four calls.

Slurm is one (`slurm.py`). A further one, such as Kubernetes or Ray, is one class with these calls; see
docs/architecture.md, "Executors".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol


class BatchError(Exception):
    """The system did not do what it was asked to, or did not answer; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """One attempt's part on one node, as it is handed to a batch system."""

    #: No other job was or will be called so.
    name: str
    node: str
    #: What to run on the node, for a shell. It may be begun more often: only the first does anything.
    command: str
    #: On a file system that node and agent share; what the system itself says of the job goes there.
    log: str
    gpu_model: str
    gpus: int
    cpus: float
    #: 0: not said.
    memory_bytes: int


#: `ended`: nothing of it is alive; `lost`: its node does not answer, so its state is unknown.
BatchJobState = Literal["waiting", "running", "ended", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJobStatus:
    """What the system says of a job."""

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
    #: GPUs used by jobs of any user.
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

    async def submit(self, job: BatchJob) -> str:
        """Have the command begun on exactly that node; return how people find it there."""

    async def jobs(self) -> Mapping[str, BatchJobStatus]:
        """Return all jobs of ours that have not ended, and those that ended a minute ago or less, by name."""

    async def cancel(self, name: str) -> None:
        """End a job and all that it started, at once; nothing happens if there is none."""

    async def nodes(self) -> Mapping[str, BatchNode]:
        """Return the nodes it was configured for, by name."""
