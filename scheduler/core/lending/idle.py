"""How much of a virtual cluster's guarantee has not been needed, and for how long.

The memory is steps [n, since]: at least n have been idle since that instant, and some of them for longer.
When more become idle, a step is added; when fewer are idle than before, the steps with larger numbers are
dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: The memory is void after a gap of more than this many rounds and seconds between two observations.
GAP_ROUNDS, GAP_SECONDS = 10, 60.0

Steps = Sequence[Sequence[float]]


def longest_gap(round_seconds: float) -> float:
    return GAP_ROUNDS * round_seconds + GAP_SECONDS


def remembered(memory: Mapping[str, Any], now: float, round_seconds: float) -> Mapping[str, Any]:
    """Return the steps by virtual cluster and kind; empty after a gap, or when the clock went back."""
    passed = now - float(memory.get("at", now))
    return memory.get("idle", {}) if 0 <= passed <= longest_gap(round_seconds) else {}


def observed(steps: Steps, idle: int, now: float) -> list[list[float]]:
    """Return the steps after an observation at `now` in which `idle` were idle."""
    if idle < 1:
        return []
    kept = [list(step) for step in steps if step[0] < idle]
    since = next((step[1] for step in steps if step[0] >= idle), now)
    return [*kept, [idle, since]]


def idle_for(steps: Steps, seconds: float, now: float) -> int:
    """Return how many have been idle for `seconds`."""
    return int(max([step[0] for step in steps if step[1] <= now - seconds], default=0))


def next_step(steps: Steps, seconds: float, now: float) -> float | None:
    """Return when more will have been idle for `seconds`; None if never, as things are."""
    return min([step[1] + seconds for step in steps if step[1] + seconds > now], default=None)
