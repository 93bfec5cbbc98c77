"""Gangs over several nodes that meet on one."""

from __future__ import annotations

from scheduler.core.model.snapshot import AllocationId
from scheduler.core.sim.crowding import Crowding

ONE, TWO, THREE = AllocationId(1), AllocationId(2), AllocationId(3)


def test_who_meets_nobody_over_nodes_keeps_its_speed() -> None:
    crowding = Crowding(0.25)
    assert crowding.come(ONE, {1, 2}) == []
    assert crowding.come(TWO, {2}) == []
    assert (crowding.factor(ONE), crowding.factor(TWO)) == (1.0, 1.0)


def test_those_that_meet_are_slower_until_one_leaves() -> None:
    crowding = Crowding(0.25)
    crowding.come(ONE, {1, 2})
    assert crowding.come(TWO, {2, 3}) == [ONE]
    assert crowding.come(THREE, {3, 4}) == []
    assert {crowding.factor(each) for each in (ONE, TWO, THREE)} == {0.75}
    assert crowding.go(TWO) == [ONE, THREE]
    assert {crowding.factor(each) for each in (ONE, TWO, THREE)} == {1.0}
    assert crowding.go(TWO) == []


def test_without_interference_nothing_is_counted() -> None:
    crowding = Crowding(0.0)
    crowding.come(ONE, {1, 2})
    assert crowding.come(TWO, {2, 3}) == []
    assert crowding.factor(ONE) == 1.0
