"""What a batch system reports of its jobs and nodes: asked once for all nodes of one process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping

from nodeagent.batch.system import BatchError, BatchJobStatus, BatchNode, BatchSystem
from nodeagent.clock import boot_clock_seconds
from nodeagent.devices.inventory import Load
from nodeagent.messages import GpuSample, InventoryGpu

log = logging.getLogger(__name__)

#: Nodes change less often than jobs.
JOB_LISTS_PER_NODE_LIST = 5


class BatchPoller:
    """The newest list of jobs and of nodes. A list of jobs is made while there are any."""

    def __init__(self, system: BatchSystem, nodes: Mapping[str, BatchNode], every_seconds: float) -> None:
        self.system = system
        self.nodes = nodes
        self.every_seconds = every_seconds
        self.jobs: Mapping[str, BatchJobStatus] = {}
        #: How many lists of jobs there were, and when the newest was asked for.
        self.lists = 0
        self.polled_at = 0.0
        self.is_silent = False
        self.is_due = asyncio.Event()
        self.has_jobs: list[Callable[[], bool]] = []
        self.nodes_listed: list[Callable[[], None]] = []

    def follow(self, has_jobs: Callable[[], bool], nodes_listed: Callable[[], None]) -> None:
        self.has_jobs.append(has_jobs)
        self.nodes_listed.append(nodes_listed)

    def ask_soon(self) -> None:
        """Ask again soon, since there is something new."""
        self.is_due.set()

    async def keep_asking(self) -> None:
        turn = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.every_seconds):
                    await self.is_due.wait()
            self.is_due.clear()
            turn += 1
            try:
                await self._ask(is_nodes_turn=turn % JOB_LISTS_PER_NODE_LIST == 0)
            except BatchError as error:
                if not self.is_silent:
                    log.warning("%s does not answer: %s", self.system.name, error)
                self.is_silent = True
                continue
            if self.is_silent:
                log.info("%s answers again.", self.system.name)
            self.is_silent = False

    async def _ask(self, *, is_nodes_turn: bool) -> None:
        if any(has_jobs() for has_jobs in self.has_jobs):
            polled_at = boot_clock_seconds()
            self.jobs = await self.system.jobs()
            self.polled_at = polled_at
            self.lists += 1
        if is_nodes_turn:
            self.nodes = await self.system.nodes()
            for nodes_listed in self.nodes_listed:
                nodes_listed()


class BatchDevices:
    """The GPUs of one node, as the batch system reports them."""

    def __init__(
        self,
        node: str,
        poller: BatchPoller,
        in_use: Callable[[], set[int]],
        sampled: Callable[[], tuple[GpuSample, ...]],
    ) -> None:
        self.node = node
        self.poller = poller
        #: Indexes that attempts of ours have.
        self.in_use = in_use
        #: What remote runners report of their devices.
        self.sampled = sampled
        #: How many other people's jobs have, by the last two lists.
        self.others = (0, 0)

    @property
    def gpu_model(self) -> str:
        return self.poller.nodes[self.node].gpu_model

    def count_others(self) -> None:
        before = self.others[1]
        self.others = (before, max(0, self.poller.nodes[self.node].gpus_in_use - len(self.in_use())))

    def gpus(self) -> tuple[InventoryGpu, ...]:
        """Return them all; those that others use, and all of a closed node, with the reason."""
        name, node, ours = self.poller.system.name, self.poller.nodes[self.node], self.in_use()
        free = [index for index in range(node.gpus) if index not in ours]
        # A job of ours that is just ending looks like another user's, but not in two lists. Which index they
        # have is not known: plans only count.
        taken = free[len(free) - min(*self.others, len(free)) :]
        return tuple(
            InventoryGpu(
                index=index,
                uuid=f"{name.upper()}-{self.node}-{index}",
                memory_bytes=node.gpu_memory_bytes,
                healthy=not node.problem and index not in taken,
                problem=node.problem or (f"In use by other jobs of {name}." if index in taken else ""),
            )
            for index in range(node.gpus)
        )

    def samples(self, loads: Mapping[int, Load | None]) -> tuple[GpuSample, ...]:
        """Return what the remote runners saw of the devices in use; idle ones are unknown."""
        return tuple(sample for sample in self.sampled() if sample.index in loads)

    def memory_by_process(self) -> Mapping[int, Mapping[int, int]]:
        return {}

    def names(self, indexes: Iterable[int]) -> dict[int, str]:
        return {index: str(index) for index in indexes}

    def files(self, indexes: Iterable[int]) -> tuple[str, ...]:
        return ()
