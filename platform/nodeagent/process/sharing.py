"""Parts of GPUs as the agent holds jobs to them: a token daemon for each GPU of which jobs have parts.

The daemon is a process of its own (`token_daemon.py`), so that neither a restart of the agent nor a moment in
which it is busy stops a job. The agent stays connected to it while an attempt needs it: when that connection
ends, the daemon has died, and the agent starts another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from socket import AF_UNIX, SOCK_SEQPACKET, socket
from typing import Any

from nodeagent.clock import environment
from nodeagent.configuration import Configuration
from nodeagent.folder import AttemptFolder, read_json, write_json
from nodeagent.messages import DesiredPart, Enforcement, ReplicaSample, weakest_enforcement
from nodeagent.programs import program
from nodeagent.shim.guest import reached_by

log = logging.getLogger(__name__)

DAEMON = program("nodeagent.token_daemon")
CONNECT_SECONDS = 0.02
#: One that does not serve by then is started again; so is one that died, but no more often than this.
START_SECONDS = 5.0
AGAIN_SECONDS = 0.2
#: Until something holds the replica to its part.
UNHELD: Enforcement = "placement_only"


class SharedGpus:
    """Says what holds replicas to their parts of GPUs, and keeps the daemons running that they need."""

    def __init__(self, folder: Path, configuration: Configuration, *, has_mps: bool) -> None:
        self.folder = folder
        self.has_mps = has_mps
        self.has_tokens = configuration.tokens
        self.is_simulated = configuration.inventory.kind == "simulated"
        #: By attempt, the sockets of the daemons that its replicas go by.
        self.members: dict[int, set[str]] = {}
        self.keepers: dict[str, asyncio.Task[None]] = {}

    @property
    def holds(self) -> dict[str, bool]:
        """What holds parts of GPUs here: the node, whatever jobs do; tokens, where jobs ask for them."""
        by_node = self.has_mps or (self.has_tokens and self.is_simulated)
        return {"gpu_parts": by_node, "gpu_tokens": self.has_tokens}

    def parts(self, folder: AttemptFolder, desired: DesiredPart) -> dict[int, dict[str, Any]]:
        """Return by rank what the shim holds replicas to; write down what else holds them, and if nothing."""
        parts = {replica.rank: replica for replica in desired.replicas if replica.gpu_part is not None}
        is_served = {rank: self.has_mps and not replica.image for rank, replica in parts.items()}
        if parts:
            write_json(
                folder.held, {rank: "enforced" if is_served[rank] else UNHELD for rank in sorted(parts)}
            )
        specs = {}
        for rank, replica in parts.items():
            part = replica.gpu_part
            if part is None or is_served[rank] or not self.has_tokens or len(replica.gpu_indexes) != 1:
                continue
            specs[rank] = {
                "daemon": str(self.folder / str(replica.gpu_indexes[0])),
                "door": folder.token(rank),
                "client": f"{desired.attempt}-{rank}",
                "request": part.request,
                "limit": part.limit,
                "memory_bytes": part.memory_bytes,
                "on_gpu": folder.on_gpu,
                # What runs on a real device goes on there while its process is frozen; and an engine takes
                # too long to freeze a container for such short turns.
                "is_simulated": self.is_simulated,
                "can_freeze": self.is_simulated and not replica.image,
            }
        return specs

    def join(self, attempt: int, folder: AttemptFolder) -> None:
        """Keep the daemons running that the attempt's shim goes by."""
        specs = (read_json(folder.spec) or {}).get("replicas", [])
        needed = {spec["part"]["daemon"] for spec in specs if spec.get("part")}
        if not needed:
            return
        self.members[attempt] = needed
        for path in needed - self.keepers.keys():
            self.keepers[path] = asyncio.get_running_loop().create_task(keep_daemon(path))

    def leave(self, attempt: int) -> None:
        """Let go of daemons that no attempt needs any more; they end."""
        self.members.pop(attempt, None)
        for path in self.keepers.keys() - set().union(*self.members.values()):
            self.keepers.pop(path).cancel()

    def close(self) -> None:
        """Let go of all daemons. They serve on: their clients outlive the agent."""
        self.members.clear()
        self.leave(0)


async def keep_daemon(path: str) -> None:
    """Keep a token daemon serving at the path until cancelled."""
    Path(path).parent.mkdir(mode=0o700, exist_ok=True)
    while True:
        try:
            line, daemon = await _connected(path)
        except OSError:
            log.exception("The token daemon of %s does not serve; nothing limits the parts of its jobs", path)
            await asyncio.sleep(START_SECONDS)
            continue
        try:
            await _end_of(line)
        finally:
            line.close()
            if daemon is not None:
                daemon.poll()
        log.warning("The token daemon of %s ended; another is started", path)
        await asyncio.sleep(AGAIN_SECONDS)
        if daemon is not None:
            daemon.poll()


async def _connected(path: str) -> tuple[socket, subprocess.Popen[bytes] | None]:
    """Connect to the daemon that serves, or to one that is started now; raise OSError if none does."""
    daemon = None
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    while True:
        line = socket(AF_UNIX, SOCK_SEQPACKET)
        line.setblocking(False)
        try:
            reached_by(path, line.connect)
        except OSError:
            line.close()
            if asyncio.get_running_loop().time() > deadline:
                raise
        else:
            return line, daemon
        if daemon is None or daemon.poll() is not None:
            daemon = _start(path)
        await asyncio.sleep(CONNECT_SECONDS)


def _start(path: str) -> subprocess.Popen[bytes]:
    with open(f"{path}.log", "ab") as complaints:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", DAEMON, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            cwd="/",
            env=environment(),
            start_new_session=True,
        )


async def _end_of(line: socket) -> None:
    """Return when the other side is gone."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(line, ended.set)
    try:
        await ended.wait()
    finally:
        with contextlib.suppress(OSError, ValueError):
            loop.remove_reader(line)


def note_gpu_memory(
    folder: Callable[[int], AttemptFolder], parts: Iterable[DesiredPart], samples: Iterable[ReplicaSample]
) -> None:
    """Let shims know what GPU memory replicas with parts occupy; they end those with too much."""
    limited = {
        (part.attempt, replica.rank)
        for part in parts
        for replica in part.replicas
        if replica.gpu_part is not None and replica.gpu_part.memory_bytes
    }
    found: dict[int, dict[str, int]] = {}
    for sample in samples:
        if (sample.attempt, sample.rank) in limited and sample.gpu_memory_bytes is not None:
            found.setdefault(sample.attempt, {})[str(sample.rank)] = sample.gpu_memory_bytes
    for attempt, occupied in found.items():
        with contextlib.suppress(OSError):  # It ended, or the disk is full: tried again.
            write_json(folder(attempt).on_gpu, occupied)


def enforcement_of(desired: DesiredPart, held: Mapping[str, str] | None) -> Enforcement:
    """Return how an attempt is held to its parts of GPUs, by what was written down of its replicas; "" when
    it has none, or was not started yet."""
    ranks = [str(replica.rank) for replica in desired.replicas if replica.gpu_part is not None]
    if not ranks or held is None:
        return ""
    return weakest_enforcement([held.get(rank, UNHELD) for rank in ranks])
