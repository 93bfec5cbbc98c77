"""Print how the rooms of the core and of the server stand on each other: `python -m scripts.structure`.

Counted from the sources alone. A *room* is a package or a module directly below `scheduler/core` or
`scheduler`; the root's own `__init__.py` is none. For the server, the core and the simulation are one room
each. An *arrow* leads from a room to another one that it imports, once however many modules do. Imports
inside functions count, and so do those for types alone.

The rooms have an order from the ground up: the core that of its import contract in `pyproject.toml`, the
server `SERVER` below. An arrow goes *upward* unless it ends below where it begins, so one between rooms of
the same row does. *Floors* are the rooms of the longest chain of the other arrows: of the graph that is left
without circles. (Were each circle taken as one room instead, opening one would add floors.) Rooms stand in a
*circle* when each of them reaches the other ones. *Fewest upward* is what the best order leaves that moving
single rooms finds from the declared one: it does not depend on the order that somebody declared.

At 40d71b0e this counts what was read by hand then: 40 rooms and 302 arrows, 14 rooms in a circle; 15, 7, 48
and 0 upward for the core. By hand the server had 13 floors and 20 upward arrows in the best order that was
found for it then; in the order of `SERVER`, which the rooms are to have, it had 10 and 35, and 19 at the
fewest.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Rooms that each room imports.
Arrows = Mapping[str, frozenset[str]]

#: From the ground: what all share, the domains in their order, the entrances.
SERVER = """
core wiring jobspec models
nodes virtual_clusters notifications telemetry jobs rounds agents forecasts
simulation management tasks urls apps migrations
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Rooms, and how they stand on each other."""

    arrows: Arrows
    #: The place of each room, from the ground.
    places: Mapping[str, int]

    @property
    def rooms(self) -> int:
        return len(self.arrows)

    @property
    def arrow_count(self) -> int:
        return sum(map(len, self.arrows.values()))

    @property
    def upward(self) -> list[tuple[str, str]]:
        return sorted(
            (room, other)
            for room, others in self.arrows.items()
            for other in others
            if self.places[other] >= self.places[room]
        )

    @property
    def floors(self) -> int:
        heights: dict[str, int] = {}
        for room in sorted(self.arrows, key=self.places.__getitem__):
            below = (other for other in self.arrows[room] if self.places[other] < self.places[room])
            heights[room] = 1 + max((heights[other] for other in below), default=0)
        return max(heights.values())

    @property
    def circles(self) -> list[list[str]]:
        reached = {room: reach(self.arrows, room) for room in self.arrows}
        circles = {
            tuple(sorted(other for other in reached[room] if room in reached[other]))
            for room in self.arrows
            if room in reached[room]
        }
        return [list(circle) for circle in sorted(circles)]

    @property
    def fewest_upward(self) -> int:
        order = sorted(self.arrows, key=lambda room: (self.places[room], room))
        fewest = len(self.upward)
        while True:
            moved = [
                [*others[:place], room, *others[place:]]
                for room in order
                for others in [[each for each in order if each != room]]
                for place in range(len(order))
            ]
            left, best = min((self._upward_in(each), each) for each in moved)
            if left >= fewest:
                return fewest
            order, fewest = best, left

    def _upward_in(self, order: Sequence[str]) -> int:
        places = {room: place for place, room in enumerate(order)}
        return sum(places[other] > places[room] for room, others in self.arrows.items() for other in others)


def reach(arrows: Arrows, room: str) -> set[str]:
    """Return the rooms that one or more arrows lead to."""
    reached: set[str] = set()
    ahead = set(arrows[room])
    while ahead:
        other = ahead.pop()
        reached.add(other)
        ahead |= arrows[other] - reached
    return reached


def arrows_below(folder: str) -> Arrows:
    """Return the rooms of a package and whom each of them imports."""
    package = folder.replace("/", ".") + "."
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        room = path.relative_to(ROOT / folder).with_suffix("").parts[0]
        if room != "__init__":
            names = imported_by(ast.parse(path.read_text()))
            others = {name.removeprefix(package).split(".")[0] for name in names if name.startswith(package)}
            found.setdefault(room, set()).update(others - {room})
    return {room: frozenset(others & found.keys()) for room, others in found.items()}


def imported_by(tree: ast.Module) -> Iterator[str]:
    """Yield the full names of all that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def core() -> Structure:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each.get("containers") == ["scheduler.core"])
    return structure_of("scheduler/core", [layer.split(" | ") for layer in reversed(layers)])


def server() -> Structure:
    return structure_of("scheduler", [[room] for room in SERVER.split()])


def structure_of(folder: str, rows: Sequence[Sequence[str]]) -> Structure:
    places = {room: place for place, row in enumerate(rows) for room in row}
    arrows = arrows_below(folder)
    if unplaced := sorted(arrows.keys() ^ places.keys()):
        raise LookupError(f"{folder} and the order of its rooms differ in {', '.join(unplaced)}")
    return Structure(arrows=arrows, places=places)


def main() -> None:
    for name, structure in (("core", core()), ("server", server())):
        print(f"{name}: {structure.rooms} rooms, {structure.floors} floors, {structure.arrow_count} arrows")
        print(f"  {len(structure.upward)} upward (the fewest in any order found: {structure.fewest_upward})")
        for room, other in structure.upward:
            print(f"    {room} -> {other}")
        for circle in structure.circles:
            print(f"  in a circle, {len(circle)} rooms: {', '.join(circle)}")


if __name__ == "__main__":
    main()
