"""What a job makes of its GPUs: by its progress lines, and by what agents measure on its devices.

A line may say `storage_seconds`, `gpu_seconds` and `network_seconds`, all three or none: how long an
iteration took on storage and CPUs, on the GPU, and on the network (Y. Zhao et al., "Multi-Resource
Interleaving for Deep Learning Training" (Muri), SIGCOMM 2022, section 4.1); and `amp`, 1 for automatic mixed
precision. Every number comes from a program of the job's user: a line with one that makes no sense is passed
over, and what was known stays. Devices tell how busy they, and their memories, were in a minute (Q. Hu et
al., "Lucid", ASPLOS 2023, section 3.2). What was measured beside other jobs on the same GPUs says nothing of
this one.

Figures follow what is new by `NEWEST_PART`; of memory the most counts. They are of whichever GPU model the
job ran on last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.core.model.training import Profile

STAGES = ("storage_seconds", "gpu_seconds", "network_seconds")
#: How much the newest line, minute or job counts.
NEWEST_PART = 0.3
#: What an attempt does at first does not count: it loads and compiles. Devices report whole minutes then.
WARM_UP_SECONDS = 60.0
MINUTE_SECONDS = 60.0
#: After this long at the latest a minute that counts is over.
TOLD_AFTER_SECONDS = WARM_UP_SECONDS + 2 * MINUTE_SECONDS
#: No stage takes longer.
SECONDS_MOST = 1e6
#: No device has more memory.
MEMORY_MOST = 2**50


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A progress line: its attempt, and what it states. `is_alone`: no other job shared its GPUs."""

    attempt: int
    sequence: int
    is_alone: bool = True
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileReport:
    """What is known after lines and minutes."""

    #: The attempt and the line that were counted last.
    attempt: int = 0
    sequence: int = 0
    #: When the last minute that was counted began, in Unix seconds.
    minute_at: float = 0.0
    profile: Profile = field(default_factory=Profile)

    def after(self, line: Line) -> ProfileReport:
        """Return what is known after one more line; the same if it was counted or says nothing of use."""
        if (line.attempt, line.sequence) <= (self.attempt, self.sequence) or not line.is_alone:
            return self
        newest = Profile(stages=_stages_of(line.values), amp=_amp_of(line.values))
        if newest == Profile():
            return self
        return replace(
            self,
            attempt=line.attempt,
            sequence=line.sequence,
            profile=blended(self.profile, newest),
        )

    def after_minute(self, at: float, measured: Profile) -> ProfileReport:
        """Return what is known after a minute that it had its devices alone; the same if it was counted."""
        if at <= self.minute_at or measured == Profile():
            return self
        return replace(self, minute_at=at, profile=blended(self.profile, measured))


def told_at(running_at: float) -> float:
    """Return when the first minute is over that counts of an attempt; both in Unix seconds."""
    return (math.ceil((running_at + WARM_UP_SECONDS) / MINUTE_SECONDS) + 1) * MINUTE_SECONDS


def measured_profile(
    utilisation_percent: float | None, memory_utilisation_percent: float | None, memory_bytes: float | None
) -> Profile:
    """Return what devices reported; a figure that makes no sense is left out."""

    def part(percent: float | None) -> float | None:
        return percent / 100 if percent is not None and 0 <= percent <= 100 else None

    used = memory_bytes if memory_bytes is not None and 0 < memory_bytes <= MEMORY_MOST else None
    return Profile(
        utilisation=part(utilisation_percent),
        memory_utilisation=part(memory_utilisation_percent),
        memory_bytes=None if used is None else round(used),
    )


def blended(known: Profile, newest: Profile) -> Profile:
    """Return what is known when something newer was measured, figure by figure."""
    stages = known.stages or newest.stages
    if known.stages is not None and newest.stages is not None:
        storage, gpu, network = map(_moved, known.stages, newest.stages)
        stages = storage, gpu, network
    sizes = [size for size in (known.memory_bytes, newest.memory_bytes) if size is not None]
    return Profile(
        utilisation=_blend(known.utilisation, newest.utilisation),
        memory_utilisation=_blend(known.memory_utilisation, newest.memory_utilisation),
        memory_bytes=max(sizes, default=None),
        amp=known.amp if newest.amp is None else newest.amp,
        stages=stages,
    )


def stored_profile(values: Mapping[str, Any]) -> Profile:
    """Return the profile that was stored by its fields, those left out that nothing is known of."""
    stages = values.get("stages")
    return Profile(**{**values, "stages": None if stages is None else tuple(stages)})


def first_known(profiles: Iterable[Profile | None]) -> Profile | None:
    """Return each figure from the first profile that has it: the job's own, then those like it; None if none
    does.
    """
    known = [profile for profile in profiles if profile is not None]
    found = Profile(
        utilisation=next((one.utilisation for one in known if one.utilisation is not None), None),
        memory_utilisation=next(
            (one.memory_utilisation for one in known if one.memory_utilisation is not None), None
        ),
        memory_bytes=next((one.memory_bytes for one in known if one.memory_bytes is not None), None),
        amp=next((one.amp for one in known if one.amp is not None), None),
        stages=next((one.stages for one in known if one.stages is not None), None),
    )
    return None if found == Profile() else found


def _blend(known: float | None, newest: float | None) -> float | None:
    if known is None or newest is None:
        return known if newest is None else newest
    return _moved(known, newest)


def _moved(known: float, newest: float) -> float:
    return known + NEWEST_PART * (newest - known)


def _stages_of(values: Mapping[str, float]) -> tuple[float, float, float] | None:
    storage, gpu, network = [values.get(name, math.nan) for name in STAGES]
    # A comparison with NaN fails.
    if not all(0 <= seconds <= SECONDS_MOST for seconds in (storage, gpu, network)):
        return None
    return (storage, gpu, network) if storage + gpu + network > 0 else None


def _amp_of(values: Mapping[str, float]) -> bool | None:
    amp = values.get("amp")
    return bool(amp) if amp in (0, 1) else None
