"""The buddy allocator: it splits and merges, and what is owed is always there."""

from __future__ import annotations

import random

import pytest

from scheduler.core.cells.chains import Chain
from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.pool import Pool, pools_of
from scheduler.core.model.bits import members
from tests.core.cells.hierarchies import racks
from tests.core.cells.oracle.invariants import shortage

GPU, SWITCH, NODE, RACK = range(4)


def chain() -> Chain:
    return compiled(racks()).chains["V100-RACK"]


def free(pool: Pool) -> list[list[int]]:
    return [list(members(cells)) for cells in pool.free]


def test_taking_splits_and_giving_back_merges() -> None:
    pool = Pool(chain())
    assert free(pool) == [[], [], [], [0, 1, 2, 3]]
    pool.take(SWITCH, 5)
    assert free(pool) == [[], [4, 6, 7], [0], [1, 2, 3]]
    pool.take(GPU, 0)
    assert free(pool) == [[1], [1, 2, 3, 4, 6, 7], [], [1, 2, 3]]
    pool.give_back(SWITCH, 5)
    assert free(pool) == [[1], [1, 2, 3], [1], [1, 2, 3]]
    pool.give_back(GPU, 0)
    assert free(pool) == [[], [], [], [0, 1, 2, 3]]


def test_what_is_not_free_can_not_be_taken() -> None:
    pool = Pool(chain())
    pool.take(NODE, 2)
    with pytest.raises(ValueError, match="rack-1/n2/1 is not free"):
        pool.take(SWITCH, 9)
    with pytest.raises(ValueError, match="cell rack-1 is not free"):
        pool.take(RACK, 1)
    assert pool.source(SWITCH, 9) is None
    assert pool.source(SWITCH, 13) == (NODE, 3)


def test_what_is_obtainable_by_splitting() -> None:
    pool = Pool(chain())
    pool.take(SWITCH, 0)
    assert [pool.obtainable(level) for level in range(4)] == [62, 31, 7, 3]
    among = [0, 0, 0, 0b0010]
    assert [pool.obtainable(level, among) for level in range(4)] == [16, 8, 2, 1]


def test_the_smallest_free_cell_is_split() -> None:
    pool = Pool(chain())
    everything = [pool.chain.everything(level) for level in range(4)]
    pool.take(NODE, 4)
    assert pool.choose(SWITCH, [everything]) == 20  # the first switch of the rack's other node
    assert pool.choose(RACK, [everything]) == 0
    tastes = [[*everything[:2], 0, 0], everything]
    assert pool.choose(SWITCH, tastes) == 20


def test_a_larger_cell_is_split_only_while_what_is_owed_is_there() -> None:
    pool = Pool(chain())
    pool.owed[RACK] = 3
    everything = [pool.chain.everything(level) for level in range(4)]
    pool.take(NODE, 0)
    others = [everything[GPU], everything[SWITCH], everything[NODE] ^ 0b10, everything[RACK]]
    assert pool.choose(NODE, [everything], owed=False) == 1
    assert pool.choose(NODE, [others], owed=False) is None, "each of the other racks is owed"
    assert shortage(pool) is None
    pool.owed[NODE] = 2
    assert shortage(pool) == NODE
    pool.owed[RACK] = 4
    assert shortage(pool) == RACK


def test_whoever_is_owed_a_cell_gets_one_whatever_the_order() -> None:
    """HiveD's theorem, on the pools themselves."""
    specification = racks(
        a={"cells": {"V100-RACK": 1, "V100-SWITCH": 5}},
        b={"cells": {"V100-NODE": 3, "V100": 6}, "pinned": {"mine": "rack-2/n5/3"}},
    )
    dice = random.Random(0)
    for _ in range(200):
        pool = pools_of(compiled(specification))["V100-RACK"]
        start, mine = free(pool), list[tuple[int, int]]()
        everything = [pool.chain.everything(level) for level in range(4)]
        for _ in range(80):
            owed = [level for level in range(4) if pool.owed[level]]
            if owed and (not mine or dice.random() < 0.6):
                level = dice.choice(owed)
                number = pool.choose(level, [everything])
                assert number is not None
                pool.take(level, number)
                pool.owed[level] -= 1
                mine.append((level, number))
            else:
                level, number = mine.pop(dice.randrange(len(mine)))
                pool.give_back(level, number)
                pool.owed[level] += 1
            assert shortage(pool) is None
        for level, number in mine:
            pool.give_back(level, number)
        assert free(pool) == start


def test_pinned_cells_are_nobody_elses() -> None:
    pool = pools_of(compiled(racks(a={"cells": {"V100-NODE": 2}, "pinned": {"p": "rack-1/n2"}})))["V100-RACK"]
    assert free(pool) == [[], [], [3], [0, 2, 3]]
    assert pool.owed == [0, 0, 2, 0]


def test_a_copy_goes_its_own_way() -> None:
    pool = Pool(chain())
    twin = pool.copy()
    twin.take(RACK, 0)
    twin.owed[GPU] = 1
    assert (free(pool)[RACK], pool.owed[GPU]) == ([0, 1, 2, 3], 0)
