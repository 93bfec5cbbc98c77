"""Propose a first specification: turn hardware into cells, and guaranteed counts into owned cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.model.cell_specification import CellType, PhysicalCell, Specification, VirtualCells


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node: (socket, switch, index) of each of its GPUs, in ascending order."""

    name: str
    rack: str
    gpu_model: str
    gpus: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """All nodes with equally many GPUs of a model.

    `shape` is (sockets, switches per socket, GPUs per switch).
    """

    prefix: str
    gpu_model: str
    shape: tuple[int, int, int]
    machines: tuple[Machine, ...]

    @property
    def types(self) -> list[CellType]:
        """Return the types up to the node; a level that divides nothing is left out."""
        _, switches, gpus = self.shape
        found: list[CellType] = []
        of, inner = self.gpu_model, 1
        for name, size in (("SWITCH", gpus), ("SOCKET", gpus * switches), ("NODE", self.size)):
            if name == "NODE" or inner < size < self.size:
                kind = CellType(name=f"{self.prefix}-{name}", of=of, count=size // inner, node=name == "NODE")
                found.append(kind)
                of, inner = kind.name, size
        return found

    @property
    def size(self) -> int:
        return len(self.machines[0].gpus)

    @property
    def nodes_of_a_rack(self) -> int:
        """Return the number of nodes in each rack; 1 when racks differ, or there are no real racks."""
        by_rack = self.racks()
        sizes = {len(machines) for machines in by_rack.values()}
        return sizes.pop() if len(sizes) == 1 else 1

    def racks(self) -> dict[str, list[Machine]]:
        by_rack: dict[str, list[Machine]] = defaultdict(list)
        for machine in self.machines:
            by_rack[machine.rack].append(machine)
        return dict(sorted(by_rack.items()))


def proposed(machines: Iterable[Machine], guarantees: Mapping[str, Mapping[str, int]]) -> Specification:
    """Return the specification for these machines and these counts by virtual cluster and model.

    Levels below the node become cells if all machines of a size have the same structure; racks, if all racks
    do. Every count becomes the largest cells that it fills and that all counts together leave for it.
    """
    kinds = _kinds(machines)
    types: list[CellType] = []
    physical: list[PhysicalCell] = []
    taken: set[str] = set()
    for kind in kinds:
        types += kind.types
        if kind.nodes_of_a_rack > 1:
            rack = CellType(name=f"{kind.prefix}-RACK", of=types[-1].name, count=kind.nodes_of_a_rack)
            types.append(rack)
            groups = list(kind.racks().items())
        else:
            groups = [(machine.name, [machine]) for machine in kind.machines]
        for name, members in groups:
            name = f"{name}-{kind.prefix}" if name in taken else name
            taken.add(name)
            physical.append(_physical(types[-1].name, name, members))
    return Specification(
        types=tuple(types),
        physical=tuple(physical),
        virtual_clusters={
            name: VirtualCells(cells=cells) for name, cells in _shares(kinds, guarantees).items()
        },
    )


def _kinds(machines: Iterable[Machine]) -> list[_Kind]:
    by_size: dict[tuple[str, int], list[Machine]] = defaultdict(list)
    for machine in machines:
        by_size[machine.gpu_model, len(machine.gpus)].append(machine)
    sizes: dict[str, int] = defaultdict(int)
    for model, _ in by_size:
        sizes[model] += 1
    kinds = []
    for (model, size), members in sorted(by_size.items()):
        shapes = {_shape(machine) for machine in members}
        kinds.append(
            _Kind(
                prefix=model if sizes[model] == 1 else f"{model}-{size}",
                gpu_model=model,
                # Machines with different structures share no level below the node.
                shape=shapes.pop() if len(shapes) == 1 else (1, 1, size),
                machines=tuple(members),
            )
        )
    return kinds


def _shape(machine: Machine) -> tuple[int, int, int]:
    """Return how a machine's GPUs are spread; (1, 1, all of them) when they are spread unevenly."""
    flat = (1, 1, len(machine.gpus))
    switches: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for socket, switch, _ in machine.gpus:
        switches[socket][switch] += 1
    sizes = {gpus for inside in switches.values() for gpus in inside.values()}
    fanouts = {len(inside) for inside in switches.values()}
    if len(sizes) > 1 or len(fanouts) > 1:
        return flat
    return len(switches), fanouts.pop(), sizes.pop()


def _physical(kind: str, name: str, machines: Sequence[Machine]) -> PhysicalCell:
    in_order = {machine.name: tuple(index for *_, index in machine.gpus) for machine in machines}
    return PhysicalCell(
        type=kind,
        name=name,
        nodes=tuple(in_order),
        # Stated only where GPUs that are near to each other are not numbered consecutively.
        gpus={node: gpus for node, gpus in in_order.items() if gpus != tuple(range(len(gpus)))},
    )


def _shares(kinds: Sequence[_Kind], guarantees: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Turn counts into cells, the largest first for each virtual cluster, so that all of them fit together.

    Sizes nest: once all larger cells are given, the rest holds as many of the next size as its GPUs allow.
    """
    remaining = {(name, model): gpus for name, models in guarantees.items() for model, gpus in models.items()}
    left = {kind.prefix: kind.size * len(kind.machines) for kind in kinds}
    shares: dict[str, dict[str, int]] = defaultdict(dict)
    # Between two cells of one size, a node is the better one to own.
    for kind, cell, size, _ in sorted(_cells(kinds), key=lambda entry: (-entry[2], not entry[3], entry[1])):
        for (name, model), gpus in sorted(remaining.items()):
            if model == kind.gpu_model and (count := min(gpus, left[kind.prefix]) // size):
                shares[name][cell] = count
                remaining[name, model] -= count * size
                left[kind.prefix] -= count * size
    return dict(sorted(shares.items()))


def _cells(kinds: Sequence[_Kind]) -> Iterable[tuple[_Kind, str, int, bool]]:
    """Yield every type of cell up to the node: its kind, its name, its GPUs, whether it is a node."""
    for kind in kinds:
        # A GPU's type is its model, which several kinds of nodes may share.
        several = sum(other.gpu_model == kind.gpu_model for other in kinds) > 1
        top = f"{kind.prefix}-{'RACK' if kind.nodes_of_a_rack > 1 else 'NODE'}"
        yield kind, f"{top}/{kind.gpu_model}" if several else kind.gpu_model, 1, False
        size = 1
        for step in kind.types:
            size *= step.count
            yield kind, step.name, size, step.node
