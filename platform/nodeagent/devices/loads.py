"""What a device's jobs do with the machine, for devices that exist in name only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the processes of the jobs on one device do."""

    #: The part of the CPUs they asked for that they use, 0 to 1; 1 while they report progress.
    busy: float
    memory_bytes: int

    def __add__(self, other: Load) -> Load:
        busy = min(self.busy + other.busy, 1.0)
        return Load(busy=busy, memory_bytes=self.memory_bytes + other.memory_bytes)
