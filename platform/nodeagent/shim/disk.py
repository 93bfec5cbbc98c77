"""How much disk an attempt uses, measured a little at a time so that its shim's loop never waits for it.

Files are counted by the blocks they occupy. What was deleted and is still held open is counted too, or a job
could hide all it writes. A tree nested too deeply to be searched counts as more than any limit.

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False  # What typing.TYPE_CHECKING is, without loading typing.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BLOCK_BYTES = 512
#: The most files counted before the shim attends to other things.
FILES_AT_ONCE = 500
#: Each level keeps two files of the shim open.
DEEPEST = 200
LOOK_SECONDS = 1.0
#: At most this part of one CPU is spent on checks, while there is no cause to.
REST_PER_LOOK = 20.0
#: Decides how soon the free space is read again.
FASTEST_BYTES_PER_SECOND = 2**31
SHORTEST_SECONDS = 0.05
#: A job that uses this many times the limit has no time left to save work.
MOST_TIMES = 1.25


class TooDeep(Exception):
    """Folders are nested deeper than can be looked through."""


class DiskMeter:
    """Checks again and again whether the folder, and what the processes hold open, stay below the limit.

    A check costs by files and processes, which the job chooses, so it is followed by a rest. The free space
    of the file system costs nothing to read. Where so much of it went since the last check that this job may
    have passed its limit, the rest is over: a job cannot gain time by the number of its files. Writes of
    others cost it one check and no more.
    """

    def __init__(self, folder: str, limit_bytes: int, processes: Callable[[], list[int]]) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.processes = processes
        self.look: Iterator[int] | None = None
        #: What this look has found so far, and what the last whole one found.
        self.used_bytes = self.known_bytes = 0
        self.free_before = self.free_then = self._free_bytes()
        self.spent_seconds = 0.0
        self.next_at = self.rests_until = self.spares_until = 0.0

    def step(self, now: float) -> bool:
        """Count some more files when it is time; return whether a check found more than the limit."""
        if now < self.next_at:
            return False
        if self.look is None and now < self.rests_until and not self._may_exceed(now):
            self.next_at = min(self.rests_until, now + self._pause_seconds())
            return False
        began = time.monotonic()
        if self.look is None:
            self.free_before = self._free_bytes()
            self.look, self.used_bytes, self.spent_seconds = self._look(), 0, 0.0
        is_whole = False
        try:
            for _ in range(FILES_AT_ONCE):
                self.used_bytes += next(self.look)
        except StopIteration:
            self.look, is_whole = None, True
        except OSError:
            self.look = None  # It cannot go on; the next look begins from the top.
        except TooDeep:
            return True
        self.spent_seconds += time.monotonic() - began
        if is_whole:
            self.known_bytes, self.free_then = self.used_bytes, self.free_before
        if self.look is None:
            self.spares_until = now + self.spent_seconds
            self.rests_until = now + max(LOOK_SECONDS, REST_PER_LOOK * self.spent_seconds)
            self.next_at = min(self.rests_until, now + self._pause_seconds())
        return self.used_bytes > self.limit_bytes

    def is_far_beyond(self) -> bool:
        """Whether a job that passed its limit may have written too much for any grace."""
        return max(self.used_bytes, self._most_bytes()) > MOST_TIMES * self.limit_bytes

    def _may_exceed(self, now: float) -> bool:
        return now >= self.spares_until and self._most_bytes() > self.limit_bytes

    def _most_bytes(self) -> int:
        """What the job uses if it alone took all the space that went since the last whole look."""
        return self.known_bytes + max(0, self.free_then - self._free_bytes())

    def _pause_seconds(self) -> float:
        """How long even the fastest disk takes to reach the limit."""
        left = (self.limit_bytes - self._most_bytes()) / FASTEST_BYTES_PER_SECOND
        return min(max(left, SHORTEST_SECONDS), LOOK_SECONDS)

    def _free_bytes(self) -> int:
        try:
            facts = os.statvfs(self.folder)
        except OSError:
            return 0
        return facts.f_bfree * facts.f_frsize

    def _look(self) -> Iterator[int]:
        device = os.stat(self.folder).st_dev
        yield from _bytes_below(self.folder)
        yield from _bytes_deleted(self.processes(), device)


def _bytes_below(folder: str) -> Iterator[int]:
    """Yield what each file takes. Names are resolved one by one, so no link leads out of the folder."""
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack = [(top, os.scandir(top))]
    try:
        while stack:
            parent, entries = stack[-1]
            try:
                entry = next(entries)
                facts = entry.stat(follow_symlinks=False)
                yield facts.st_blocks * BLOCK_BYTES
                if not stat.S_ISDIR(facts.st_mode):
                    continue
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                below = os.open(entry.name, flags, dir_fd=parent)
            except StopIteration:
                entries.close()
                os.close(parent)
                stack.pop()
                continue
            except OSError:
                continue  # It went away meanwhile, or does not let its owner in.
            if len(stack) >= DEEPEST:
                os.close(below)
                raise TooDeep
            stack.append((below, os.scandir(below)))
    finally:
        for descriptor, entries in stack:
            entries.close()
            os.close(descriptor)


def _bytes_deleted(pids: Iterable[int], device: int) -> Iterator[int]:
    """Yield what files take that have no name any more and are still open in one of the processes."""
    seen: set[int] = set()
    for pid in pids:
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                facts = os.stat(f"/proc/{pid}/fd/{descriptor}")
            except OSError:
                continue
            is_deleted = stat.S_ISREG(facts.st_mode) and facts.st_nlink == 0 and facts.st_dev == device
            if is_deleted and facts.st_ino not in seen:
                seen.add(facts.st_ino)
                yield facts.st_blocks * BLOCK_BYTES
