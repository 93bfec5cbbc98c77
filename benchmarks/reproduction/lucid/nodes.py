"""The nodes of a virtual cluster, eight GPUs each, and where jobs go."""

from __future__ import annotations

from dataclasses import dataclass, field

GPUS_PER_NODE = 8
#: The number of the node that is lent; it is above all others.
LENT = 9999


@dataclass(slots=True, eq=False)
class Node:
    number: int
    free: int = GPUS_PER_NODE


#: Nodes and GPUs on each.
Place = list[tuple[Node, int]]


@dataclass(slots=True, eq=False)
class Nodes:
    """Nodes in the order in which they are looked at."""

    nodes: list[Node] = field(default_factory=list)
    _has_lent: bool = False

    @classmethod
    def of(cls, count: int) -> Nodes:
        return cls([Node(number) for number in range(count)])

    def place(self, gpus: int) -> Place | None:
        """Take GPUs: on the fullest node with room, or on idle nodes and a part of the next; None: no way."""
        open_nodes = [node for node in self.nodes if node.free]
        if sum([node.free for node in open_nodes]) < gpus:
            return None
        if gpus <= GPUS_PER_NODE:
            fullest = sorted(open_nodes, key=lambda node: node.free)
            fitting = [node for node in fullest if node.free >= gpus][:1]
            place = [(node, gpus) for node in fitting]
        else:
            whole, rest = divmod(gpus, GPUS_PER_NODE)
            emptiest = sorted(open_nodes, key=lambda node: -node.free)[: whole + bool(rest)]
            place = [(node, GPUS_PER_NODE) for node in emptiest[:whole]]
            place += [(node, rest) for node in emptiest[whole:]]
            if any(node.free < taken for node, taken in place):
                return None
        for node, taken in place:
            node.free -= taken
        return place or None

    def release(self, place: Place) -> None:
        for node, taken in place:
            node.free += taken

    def idle(self) -> list[Node]:
        return [node for node in self.nodes if node.free == GPUS_PER_NODE]

    def add(self) -> None:
        """Add a node under the number of one that is lent, unless there is one."""
        if all(node.number != LENT for node in self.nodes):
            self.nodes.append(Node(LENT))

    def remove(self) -> None:
        """Take away the idle node with the highest number, if there is one.

        Should that not be the one that was added, which has jobs then, this one gets its number.
        """
        idle = max(self.idle(), key=lambda node: node.number, default=None)
        if idle is None:
            return
        for node in self.nodes if self._has_lent else ():
            if node.number == LENT:
                node.number = idle.number
        self._has_lent = True
        self.nodes.remove(idle)
