"""How fast a tenant's jobs would be on its own part of a virtual cluster, if nobody else were there.

A part is seldom a whole number of GPUs. Of 2.5 GPUs, two are there all the time and a third half of it: so a
gang runs for the part of the time for which there are GPUs for it, and one that is larger than the part,
rounded up, never.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduler.core.building_blocks.entitlement import NOTHING


class Gang(NamedTuple):
    """What a job wants: so many GPUs at once, and how fast it is on a model, relative to its best."""

    gpus: int
    speeds: Mapping[str, float]


def speed_alone(part: Mapping[str, float], gangs: Iterable[Gang]) -> float:
    """Return the most that gangs reach on a part, in GPUs of each one's best model; gangs stay whole.

    The fastest go first, and among these the smallest or the largest, whichever comes to more: what is found
    can be had, and now and then a little more could be.
    """
    pairs = [
        (-speed, gang.gpus, number, model)
        for number, gang in enumerate(gangs)
        for model, speed in gang.speeds.items()
        if speed > 0 and part.get(model, 0.0) > NOTHING
    ]
    smallest = sorted(pairs)
    largest = sorted(pairs, key=lambda pair: (pair[0], -pair[1], *pair[2:]))
    return max(_reached(part, smallest), _reached(part, largest))


def _reached(part: Mapping[str, float], pairs: Iterable[tuple[float, int, int, str]]) -> float:
    left = dict(part)
    placed: set[int] = set()
    reached = 0.0
    for negative, gpus, number, model in pairs:
        room = left[model]
        if number in placed or room <= NOTHING or gpus > math.ceil(room - NOTHING):
            continue
        used = min(room, gpus)
        left[model] = room - used
        placed.add(number)
        reached -= negative * used
    return reached
