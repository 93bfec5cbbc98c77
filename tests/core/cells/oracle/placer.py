"""Which units and which GPUs in them a group gets: packed, and as near together as possible.

HiveD's placer goes along the nodes, the fullest first, and takes the first that fit. This one takes the
fullest unit with enough room for each pod, the largest pods first, which is exact when the sizes of the pods
divide each other; where they do not, a bounded search decides what the rule of thumb has missed. Then it
looks for the lowest cell that can hold the whole group. (The published code looks for the lowest common cell
of the GPUs of a pod only.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from scheduler.core.model.bits import members as bit_members
from tests.core.cells.oracle.rooms import Room, Rooms

#: The search for pods whose sizes do not divide each other gives up after so many steps.
MOST_STEPS = 2_000

#: Sizes of pods, the largest first, and how many there are of each.
Shape = tuple[tuple[int, int], ...]
#: Size of a pod -> the units of the pods of that size.
Units = dict[int, list[int]]


class Interior(NamedTuple):
    """What is in a unit."""

    #: GPUs of a cell by level, up to the unit.
    sizes: tuple[int, ...]
    #: The number of its first GPU.
    first: int
    #: The sets (0 for the first) of GPUs that nobody uses, and that may be taken.
    clear: int
    room: int


def shape_of(members: Sequence[tuple[int, int]]) -> Shape:
    """Return the shape of a group's members; those of equal size are merged."""
    counts: Counter[int] = Counter()
    for pods, gpus in members:
        counts[gpus] += pods
    return tuple(sorted(counts.items(), reverse=True))


def place(rooms: Rooms, shape: Shape, among: int | None = None, *, clear: bool = True) -> Units | None:
    """Return units with room for every pod, near together; None when there are none.

    `among`: the set of units that may be used, all where it is None; `clear`: see Rooms.offers.
    """
    gpus = sum(size * count for size, count in shape)
    unit = _one_unit(rooms, gpus, among, clear=clear)
    if unit is not None:
        return {size: [unit] * count for size, count in shape}
    pods = sum(count for _, count in shape)
    anywhere = pack(shape, rooms.offers(shape[-1][0], pods, among, clear=clear))
    if anywhere is None or pods == 1:
        return anywhere
    for first, units in rooms.cells_with(gpus):
        inside = ((1 << units) - 1) << first
        inside = inside if among is None else inside & among
        found = pack(shape, rooms.offers(shape[-1][0], pods, inside, clear=clear))
        if found is not None:
            return found
    return anywhere


def _one_unit(rooms: Rooms, gpus: int, among: int | None, *, clear: bool) -> int | None:
    """Return the unit that is best for a whole group, or None."""
    offers = rooms.offers(gpus, 1, among, clear=clear) if gpus <= rooms.largest else []
    if not offers:
        return None
    best = min(offers, key=lambda room: (max(0, gpus - room.clear), *_order(room)))
    return rooms.snuggest(best.rank, best.left, among)


def _order(room: Room) -> tuple[int, int, int]:
    return room.rank, room.left, room.unit


def pack(shape: Shape, rooms: list[Room]) -> Units | None:
    """Distribute pods over rooms, disturbing few GPUs in use; changes the rooms."""
    lefts = None if _divisible(shape) else [room.left for room in rooms]
    found: Units = {}
    for size, count in shape:
        units: list[int] = []
        # What is not in use comes first.
        for room in sorted(rooms, key=_order):
            pods = min(count - len(units), room.clear // size)
            _take(room, size, pods, units)
        if len(units) < count:
            for room in sorted(rooms, key=lambda room: (-room.clear, *_order(room))):
                pods = min(count - len(units), room.left // size)
                _take(room, size, pods, units)
        if len(units) < count:
            return None if lefts is None else _search(shape, rooms, lefts)
        found[size] = units
    return found


def _take(room: Room, size: int, pods: int, units: list[int]) -> None:
    room.left -= pods * size
    room.clear = max(0, room.clear - pods * size)
    units += [room.unit] * pods


def _divisible(shape: Shape) -> bool:
    """Whether each size divides the next larger: then it does not matter which unit the larger pods get."""
    return all(larger % smaller == 0 for (larger, _), (smaller, _) in pairwise(shape))


def _search(shape: Shape, rooms: Sequence[Room], lefts: Sequence[int]) -> Units | None:
    """Try all ways to distribute the pods, alike rooms once."""
    sizes = [size for size, count in shape for _ in range(count)]
    left = list(lefts)
    chosen: list[int] = []
    failed: set[tuple[int, tuple[int, ...]]] = set()
    # A stack of the rooms still to be tried for each pod, since a gang can be deeper than Python's stack.
    untried = [_distinct(left, sizes[0])]
    while untried and len(failed) < MOST_STEPS:
        if not untried[-1]:
            failed.add((len(chosen), tuple(sorted(left))))
            untried.pop()
            if chosen:
                left[chosen.pop()] += sizes[len(chosen)]
            continue
        place = untried[-1].pop()
        left[place] -= sizes[len(chosen)]
        chosen.append(place)
        if len(chosen) == len(sizes):
            found: Units = {}
            for size, place in zip(sizes, chosen, strict=True):
                found.setdefault(size, []).append(rooms[place].unit)
            return found
        known = (len(chosen), tuple(sorted(left))) in failed
        untried.append([] if known else _distinct(left, sizes[len(chosen)]))
    return None


def _distinct(left: Sequence[int], size: int) -> list[int]:
    """Return a room of each amount left with enough for a pod; the fullest last, as that is tried first."""
    first = {amount: place for place, amount in reversed(list(enumerate(left))) if amount >= size}
    return [first[amount] for amount in sorted(first, reverse=True)]


def gpus_in(
    units: Units, members: Sequence[tuple[int, int]], look: Callable[[int], Interior]
) -> list[list[int]]:
    """Return the GPUs of each pod, in the order of the members."""
    interiors: dict[int, Interior] = {}
    pods: dict[int, list[list[int]]] = {}
    for size in sorted(units, reverse=True):
        for unit in units[size]:
            sizes, first, clear, room = interiors.get(unit) or look(unit)
            chosen = pick(sizes, clear, room, size)
            interiors[unit] = Interior(sizes, first, clear & ~chosen, room & ~chosen)
            pods.setdefault(size, []).append([first + inside for inside in bit_members(chosen)])
    rest = {size: iter(found) for size, found in pods.items()}
    return [next(rest[gpus]) for count, gpus in members for _ in range(count)]


@lru_cache(maxsize=1 << 16)
def pick(sizes: tuple[int, ...], clear: int, room: int, count: int) -> int:
    """Return `count` of the GPUs `room` of a unit, as near together as possible, those in `clear` first.

    `sizes`: GPUs of a cell by level, up to the unit. The lowest cell with enough room wins; among those the
    one in which fewest are in use, then the fullest, then that in the fullest larger cell. (Cached, since
    units look alike.)
    """
    for level, size in enumerate(sizes):
        options = []
        for start in range(0, sizes[-1], size):
            mask = ((1 << size) - 1) << start
            if (room & mask).bit_count() >= count:
                free = (clear & mask).bit_count()
                around = [(room & _around(start, larger)).bit_count() for larger in sizes[level:]]
                options.append((max(0, count - free), around, start, mask))
        if options:
            mask = min(options)[-1]
            first = _near(sizes[:level], clear & mask, min(count, (clear & mask).bit_count()))
            more = _near(sizes[:level], room & mask & ~clear, count - first.bit_count())
            return first | more
    raise ValueError(f"{room:b} has no {count} GPUs")


def _around(start: int, size: int) -> int:
    """Return the set of GPUs of the cell of a size that a GPU is in."""
    return ((1 << size) - 1) << start // size * size


def _near(sizes: tuple[int, ...], bits: int, count: int) -> int:
    """Return `count` of `bits`: from the fullest part that has enough, else all of the part with most."""
    chosen = 0
    while count:
        if bits.bit_count() == count or not sizes:
            return chosen | _lowest(bits, count)
        size = sizes[-1]
        parts = [
            bits & ((1 << size) - 1) << start
            for start in range(0, bits.bit_length(), size)
            if bits >> start & ((1 << size) - 1)
        ]
        enough = [part for part in parts if part.bit_count() >= count]
        if enough:
            best = min(enough, key=lambda part: (part.bit_count(), part))
            return chosen | _near(sizes[:-1], best, count)
        most = max(parts, key=lambda part: (part.bit_count(), -part))
        chosen, bits, count = chosen | most, bits ^ most, count - most.bit_count()
    return chosen


def _lowest(bits: int, count: int) -> int:
    chosen = 0
    for _ in range(count):
        lowest = bits & -bits
        chosen, bits = chosen | lowest, bits ^ lowest
    return chosen
