"""Who is on each GPU, and who comes next: what the database's guards are to the live loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from scheduler.core.fitting.cards import Share, has_room
from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.snapshot import AllocationId, GpuId

#: Who is on a GPU with what part of it; None: with all of it.
_There = dict[AllocationId, Share | None]
_NO_SHARES: Mapping[GpuId, Share] = {}


class Occupancy:
    """One holder and one nominated successor a GPU, or several with parts that it has room for."""

    def __init__(self, device_bytes: Callable[[GpuId], int] = lambda gpu: 0) -> None:
        self._device_bytes = device_bytes
        self._holders: dict[GpuId, _There] = {}
        self._successors: dict[GpuId, _There] = {}

    @property
    def held(self) -> int:
        """GPUs that someone holds, or a part of."""
        return len(self._holders)

    def is_free(self, gpus: Iterable[GpuId], shares: Mapping[GpuId, Share] = _NO_SHARES) -> bool:
        """Whether nobody holds these GPUs, or who does leaves room for these shares."""
        return all([self._has_room(self._holders, gpu, shares.get(gpu)) for gpu in gpus])

    def hold(
        self, allocation: AllocationId, gpus: Iterable[GpuId], shares: Mapping[GpuId, Share] = _NO_SHARES
    ) -> None:
        """Give free GPUs to an allocation; if it was nominated for them, it no longer is."""
        for gpu in gpus:
            share, promised = shares.get(gpu), self._successors.get(gpu, {})
            promised.pop(allocation, None)
            if not promised:
                self._successors.pop(gpu, None)
            alone = share is None and promised
            if alone or None in promised.values() or not self._has_room(self._holders, gpu, share):
                raise SchedulingError(f"GPU {gpu} is not free for allocation {allocation}")
            self._holders.setdefault(gpu, {})[allocation] = share

    def nominate(
        self, allocation: AllocationId, gpus: Iterable[GpuId], shares: Mapping[GpuId, Share] = _NO_SHARES
    ) -> None:
        for gpu in gpus:
            if not self._has_room(self._successors, gpu, shares.get(gpu)):
                others = sorted(self._successors[gpu])
                raise SchedulingError(f"GPU {gpu} has two successors, {allocation} and {others}")
            self._successors.setdefault(gpu, {})[allocation] = shares.get(gpu)

    def release(self, allocation: AllocationId, gpus: Iterable[GpuId]) -> None:
        """Take the GPUs, or its nomination for them, from an allocation."""
        for gpu in gpus:
            for by_gpu in (self._holders, self._successors):
                if gpu in by_gpu:
                    by_gpu[gpu].pop(allocation, None)
                    if not by_gpu[gpu]:
                        del by_gpu[gpu]

    def successors(self, gpus: Iterable[GpuId]) -> list[AllocationId]:
        """Return who is nominated for these GPUs, in order of allocation."""
        return sorted({allocation for gpu in gpus for allocation in self._successors.get(gpu, ())})

    def _has_room(self, by_gpu: Mapping[GpuId, _There], gpu: GpuId, share: Share | None) -> bool:
        there = by_gpu.get(gpu)
        if not there:
            return True
        card = tuple([other for other in there.values() if other is not None])
        if share is None or len(card) < len(there):
            return False
        return has_room(share, card, self._device_bytes(gpu))
