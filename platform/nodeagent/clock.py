"""The clock of a node: agents, shims, remote runners and token daemons read leases, turns and tokens off it.

It has three faces, which a test moves together:

- `boot_clock_seconds` is for everything that must not depend on the time being set: leases, lapses, graces,
  looks.
- `wall_clock_seconds` is for turns alone, which begin at the same instants on all nodes of a gang.
- `steady_microseconds` is the token daemon's. Time in which the machine is suspended does not count there, or
  each holder would wake up as one that kept the token for too long.

Times that people read stay `time.time()`, and so do those that are compared with the server's: when an
attempt started and ended, and when logs, progress lines, readings and reports were made. What the event loop
waits for between two looks is the loop's own time.

Only tests set `ALLOT_TEST_CLOCK`, to the path of a file with two numbers: by how many seconds the clocks are
ahead, and at which of the machine's boot seconds they stop ("inf": never). It is read once, when a process
begins. An agent hands it on to its shims and daemons, and none of these to a job, whose environment is made
from nothing.

Imported by the shim, so it imports nearly nothing.
"""

from __future__ import annotations

import os
import time

VARIABLE = "ALLOT_TEST_CLOCK"
#: The file by which a test moves the clocks; "" in production.
moved_by = os.environ.get(VARIABLE, "")
#: Nothing waits for longer at a stretch where a test may move the clocks meanwhile, nor rests for longer
#: before it tries again what failed.
LOOK_SECONDS = 0.05


def boot_clock_seconds() -> float:
    """Seconds since the machine booted, suspended time included."""
    seconds = time.clock_gettime(time.CLOCK_BOOTTIME)
    if not moved_by:
        return seconds
    with open(moved_by, encoding="ascii") as file:
        ahead, stops_at = map(float, file.read().split())
    return ahead + min(seconds, stops_at)


def wall_clock_seconds() -> float:
    """Unix seconds."""
    return time.time() + _seconds_ahead()


def steady_microseconds() -> int:
    """Microseconds of a clock that only ever goes on, and not while the machine is suspended."""
    return time.monotonic_ns() // 1000 + int(_seconds_ahead() * 1e6)


def wait_seconds(seconds: float) -> float:
    """Return how long to sleep until the clock shows `seconds` more; a test may move it meanwhile."""
    return min(seconds, LOOK_SECONDS) if moved_by else seconds


def environment() -> dict[str, str]:
    """Return what the environment of a program of ours needs, so that it reads the same clock."""
    return {VARIABLE: moved_by} if moved_by else {}


def _seconds_ahead() -> float:
    return boot_clock_seconds() - time.clock_gettime(time.CLOCK_BOOTTIME) if moved_by else 0.0
