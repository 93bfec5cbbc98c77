"""How many nodes a serving pool needs itself at each time of the day."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DAY_SECONDS = 86_400
#: The most steps of a curve: one per quarter of an hour.
MOST_STEPS = 96
MOST_NODES = 1_000_000
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCurve:
    """A step function of the time of day in UTC; before the first step of a day the last one holds."""

    #: (second of the day, nodes needed from then on), ascending; at least one.
    steps: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        seconds = [second for second, _ in self.steps]
        if not seconds or seconds != sorted(set(seconds)):
            raise ValueError("a load curve has at least one step, and its steps are in order")

    def needed_at(self, instant: float) -> int:
        """Return the nodes needed at an instant (Unix seconds)."""
        seconds = [second for second, _ in self.steps]
        # Index -1 is the last step, which holds over midnight.
        return self.steps[bisect_right(seconds, instant % DAY_SECONDS) - 1][1]

    def next_step(self, instant: float) -> float:
        """Return the first instant after this one at which a step begins."""
        second = instant % DAY_SECONDS
        midnight = instant - second
        later = [begins for begins, _ in self.steps if begins > second]
        return midnight + (later[0] if later else DAY_SECONDS + self.steps[0][0])

    def steps_within(self, instant: float, seconds: float) -> list[tuple[float, int]]:
        """Return (instant, nodes needed from then on) for now and for each step within `seconds`."""
        found, at = [(instant, self.needed_at(instant))], self.next_step(instant)
        end = instant + min(seconds, DAY_SECONDS)
        while at <= end:
            found.append((at, self.needed_at(at)))
            at = self.next_step(at)
        return found


def curve_of(times: Mapping[Any, Any]) -> LoadCurve:
    """Return the curve that users write as times of day, {"08:00": 6, "20:00": 2}.

    Raises ValueError that names the entry, what is wrong with it, and what would be right.
    """
    if not isinstance(times, Mapping) or not 1 <= len(times) <= MOST_STEPS:
        raise ValueError(f'must have 1 to {MOST_STEPS} times of day in UTC, like {{"08:00": 6, "20:00": 2}}')
    steps = []
    for time, nodes in times.items():
        match = _TIME.fullmatch(str(time))
        if match is None:
            raise ValueError(f"{str(time)[:40]!r} is not a time of day such as 08:00")
        if not isinstance(nodes, int) or isinstance(nodes, bool) or not 0 <= nodes <= MOST_NODES:
            raise ValueError(f"{time}: {str(nodes)[:40]!r} is not a whole number of nodes, 0 or more")
        steps.append((int(match[1]) * 3_600 + int(match[2]) * 60, nodes))
    return LoadCurve(steps=tuple(sorted(steps)))
