"""Who is on each GPU, and who comes next: what the database's two unique indexes are to the live loop."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.snapshot import AllocationId, GpuId


class Occupancy:
    """One holder and one nominated successor a GPU, never more."""

    def __init__(self) -> None:
        self._holder: dict[GpuId, AllocationId] = {}
        self._successor: dict[GpuId, AllocationId] = {}

    @property
    def held(self) -> int:
        """GPUs that someone holds."""
        return len(self._holder)

    def is_free(self, gpus: Iterable[GpuId]) -> bool:
        return self._holder.keys().isdisjoint(gpus)

    def hold(self, allocation: AllocationId, gpus: Iterable[GpuId]) -> None:
        """Give free GPUs to an allocation; if it was nominated for them, it no longer is."""
        for gpu in gpus:
            if gpu in self._holder or self._successor.get(gpu, allocation) != allocation:
                raise SchedulingError(f"GPU {gpu} is not free for allocation {allocation}")
            self._holder[gpu] = allocation
            self._successor.pop(gpu, None)

    def nominate(self, allocation: AllocationId, gpus: Iterable[GpuId]) -> None:
        for gpu in gpus:
            if gpu in self._successor:
                raise SchedulingError(
                    f"GPU {gpu} has two successors, {allocation} and {self._successor[gpu]}"
                )
            self._successor[gpu] = allocation

    def release(self, allocation: AllocationId, gpus: Iterable[GpuId]) -> None:
        """Take the GPUs, or its nomination for them, from an allocation."""
        for gpu in gpus:
            for by_gpu in (self._holder, self._successor):
                if by_gpu.get(gpu) == allocation:
                    del by_gpu[gpu]

    def successors(self, gpus: Iterable[GpuId]) -> list[AllocationId]:
        """Return who is nominated for these GPUs, in order of allocation."""
        return sorted({self._successor[gpu] for gpu in gpus if gpu in self._successor})
