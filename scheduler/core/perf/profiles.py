"""How a job uses its GPUs, from its progress lines and from what agents measure on its devices.

A line may have `storage_seconds`, `gpu_seconds` and `network_seconds`, all three or none: how long an
iteration took on storage and CPUs, on the GPU, and on the network (Y. Zhao et al., "Multi-Resource
Interleaving for Deep Learning Training" (Muri), SIGCOMM 2022, section 4.1). It may also have `amp`, 1 for
automatic mixed precision. Every number comes from the user's program, so a line with a number that makes no
sense is ignored, and the known figures stay. Agents report how busy each device and its memory were in a
minute (Q. Hu et al., "Lucid", ASPLOS 2023, section 3.2). A measurement beside other jobs on the same GPUs
says nothing about this one and does not count.

A new figure counts for `NEWEST_PART` of the average; for memory, the largest value counts. All figures hold
for the GPU model on which the job ran last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.core.model.training import Profile

STAGES = ("storage_seconds", "gpu_seconds", "network_seconds")
#: The weight of the newest line, minute or job.
NEWEST_PART = 0.3
#: The start of an attempt does not count, because it loads and compiles. After that devices report whole
#: minutes.
WARM_UP_SECONDS = 60.0
MINUTE_SECONDS = 60.0
#: The latest time after the start at which the first minute that counts is over.
TOLD_AFTER_SECONDS = WARM_UP_SECONDS + 2 * MINUTE_SECONDS
#: The longest stage.
SECONDS_MOST = 1e6
#: The most memory of a device, in bytes.
MEMORY_MOST = 2**50


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A progress line: its attempt and its figures. `is_alone` if no other job shared its GPUs."""

    attempt: int
    sequence: int
    is_alone: bool = True
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileReport:
    """What is known after lines and minutes."""

    #: The attempt and the line that counted last.
    attempt: int = 0
    sequence: int = 0
    #: When the last minute that counted began, in Unix seconds.
    minute_at: float = 0.0
    profile: Profile = field(default_factory=Profile)

    def after(self, line: Line) -> ProfileReport:
        """Return the report after one more line; unchanged if the line was counted or has nothing of use."""
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
        """Return the report after a minute alone on its devices; unchanged if the minute was counted."""
        if at <= self.minute_at or measured == Profile():
            return self
        return replace(self, minute_at=at, profile=blended(self.profile, measured))


def told_at(running_at: float) -> float:
    """Return when the first minute of an attempt that counts is over; both times in Unix seconds."""
    return (math.ceil((running_at + WARM_UP_SECONDS) / MINUTE_SECONDS) + 1) * MINUTE_SECONDS


def measured_profile(
    utilisation_percent: float | None, memory_utilisation_percent: float | None, memory_bytes: float | None
) -> Profile:
    """Return the profile that devices reported; a figure that makes no sense is left out."""

    def part(percent: float | None) -> float | None:
        return percent / 100 if percent is not None and 0 <= percent <= 100 else None

    used = memory_bytes if memory_bytes is not None and 0 < memory_bytes <= MEMORY_MOST else None
    return Profile(
        utilisation=part(utilisation_percent),
        memory_utilisation=part(memory_utilisation_percent),
        memory_bytes=None if used is None else round(used),
    )


def blended(known: Profile, newest: Profile) -> Profile:
    """Return the known profile updated with a newer measurement, figure by figure."""
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
    """Return the profile that was stored by its fields; unknown fields were left out."""
    stages = values.get("stages")
    return Profile(**{**values, "stages": None if stages is None else tuple(stages)})


def first_known(profiles: Iterable[Profile | None]) -> Profile | None:
    """Return each figure from the first profile that has it, the job's own before those of similar jobs.

    None if no profile has any figure.
    """
    known = [profile for profile in profiles if profile is not None]
    if not known:
        # As of most jobs, and a round asks about all of them.
        return None
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
