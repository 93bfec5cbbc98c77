"""What the processes of each replica use: by its control group, or else by the tree of its processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nodeagent.folder import AttemptFolder, read_json
from nodeagent.procfs import ProcessTree, resident_bytes
from nodeagent.shim.cgroups import CgroupOfReplica

#: A job that reported progress within this time advances.
ADVANCING_SECONDS = 30.0

#: An attempt and a rank.
ReplicaKey = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one replica uses at an instant; None is unknown."""

    #: Since it began.
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    #: Its processes, by number.
    pids: frozenset[int] = frozenset()
    #: Whether the attempt reported progress here a moment ago.
    is_advancing: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to look for a replica's processes."""

    cgroup: CgroupOfReplica
    #: Its first process; or the shim, where all that is below it is the replica's.
    root: int
    is_shim: bool
    #: What all replicas of the attempt on this node report their progress to.
    progress: tuple[str, ...]


class JobMeter:
    """Measures replicas by a few small files each; all of /proc is read where there are no control groups."""

    def __init__(self, folder: Callable[[int], AttemptFolder]) -> None:
        self.folder = folder
        self.places: dict[int, dict[int, _Place]] = {}

    def measure(self, attempts: Iterable[int]) -> dict[ReplicaKey, Usage]:
        """Return what is known of the replicas of these attempts, which have processes on this node."""
        current = set(attempts)
        self.places = {attempt: known for attempt, known in self.places.items() if attempt in current}
        for attempt in current - self.places.keys():
            if places := self._find(attempt):
                self.places[attempt] = places
        tree = ProcessTree()
        return {
            (attempt, rank): _usage(place, tree)
            for attempt, places in self.places.items()
            for rank, place in places.items()
        }

    def _find(self, attempt: int) -> dict[int, _Place]:
        """Return where the replicas of an attempt are; nothing before all of them were started."""
        folder = self.folder(attempt)
        status, spec = read_json(folder.status) or {}, read_json(folder.spec) or {}
        roots = {replica["rank"]: replica["pid"] for replica in status.get("replicas", [])}
        specs = spec.get("replicas", [])
        if not specs or any(not roots.get(replica["rank"]) for replica in specs):
            return {}
        # A container's processes are not below its client, but they are below the shim.
        is_alone = len(specs) == 1
        if is_alone:
            roots = {specs[0]["rank"]: status["pid"]}
        progress = tuple(folder.progress(replica["rank"]) for replica in specs)
        return {
            replica["rank"]: _Place(
                CgroupOfReplica(replica["cgroup"]["is_unified"], replica["cgroup"]["paths"]),
                roots[replica["rank"]],
                is_alone,
                progress,
            )
            for replica in specs
        }


def _usage(place: _Place, tree: ProcessTree) -> Usage:
    pids, cpu_seconds = place.cgroup.members(), place.cgroup.cpu_seconds()
    memory_bytes = place.cgroup.memory_bytes()
    if not pids:
        own = () if place.is_shim else (place.root,)
        pids = frozenset((*own, *tree.below(place.root)))
    if cpu_seconds is None:
        # Ended children count with the process that waited for them.
        cpu_seconds = tree.cpu_seconds({place.root, *pids})
    if memory_bytes is None and pids:
        memory_bytes = sum(map(resident_bytes, pids))
    return Usage(
        cpu_seconds=cpu_seconds,
        memory_bytes=memory_bytes,
        pids=pids,
        is_advancing=any(map(_was_written_lately, place.progress)),
    )


def _was_written_lately(path: str) -> bool:
    try:
        file = os.stat(path)
    except OSError:
        return False
    return file.st_size > 0 and time.time() - file.st_mtime < ADVANCING_SECONDS


def agent_usage() -> tuple[float, int]:
    """Return CPU seconds and resident bytes of this process itself."""
    times = os.times()
    return times.user + times.system, resident_bytes(os.getpid())
