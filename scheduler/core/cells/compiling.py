"""Check a specification, and number its cells."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping

from scheduler.core.cells.chains import Cell, Chain, Layout, Leaf
from scheduler.core.cells.errors import Problem, SpecificationError
from scheduler.core.cells.pool import pools_of
from scheduler.core.model.cell_specification import CellType, PhysicalCell, Specification

MOST_GPUS = 1_000_000
MOST_LEVELS = 16
MOST_PROBLEMS = 50

#: The last specifications and their layouts, because round after round asks for the same one.
_recent: deque[tuple[Specification, Layout]] = deque(maxlen=8)


def compiled(specification: Specification) -> Layout:
    """Check a specification and number its cells.

    Raises SpecificationError with everything that is wrong: types that are undefined, circular or without a
    node; hardware that is incomplete or named twice; virtual clusters that own cells of an unknown type or
    more cells than there are; cells that are pinned twice.
    """
    for known, layout in _recent:
        if known is specification:
            return layout
    layout = _Compiler(specification).layout()
    _recent.append((specification, layout))
    return layout


class _Compiler:
    def __init__(self, specification: Specification) -> None:
        self.specification = specification
        self.problems: list[Problem] = []
        self.types = {kind.name: kind for kind in specification.types}

    def layout(self) -> Layout:
        self._check_types()
        self._stop_if_wrong()
        chains = self._chains()
        self._stop_if_wrong()
        where = self._where(chains)
        layout = Layout(self.specification, chains, where, {}, {})
        owned = {
            vc: self._owned(vc, virtual.cells, chains)
            for vc, virtual in self.specification.virtual_clusters.items()
        }
        pinned = self._pinned(layout)
        self._stop_if_wrong()
        layout = Layout(self.specification, chains, where, owned, pinned)
        self.problems += shortages(layout)
        self._stop_if_wrong()
        return layout

    def _stop_if_wrong(self) -> None:
        if self.problems:
            raise SpecificationError(self.problems[:MOST_PROBLEMS])

    def _wrong(self, field: str, problem: str, hint: str = "") -> None:
        self.problems.append(Problem(field, problem, hint))

    # Types

    def _check_types(self) -> None:
        for name, times in Counter(kind.name for kind in self.specification.types).items():
            if times > 1:
                self._wrong(f"types.{name}", f"is defined {times} times")
        for kind in self.specification.types:
            where = f"types.{kind.name}"
            if not kind.name or "/" in kind.name:
                self._wrong(where, "cannot be used as a name", "a name without a slash")
            if kind.count < 1:
                self._wrong(f"{where}.count", f"{kind.count} is less than 1", "a whole number from 1")
            if not kind.of:
                self._wrong(f"{where}.of", "is missing", "the type of its parts, in the end a GPU model")
            way = self._way_down(kind.name)
            if way is None:
                self._wrong(where, "contains itself")
            elif sum(step.node for step in way) > 1:
                names = " and ".join(step.name for step in way if step.node)
                self._wrong(where, f"has several types that are nodes: {names}", "one of them")
            elif len(way) >= MOST_LEVELS:
                self._wrong(where, f"has {len(way)} levels above the GPU", f"at most {MOST_LEVELS - 1}")

    def _way_down(self, name: str) -> list[CellType] | None:
        """Return the types from this one down to the one above the GPU; None when they are circular."""
        way: list[CellType] = []
        while name in self.types:
            if self.types[name] in way:
                return None
            way.append(self.types[name])
            name = way[-1].of
        return way

    # Hardware

    def _chains(self) -> dict[str, Chain]:
        tops: dict[str, list[PhysicalCell]] = {}
        names: Counter[str] = Counter()
        for number, physical in enumerate(self.specification.physical):
            where = f"physical[{number}]"
            names[physical.name] += 1
            if not physical.name or "/" in physical.name:
                self._wrong(f"{where}.name", f"{physical.name!r} cannot be used", "a name without a slash")
            elif names[physical.name] == 2:
                self._wrong(f"{where}.name", f"there are two cells named {physical.name}", "unique names")
            way = self._way_down(physical.type)
            if not way:
                known = ", ".join(sorted(self.types)) or "none is defined"
                self._wrong(f"{where}.type", f"there is no type {physical.type}", f"one of: {known}")
            elif not any(step.node for step in way):
                self._wrong(
                    f"{where}.type",
                    f"{physical.type} contains no type that is a node",
                    "mark the type that is one machine with node: true",
                )
            else:
                self._check_nodes(where, physical, way)
                tops.setdefault(physical.type, []).append(physical)
        if self.problems:
            return {}
        chains = {name: self._chain(name, cells) for name, cells in tops.items()}
        gpus = sum(len(chain.leaves) for chain in chains.values())
        if gpus > MOST_GPUS:
            self._wrong("physical", f"has {gpus} GPUs", f"at most {MOST_GPUS}")
        return chains

    def _check_nodes(self, where: str, physical: PhysicalCell, way: list[CellType]) -> None:
        place = next(n for n, step in enumerate(way) if step.node)
        nodes, gpus = 1, 1
        for step in way[:place]:
            nodes *= step.count
        for step in way[place:]:
            gpus *= step.count
        if nodes * gpus > MOST_GPUS:
            self._wrong(f"{where}.type", f"has {nodes * gpus} GPUs", f"at most {MOST_GPUS}")
            return
        if len(physical.nodes) != nodes:
            self._wrong(
                f"{where}.nodes",
                f"{physical.name} names {len(physical.nodes)} nodes and a {physical.type} has {nodes}",
                f"exactly {nodes}",
            )
        for node, indices in physical.gpus.items():
            if node not in physical.nodes:
                self._wrong(f"{where}.gpus.{node}", "is not among the nodes of this cell")
            elif len(indices) != gpus or len(set(indices)) != gpus or min(indices, default=0) < 0:
                self._wrong(
                    f"{where}.gpus.{node}", f"{list(indices)} are not {gpus} different indices", "one a GPU"
                )

    def _chain(self, name: str, tops: list[PhysicalCell]) -> Chain:
        way = self._way_down(name)
        assert way
        kinds = list(reversed(way))
        types, fanouts, sizes = [kinds[0].of], [0], [1]
        for kind in kinds:
            types.append(kind.name)
            fanouts.append(kind.count)
            sizes.append(sizes[-1] * kind.count)
        node_level = 1 + next(n for n, kind in enumerate(kinds) if kind.node)
        leaves = [
            Leaf(node, gpu)
            for top in tops
            for node in top.nodes
            for gpu in top.gpus.get(node, range(sizes[node_level]))
        ]
        return Chain(name, tuple(types), tuple(fanouts), tuple(sizes), node_level, tuple(tops), tuple(leaves))

    def _where(self, chains: Mapping[str, Chain]) -> dict[Leaf, tuple[Chain, int]]:
        where: dict[Leaf, tuple[Chain, int]] = {}
        for chain in chains.values():
            for number, leaf in enumerate(chain.leaves):
                if leaf in where:
                    other, there = where[leaf]
                    first, second = other.address(other.top, there // other.sizes[-1]), ""
                    second = chain.address(chain.top, number // chain.sizes[-1])
                    self._wrong(
                        "physical", f"GPU {leaf.gpu} of node {leaf.node} is in {first} and in {second}"
                    )
                where[leaf] = chain, number
        return where

    # Virtual clusters

    def _owned(
        self, vc: str, cells: Mapping[str, int], chains: Mapping[str, Chain]
    ) -> dict[tuple[str, int], int]:
        owned: Counter[tuple[str, int]] = Counter()
        for path, count in cells.items():
            where = f"virtual_clusters.{vc}.cells.{path}"
            if count < 0:
                self._wrong(where, f"{count} is less than 0", "a whole number from 0")
                continue
            top, _, kind = path.rpartition("/")
            found = [
                (chain.name, chain.types.index(kind))
                for chain in chains.values()
                if kind in chain.types and top in ("", chain.name)
            ]
            if not found:
                known = sorted({kind for chain in chains.values() for kind in chain.types})
                self._wrong(where, f"the hardware has no cells of type {path}", f"one of: {', '.join(known)}")
            elif len(found) > 1:
                options = " or ".join(f"{name}/{kind}" for name, _ in found)
                self._wrong(where, f"there is {kind} in several kinds of hardware", f"{options}")
            elif count:
                owned[found[0]] += count
        return dict(sorted(owned.items()))

    def _pinned(self, layout: Layout) -> dict[str, dict[str, Cell]]:
        pinned: dict[str, dict[str, Cell]] = {}
        taken: list[tuple[str, Cell]] = []
        for vc, virtual in self.specification.virtual_clusters.items():
            pinned[vc] = {}
            for name, address in virtual.pinned.items():
                where = f"virtual_clusters.{vc}.pinned.{name}"
                cell = layout.find(address)
                if cell is None:
                    self._wrong(where, f"there is no cell at {address}", "an address such as rack-1/node-3")
                    continue
                for owner, other in taken:
                    if _overlap(layout.chains[cell.chain], cell, other):
                        there = layout.chains[other.chain].address(other.level, other.number)
                        self._wrong(where, f"{address} overlaps {there}, which is pinned to {owner}")
                taken.append((vc, cell))
                pinned[vc][name] = cell
        return pinned


def _overlap(chain: Chain, one: Cell, other: Cell) -> bool:
    if one.chain != other.chain:
        return False
    higher = max(one.level, other.level)
    return chain.above(one.level, one.number, higher) == chain.above(other.level, other.number, higher)


def shortages(layout: Layout) -> Iterator[Problem]:
    """Yield where the virtual clusters together own more cells than the hardware has, and by how many.

    It counts from the top down (HiveD, section 3.2, "initial assignment"): the cells of a level that are left
    are split into cells of the next level. Pinned cells are taken out first.
    """
    for name, pool in pools_of(layout).items():
        chain, left = layout.chains[name], 0
        for level in range(chain.top, -1, -1):
            if level < chain.top:
                left *= chain.fanouts[level + 1]
            left += pool.free[level].bit_count()
            if pool.owed[level] > left:
                kind = chain.types[level]
                owners = [
                    f"{vc} {owned[name, level]}"
                    for vc, owned in layout.owned.items()
                    if (name, level) in owned
                ]
                yield Problem(
                    f"virtual_clusters.*.cells.{kind}",
                    f"{pool.owed[level]} {kind} are {pool.owed[level] - left} too many: the hardware has"
                    f" {left} of them left ({', '.join(owners)})",
                    f"at most {left} in all",
                )
                return
            left -= pool.owed[level]
