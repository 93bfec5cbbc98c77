"""A trial arrangement: the replicas of each gang by node, for one GPU model.

It counts GPUs only, so that thousands of moves cost little. With `apart`, at most one gang that spans nodes
may be on a node: two that synchronise over one link slow each other down (Pollux, OSDI'21, 4.2.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

#: Replicas of a gang by the number of the node.
Row = Mapping[int, int]
NOWHERE: Row = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The facts about a gang that are needed to find nodes for it."""

    #: GPUs of one replica.
    replica_gpus: int = 1
    #: Numbers of replicas that it can have, ascending; without 0.
    sizes: tuple[int, ...]
    #: Where it is; empty: it waits.
    base: Row = field(default_factory=dict)
    #: It stays in place, whatever is decided.
    pinned: bool = False
    #: Numbers of the nodes on which it may be; None: all.
    nodes: frozenset[int] | None = None
    #: It must be on one node.
    on_one_node: bool = False


class Arrangement:
    """Gangs on nodes; begins with those that are pinned."""

    def __init__(self, room: Sequence[int], gangs: Sequence[Gang], *, limit: int, apart: bool) -> None:
        #: GPUs left on each node, and how many more may be handed out in all.
        self.room, self.left = list(room), limit
        self.gangs, self.apart = gangs, apart
        self.rows: list[Row] = [NOWHERE] * len(gangs)
        #: By node, the latest gang over several nodes that is on it; -1: none.
        self._spread = [-1] * len(room)
        for number, gang in enumerate(gangs):
            if gang.pinned:
                self._put(number, gang.base)

    def fits(self, number: int, row: Row) -> bool:
        """Whether a gang that is nowhere now can be there."""
        gang = self.gangs[number]
        each = gang.replica_gpus
        if sum(row.values()) * each > self.left:
            return False
        for node, replicas in row.items():
            if replicas * each > self.room[node] or (gang.nodes is not None and node not in gang.nodes):
                return False
        if len(row) < 2:
            return True
        return not gang.on_one_node and not (self.apart and any(self._spread[node] >= 0 for node in row))

    def put(self, number: int, row: Row) -> None:
        """Move a gang that is not pinned; `fits` must have returned True."""
        self.remove(number)
        self._put(number, row)

    def remove(self, number: int) -> None:
        """Take a gang off its nodes."""
        row, each = self.rows[number], self.gangs[number].replica_gpus
        for node, replicas in row.items():
            self.room[node] += replicas * each
            if self._spread[node] == number:
                self._spread[node] = -1
        self.left += sum(row.values()) * each
        self.rows[number] = NOWHERE

    def most_on_one_node(self, number: int) -> int:
        """Return how many replicas of a gang one node could hold now."""
        gang = self.gangs[number]
        nodes = range(len(self.room)) if gang.nodes is None else gang.nodes
        return min(max([self.room[node] for node in nodes], default=0), self.left) // gang.replica_gpus

    def most_over_nodes(self, number: int) -> int:
        """Return how many replicas of it the nodes could hold together, where it may span them."""
        gang = self.gangs[number]
        if gang.on_one_node:
            return 0
        each = gang.replica_gpus
        return min(sum([self.room[node] // each for node in self._open(gang)]), self.left // each)

    def find(self, number: int, replicas: int) -> Row | None:
        """Return nodes for `replicas` replicas of a gang that has no nodes now: one node if any has room,
        else few.

        It prefers the nodes where the gang was, then the tightest fit.
        """
        gang = self.gangs[number]
        need = replicas * gang.replica_gpus
        if need > self.left:
            return None
        nodes = range(len(self.room)) if gang.nodes is None else sorted(gang.nodes)
        single = [node for node in nodes if self.room[node] >= need]
        if single:
            best = min(single, key=lambda node: (node not in gang.base, self.room[node]))
            return {best: replicas}
        if gang.on_one_node or replicas == 1:
            return None
        each, row, left = gang.replica_gpus, dict[int, int](), replicas
        open_nodes = [node for node in self._open(gang) if self.room[node] >= each]
        open_nodes.sort(key=lambda node: (-(self.room[node] // each), node not in gang.base))
        for position, node in enumerate(open_nodes):
            if self.room[node] // each >= left:
                # The last few replicas go to the node with the tightest fit.
                rest = [other for other in open_nodes[position:] if self.room[other] // each >= left]
                node = min(rest, key=lambda other: (self.room[other], other not in gang.base))
                row[node] = left
                return row
            row[node] = self.room[node] // each
            left -= row[node]
        return None

    def _open(self, gang: Gang) -> Iterable[int]:
        nodes = range(len(self.room)) if gang.nodes is None else sorted(gang.nodes)
        return [node for node in nodes if self._spread[node] < 0] if self.apart else nodes

    def _put(self, number: int, row: Row) -> None:
        each = self.gangs[number].replica_gpus
        for node, replicas in row.items():
            self.room[node] -= replicas * each
            if len(row) > 1:
                self._spread[node] = number
        self.left -= sum(row.values()) * each
        self.rows[number] = row


def arranged(
    room: Sequence[int],
    gangs: Sequence[Gang],
    replicas: Sequence[int],
    *,
    limit: int,
    apart: bool = False,
) -> list[Row]:
    """Return nodes for each gang, given how many replicas each is to have.

    A gang with as many replicas as before stays in place. The others choose next, the largest first. A gang
    whose replicas do not all fit gets its largest size that does.
    """
    arrangement = Arrangement(room, gangs, limit=limit, apart=apart)
    order = sorted(range(len(gangs)), key=lambda number: -replicas[number] * gangs[number].replica_gpus)
    changed = []
    for number in order:
        gang = gangs[number]
        if gang.pinned:
            continue
        same = bool(gang.base) and sum(gang.base.values()) == replicas[number]
        if same and arrangement.fits(number, gang.base):
            arrangement.put(number, gang.base)
        else:
            changed.append(number)
    for number in changed:
        for size in reversed([size for size in gangs[number].sizes if size <= replicas[number]]):
            row = arrangement.find(number, size)
            if row is not None:
                arrangement.put(number, row)
                break
    return arrangement.rows
