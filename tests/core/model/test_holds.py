"""Who holds which GPUs and who is nominated for them."""

import pytest

from scheduler.core.model.errors import SchedulingError
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.holds import GpuHolds
from scheduler.core.model.lifecycle import HoldPhase
from scheduler.core.model.snapshot import AllocationId, GpuId

HELD, NOMINATED = HoldPhase.HELD, HoldPhase.NOMINATED
GPU, OTHER = GpuId(1), GpuId(2)
FIRST, SECOND, THIRD = AllocationId(1), AllocationId(2), AllocationId(3)
GIB = 2**30


def part(request: int, gib: int = 0) -> GpuPart:
    return GpuPart(request=request, limit=request, memory_bytes=gib * GIB)


def test_a_free_gpu_is_held_at_once_and_one_in_use_has_one_nominee() -> None:
    holds = GpuHolds()
    assert holds.grant(FIRST, [GPU]) is HELD
    assert holds.grant(SECOND, [GPU]) is NOMINATED
    with pytest.raises(SchedulingError, match=r"GPU 1 is promised to allocations \[2\], not to 3"):
        holds.grant(THIRD, [GPU])
    with pytest.raises(SchedulingError, match="not free for allocation 2"):
        holds.promote(SECOND, [GPU])
    holds.release(FIRST, [GPU])
    assert holds.nominees([GPU]) == [SECOND]
    with pytest.raises(SchedulingError, match="promised"):
        holds.grant(THIRD, [GPU])
    holds.promote(SECOND, [GPU])
    assert (list(holds.holders(GPU)), holds.nominees([GPU]), holds.in_use) == ([SECOND], [], 1)


def test_a_gang_holds_all_of_its_gpus_or_waits_for_all() -> None:
    holds = GpuHolds()
    holds.grant(FIRST, [OTHER])
    assert holds.grant(SECOND, [GPU, OTHER]) is NOMINATED
    assert not holds.holders(GPU), "a free GPU is kept for the nominee, which does not hold it yet"
    assert holds.in_the_way(GPU, None, frozenset()) is NOMINATED
    holds.release(FIRST, [OTHER])
    assert holds.may_promote(SECOND, [GPU, OTHER])


def test_who_moves_waits_until_it_has_left_though_its_new_gpus_are_free() -> None:
    holds = GpuHolds()
    assert holds.grant(FIRST, [GPU], has_left=False) is NOMINATED


def test_the_gpus_of_a_node_are_released_before_those_of_others() -> None:
    holds = GpuHolds()
    holds.grant(FIRST, [GPU, OTHER])
    holds.release(FIRST, [GPU])
    assert (list(holds.holders(GPU)), list(holds.holders(OTHER))) == ([], [FIRST])


def test_parts_share_a_gpu_as_far_as_they_fit_in_compute_and_memory() -> None:
    holds = GpuHolds(lambda gpu: 16 * GIB)
    assert holds.grant(FIRST, [GPU], {GPU: part(500)}) is HELD
    assert holds.grant(SECOND, [GPU], {GPU: part(300, gib=8)}) is HELD
    assert holds.grant(THIRD, [GPU], {GPU: part(200, gib=1)}) is NOMINATED, "8 GiB in proportion, and 8"
    assert holds.in_the_way(GPU, None, frozenset()) is NOMINATED, "all of it is not what is left of it"
    holds.release(SECOND, [GPU])
    assert holds.may_promote(THIRD, [GPU])


def test_what_is_in_the_way_is_who_is_promised_a_gpu_and_who_stays_on_it() -> None:
    holds = GpuHolds()
    holds.grant(FIRST, [GPU])
    assert holds.in_the_way(GPU, None, frozenset()) is HELD
    assert holds.in_the_way(GPU, None, {FIRST}) is None
    holds.grant(SECOND, [GPU])
    assert holds.in_the_way(GPU, None, {FIRST}) is NOMINATED
