"""Packing is exact, and GPUs are as near together as can be; both against trying everything."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from scheduler.core.model.bits import members
from tests.core.cells.oracle.placer import pack, pick, place, shape_of
from tests.core.cells.oracle.rooms import Room, Rooms
from tests.core.cells.test_sequences import fits

SIZES = (1, 2, 4, 8)


def level_of(chosen: int) -> int:
    """Return the level of the lowest cell that contains a set of GPUs."""
    numbers = list(members(chosen))
    return next(level for level, size in enumerate(SIZES) if numbers[0] // size == numbers[-1] // size)


def test_gpus_of_a_pod_have_the_lowest_common_cell() -> None:
    dice = random.Random(1)
    for _ in range(400):
        room = dice.randrange(1, 256)
        clear = room & dice.randrange(256)
        count = dice.randint(1, room.bit_count())
        chosen = pick(SIZES, clear, room, count)
        assert chosen & ~room == 0
        assert chosen.bit_count() == count
        options = [sum(1 << n for n in some) for some in combinations(members(room), count)]
        best = min((level_of(option), (option & ~clear).bit_count()) for option in options)
        assert (level_of(chosen), (chosen & ~clear).bit_count()) == best


def test_the_fullest_cell_is_filled() -> None:
    assert pick(SIZES, 0b11110011, 0b11110011, 2) == 0b00000011
    assert pick(SIZES, 0b11110111, 0b11110111, 1) == 0b00000100
    assert pick(SIZES, 0b11110111, 0b11110111, 3) == 0b00000111
    assert pick(SIZES, 0b00001111, 0b11111111, 4) == 0b00001111
    assert pick(SIZES, 0b11110000, 0b11111111, 4) == 0b11110000


def test_there_must_be_enough() -> None:
    with pytest.raises(ValueError, match="has no 3 GPUs"):
        pick(SIZES, 0b11, 0b11, 3)


def test_packing_finds_a_way_whenever_there_is_one() -> None:
    dice = random.Random(2)
    outcomes = set()
    for _ in range(1_500):
        lefts = [dice.randint(0, 8) for _ in range(dice.randint(1, 4))]
        shape = shape_of([(dice.randint(1, 3), dice.randint(1, 6)) for _ in range(dice.randint(1, 3))])
        rooms = [Room(unit, dice.choice((0, 0, 1)), left, left) for unit, left in enumerate(lefts)]
        found = pack(shape, rooms)
        sizes = [size for size, count in shape for _ in range(count)]
        assert (found is not None) == fits(sizes, lefts), (shape, lefts)
        outcomes.add(found is None)
        if found is not None:
            assert {size: len(units) for size, units in found.items()} == dict(shape)
            for unit, left in enumerate(lefts):
                assert sum(size * units.count(unit) for size, units in found.items()) <= left
    assert outcomes == {True, False}


def test_what_is_in_use_is_taken_last() -> None:
    rooms = [Room(0, 0, 4, 0), Room(1, 0, 8, 6), Room(2, 0, 8, 4)]
    assert pack(((4, 2),), rooms) == {4: [1, 2]}


def test_a_search_without_end_is_given_up() -> None:
    """Scores of odd pods that do not quite fit: an answer soon."""
    shape = ((7, 60), (5, 60), (3, 60))
    rooms = [Room(unit, 0, 9, 9) for unit in range(110)]
    assert pack(shape, rooms) is None
    assert pack(shape, [Room(unit, 0, 9, 9) for unit in range(120)]) is not None


def test_large_cells_are_kept_whole() -> None:
    """Of nodes that are equally free, that in the rack, and row, where least is left."""
    rooms = Rooms([8] * 8, [(2, 4), (4, 2)])
    assert place(rooms, ((8, 1),)) == {8: [0]}
    rooms.change(6, -1)
    assert place(rooms, ((8, 1),)) == {8: [7]}
    rooms.change(7, -8)
    assert place(rooms, ((8, 1),)) == {8: [4]}, "no rack is begun, but the row is"
    # Nodes that are owned by themselves come before those of racks.
    assert place(Rooms([8] * 5, [(2, 2)]), ((8, 1),)) == {8: [4]}


def test_the_lowest_cell_that_holds_all_is_taken() -> None:
    rooms = Rooms([8] * 8, [(2, 4), (4, 2)])
    for unit, free in ((0, -1), (2, -8), (4, -2)):
        rooms.change(unit, free)
    assert place(rooms, ((2, 3),)) == {2: [4, 4, 4]}
    assert place(rooms, ((8, 2),)) == {8: [6, 7]}
    assert place(rooms, ((7, 2),)) == {7: [0, 1]}
    assert place(rooms, ((6, 3),)) == {6: [0, 1, 3]}
    assert place(rooms, ((6, 3),), among=0b11110111) == {6: [4, 5, 6]}
    assert place(rooms, ((8, 6),)) is None


def test_rooms_that_close_and_open() -> None:
    rooms = Rooms([8] * 4, [(2, 2)])
    rooms.close(1)
    rooms.change(1, -3)
    assert (rooms.total_free, rooms.most_free) == (24, 8)
    assert place(rooms, ((8, 2),)) == {8: [2, 3]}
    rooms.open(1)
    assert (rooms.total_free, rooms.free[1]) == (29, 5)
    assert list(rooms.cells_with(13)) == [(0, 2), (2, 2)]
    assert list(rooms.cells_with(14)) == [(2, 2)]
