"""Limits of CPU and memory that change while attempts run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from nodeagent.folder import AttemptFolder, read_json
from nodeagent.messages import DesiredPart, Replica
from nodeagent.process.container import order
from nodeagent.shim.cgroups import Cgroups

log = logging.getLogger(__name__)

#: How often it is tried to take back memory that is in use.
AGAIN_SECONDS = 1.0


class Limits:
    """Brings replicas to the limits that they are to have; `alive` are the attempts that still run."""

    def __init__(
        self,
        cgroups: Cgroups,
        folder: Callable[[int], AttemptFolder],
        alive: Collection[int],
        begin: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._cgroups, self._folder, self._alive, self._begin = cgroups, folder, alive, begin
        #: By attempt, what it is to have and does not have yet.
        self.pending: dict[int, DesiredPart] = {}
        #: The later one of two changes of a container must come last.
        self._engine = asyncio.Lock()

    def change(self, desired: DesiredPart) -> None:
        """Set the limits of all its replicas, what cannot be set yet as soon as it can."""
        self.pending[desired.attempt] = desired
        self._try(desired)

    def forget(self, attempt: int) -> None:
        self.pending.pop(attempt, None)

    def _try(self, desired: DesiredPart) -> None:
        attempt = desired.attempt
        if self.pending.get(attempt) is not desired:
            return  # It has ended, or is to have others by now.
        if attempt in self._alive and all([self._is_set(attempt, each) for each in desired.replicas]):
            del self.pending[attempt]
        else:
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._try, desired)

    def _is_set(self, attempt: int, replica: Replica) -> bool:
        if replica.image:
            # Its memory stays what it began with: an engine does not ask what is in use.
            self._begin(self._change_container(attempt, replica))
            return True
        group = self._cgroups.group(f"attempt-{attempt}-rank-{replica.rank}")
        try:
            return group.change(cpus=replica.cpus, memory_bytes=replica.memory_bytes)
        except OSError:
            log.exception("Limits of attempt %d, rank %d could not be changed", attempt, replica.rank)
            return True

    async def _change_container(self, attempt: int, replica: Replica) -> None:
        spec = read_json(self._folder(attempt).spec) or {}
        for each in spec.get("replicas", []):
            if each["rank"] == replica.rank and (container := each["container"]):
                async with self._engine:
                    await order([*container["update_cpus"], f"--cpus={replica.cpus:g}", container["name"]])
