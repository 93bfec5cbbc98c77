"""The allocations that hold GPUs or are nominated for them, as a pure machine.

A hold goes nominated -> held -> released. A round grants GPUs to an allocation. It holds them at once if they
are free and its jobs have left their old GPUs. Else it is nominated for them, and is promoted when both are
the case. A node's GPUs may be released before those of the gang's other nodes.

The live loop keeps holds in rows and asks this machine about the GPUs concerned; the simulator keeps one for
its whole cluster. So one place decides which allocation waits for which. The database guards that a whole GPU
has one holder and one nominee and that parts sum to at most one; this machine refuses the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.gpu_parts import GpuPart, fit_together
from scheduler.core.model.lifecycle import HoldPhase
from scheduler.core.model.snapshot import AllocationId, GpuId

#: The part of a GPU that each allocation has; None: all of it.
There = dict[AllocationId, GpuPart | None]
_NO_PARTS: Mapping[GpuId, GpuPart] = {}
_NOBODY: There = {}


class GpuHolds:
    """The holds of some GPUs that are not released yet.

    `parts` of an allocation are the GPUs of which it has a part; it has all of the others.
    """

    def __init__(self, device_bytes: Callable[[GpuId], int] = lambda gpu: 0) -> None:
        """`device_bytes`: the memory of a GPU; 0: unknown, and then memory is not counted."""
        self._device_bytes = device_bytes
        self._held: dict[GpuId, There] = {}
        self._nominated: dict[GpuId, There] = {}

    # Questions

    @property
    def in_use(self) -> int:
        """GPUs that an allocation holds, or a part of."""
        return len(self._held)

    def holders(self, gpu: GpuId) -> Mapping[AllocationId, GpuPart | None]:
        return self._held.get(gpu, _NOBODY)

    def nominees(self, gpus: Iterable[GpuId]) -> list[AllocationId]:
        """Return the allocations nominated for some of these GPUs, the oldest first."""
        return sorted({allocation for gpu in gpus for allocation in self._nominated.get(gpu, ())})

    def in_the_way(self, gpu: GpuId, part: GpuPart | None, leaving: Set[AllocationId]) -> HoldPhase | None:
        """Return why a GPU cannot be granted: others are nominated for it, or hold it and do not leave.

        None: it can be granted, at once or after the leaving ones.
        """
        promised = self._nominated.get(gpu, _NOBODY)
        if not self._has_room(promised, gpu, part):
            return HoldPhase.NOMINATED
        staying = {each: had for each, had in self.holders(gpu).items() if each not in leaving}
        if staying and not self._has_room({**promised, **staying}, gpu, part):
            return HoldPhase.HELD
        return None

    def may_promote(self, allocation: AllocationId, gpus: Iterable[GpuId]) -> bool:
        """Whether the holders of a nominee's GPUs leave it room; False if it is no longer nominated."""
        return all(
            allocation in (promised := self._nominated.get(gpu, _NOBODY))
            and self._has_room(self._held.get(gpu), gpu, promised[allocation])
            for gpu in gpus
        )

    # Changes

    def put(self, phase: HoldPhase, allocation: AllocationId, gpu: GpuId, part: GpuPart | None) -> None:
        """Add a hold in the given phase."""
        (self._held if phase is HoldPhase.HELD else self._nominated).setdefault(gpu, {})[allocation] = part

    def grant(
        self,
        allocation: AllocationId,
        gpus: Iterable[GpuId],
        parts: Mapping[GpuId, GpuPart] = _NO_PARTS,
        *,
        has_left: bool = True,
    ) -> HoldPhase:
        """Grant GPUs; return HELD, or NOMINATED where it has to wait. `has_left`: its jobs hold no other
        GPUs.

        Raises SchedulingError for a GPU that is promised to another allocation.
        """
        gpus = tuple(gpus)
        for gpu in gpus:
            if not self._has_room(self._nominated.get(gpu), gpu, parts.get(gpu)):
                others = sorted(self._nominated[gpu])
                raise SchedulingError(f"GPU {gpu} is promised to allocations {others}, not to {allocation}")
        is_free = has_left and all([self._has_room(self._held.get(gpu), gpu, parts.get(gpu)) for gpu in gpus])
        phase = HoldPhase.HELD if is_free else HoldPhase.NOMINATED
        for gpu in gpus:
            self.put(phase, allocation, gpu, parts.get(gpu))
        return phase

    def promote(self, allocation: AllocationId, gpus: Iterable[GpuId]) -> None:
        """Let a nominee hold its GPUs. Raises SchedulingError where one of them is not free."""
        gpus = tuple(gpus)
        if not self.may_promote(allocation, gpus):
            raise SchedulingError(f"GPUs {list(gpus)} are not free for allocation {allocation}")
        for gpu in gpus:
            self.put(HoldPhase.HELD, allocation, gpu, _taken(self._nominated, gpu, allocation))

    def release(self, allocation: AllocationId, gpus: Iterable[GpuId]) -> None:
        """Release an allocation's GPUs, or its nomination for them."""
        for gpu in gpus:
            for by_gpu in (self._held, self._nominated):
                if gpu in by_gpu:
                    _taken(by_gpu, gpu, allocation)

    def _has_room(self, there: There | None, gpu: GpuId, part: GpuPart | None) -> bool:
        if not there:
            return True
        others = [other for other in there.values() if other is not None]
        if part is None or len(others) < len(there):
            return False
        return fit_together([part, *others], self._device_bytes(gpu))


def _taken(by_gpu: dict[GpuId, There], gpu: GpuId, allocation: AllocationId) -> GpuPart | None:
    """Remove an allocation from a GPU; return what it had."""
    part = by_gpu[gpu].pop(allocation, None)
    if not by_gpu[gpu]:
        del by_gpu[gpu]
    return part
