"""Pairs of largest total weight: a maximum-weight matching of a graph that is not bipartite.

J. Edmonds, "Maximum Matching and a Polyhedron with 0,1-Vertices", Journal of Research of the National Bureau
of Standards 69B, 1965. Two steps:

- *Halves*. Without the odd-set constraints, the linear program is an assignment of the vertices to
  themselves: each vertex takes a partner, or itself for none, and an edge counts half for each of its ends
  (M. Balinski, "Integer Programming: Methods, Uses, Computation", Management Science 12(3), 1965). Its cycles
  of even length are matchings; those of odd length leave one vertex unmatched.
- *Blossoms*. From each unmatched vertex a tree of alternating paths grows, with blossoms for odd cycles,
  until it meets another free vertex, or one that may become free. Few vertices are unmatched, so this takes
  less time than the assignment.

Weights are dense, as any two vertices may be paired; each step of a tree is a few operations on arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Weights are rounded to multiples of this part of the largest, so that their sums are exact.
_GRAIN = 2.0**-24
#: How often the price of each vertex is moved halfway to the least that its edges allow.
_ROUNDS = 20
_OUTER, _INNER = 1, 2


def pairs_of_most_weight(weights: Floats) -> list[tuple[int, int]]:
    """Return the pairs, each the lower vertex first, ascending, whose weights have the largest sum.

    `weights` is square and symmetric; a pair whose weight is not above 0 is never formed, and the diagonal is
    ignored. Weights are rounded to 2^-24 of the largest. Raises ValueError for weights that are not square,
    symmetric and finite.
    """
    given = np.asarray(weights, dtype=np.float64)
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(f"weights must be a square, not of shape {given.shape}")
    if not np.isfinite(given).all() or not np.array_equal(given, given.T):
        raise ValueError("weights must be finite and symmetric")
    gains = np.maximum(given, 0.0)
    np.fill_diagonal(gains, 0.0)
    most = float(gains.max(initial=0.0))
    if most == 0.0:
        return []
    gains = np.rint(gains / (most * _GRAIN)) * _GRAIN
    partner, price = _halves(gains)
    forest = _Forest(gains, price)
    forest.take(partner)
    for vertex in range(len(gains)):
        if forest.mate[vertex] < 0 and forest.price[vertex] > 0:
            forest.grow(vertex)
    return [(one, other) for one, other in enumerate(forest.mate) if one < other and given[one, other] > 0]


def _halves(gains: Floats) -> tuple[Integers, Floats]:
    """Return the partner of each vertex in the best assignment, itself for none, and prices that prove it.

    The prices of the ends of an edge are together at least its weight, and exactly that for partners.
    """
    # SciPy takes half a second to load, and most processes that know this module never match.
    from scipy.optimize import linear_sum_assignment

    # Nearly right prices save most of the work, and do not change the best assignment.
    near = gains.max(axis=1) / 2
    for _ in range(_ROUNDS):
        near = (near + (gains - near).max(axis=1)) / 2
    near = np.rint(near / _GRAIN) * _GRAIN
    _, partner = linear_sum_assignment(near[:, None] + near - gains)
    everyone = np.arange(len(gains))
    taken = gains[everyone, partner]
    # A column's price is at least that of the row's own partner plus the row's extra gain by it.
    more = gains - taken[:, None]
    column = np.zeros(len(gains))
    while True:
        raised = np.maximum(column, (column[partner][:, None] + more).max(axis=0))
        if np.array_equal(raised, column):
            break
        column = raised
    row = taken - column[partner]
    return partner, (row + column) / 2


@dataclass(slots=True, eq=False)
class _Blossom:
    """A cycle of an odd number of nodes, the one with the vertex that is matched outwards first."""

    #: Vertices, by their number, or blossoms.
    nodes: list[_Node]
    #: By position: from a vertex of that node to a vertex of the next one; every second edge is a pair.
    edges: list[tuple[int, int]]
    leaves: Integers
    price: float = 0.0


_Node = int | _Blossom


@dataclass(slots=True, eq=False)
class _Forest:
    """The pairs so far, the prices that bound any matching, and the tree that is growing."""

    gains: Floats
    price: Floats
    mate: list[int] = field(init=False)
    #: The outermost node of each vertex, the vertex itself where it is in no blossom.
    _top: list[_Node] = field(init=False)
    #: By vertex a number, the same for the vertices of one outermost node.
    _group: Integers = field(init=False)
    _groups: int = field(init=False)
    #: The free vertex that the tree grows from.
    _start: int = -1
    #: By vertex: outer, inner, or 0 outside of the tree; by outermost node the edge into it, from its parent.
    _label: NDArray[np.int8] = field(init=False)
    _way: dict[_Node, tuple[int, int]] = field(default_factory=dict)
    #: By vertex: the slack of the tightest edge from an outer vertex of another node, and that vertex.
    _slack: Floats = field(init=False)
    _nearest: Integers = field(init=False)

    def __post_init__(self) -> None:
        size = len(self.gains)
        self.mate = [-1] * size
        self._top = list(range(size))
        self._group = np.arange(size)
        self._groups = size
        self._label = np.zeros(size, dtype=np.int8)
        self._slack = np.full(size, np.inf)
        self._nearest = np.zeros(size, dtype=np.int64)

    def take(self, partner: Integers) -> None:
        """Pair every second edge of the cycles of an assignment."""
        seen = np.zeros(len(partner), dtype=bool)
        for start in range(len(partner)):
            cycle = []
            at = start
            while not seen[at]:
                seen[at] = True
                cycle.append(at)
                at = int(partner[at])
            for one, other in zip(cycle[::2], cycle[1::2], strict=False):
                self.mate[one], self.mate[other] = other, one

    def grow(self, root: int) -> None:
        """Grow a tree from a free vertex until it is paired, or another vertex may be free instead."""
        self._start = root
        self._label[:] = 0
        self._slack[:] = np.inf
        self._way.clear()
        self._make_outer(self._top[root])
        while not self._step():
            pass
        for node in dict.fromkeys([node for node in self._top if not isinstance(node, int)]):
            self._dissolve(node)

    def _step(self) -> bool:
        """Change prices as far as possible, and use the edge that becomes tight; return whether the tree is
        done.
        """
        outer = self._label == _OUTER
        lowest = int(np.where(outer, self.price, np.inf).argmin())
        # The slack between two outer vertices shrinks twice as fast; that to inner nodes does not shrink.
        reach = np.where(self._label == _INNER, np.inf, np.where(outer, self._slack / 2, self._slack))
        meeting = int(reach.argmin())
        tightest = min(
            [node for node in self._way if not isinstance(node, int) and self._is(node, _INNER)],
            key=lambda node: node.price,
            default=None,
        )
        change = min(self.price[lowest], reach[meeting], np.inf if tightest is None else tightest.price / 2)
        self._change_prices(max(change, 0.0), outer)
        if self.price[lowest] <= 0:
            self._flip(lowest, -1)
            return True
        if tightest is not None and tightest.price <= 0:
            self._expand(tightest)
            return False
        found, there = int(self._nearest[meeting]), self._top[meeting]
        if outer[meeting]:
            self._close(found, meeting)
            return False
        base = self._base(there)
        if self.mate[base] < 0:
            self._rebase(there, meeting)
            self.mate[meeting] = found
            self._flip(found, meeting)
            return True
        self._way[there] = (found, meeting)
        self._label[self._leaves(there)] = _INNER
        self._way[self._top[self.mate[base]]] = (base, self.mate[base])
        self._make_outer(self._top[self.mate[base]])
        return False

    def _change_prices(self, change: float, outer: NDArray[np.bool_]) -> None:
        if not change:
            return
        inner = self._label == _INNER
        self.price[outer] -= change
        self.price[inner] += change
        self._slack[outer] -= 2 * change
        self._slack[~outer & ~inner] -= change
        for node in self._way:
            if not isinstance(node, int):
                node.price += -2 * change if self._is(node, _INNER) else 2 * change
        root = self._top[self._start]
        if not isinstance(root, int):
            root.price += 2 * change

    def _make_outer(self, node: _Node) -> None:
        leaves = self._leaves(node)
        self._label[leaves] = _OUTER
        self._look_from(leaves)

    def _look_from(self, leaves: Integers) -> None:
        """Update the slacks by the edges of the new outer vertices."""
        slack = self.price[leaves][:, None] + self.price[None, :] - self.gains[leaves]
        slack[self._group[leaves][:, None] == self._group[None, :]] = np.inf
        best = slack.argmin(axis=0)
        least = slack[best, np.arange(len(self.price))]
        nearer = least < self._slack
        self._slack[nearer] = least[nearer]
        self._nearest[nearer] = leaves[best[nearer]]

    def _close(self, one: int, other: int) -> None:
        """Make a blossom of the cycle that an edge between outer vertices closes."""
        left, right = self._ancestors(self._top[one]), self._ancestors(self._top[other])
        while len(left) > 1 and len(right) > 1 and left[-2] == right[-2]:
            left.pop()
            right.pop()
        stem, left, right = left[-1], left[:-1], right[:-1]
        nodes = [stem, *reversed(left), *right]
        edges = [self._way[node] for node in reversed(left)]
        edges += [(one, other), *[(child, parent) for parent, child in [self._way[node] for node in right]]]
        leaves = np.concatenate([self._leaves(node) for node in nodes])
        inner = leaves[self._label[leaves] == _INNER]
        blossom = _Blossom(nodes, edges, leaves)
        way = self._way.get(stem)
        for node in nodes:
            self._way.pop(node, None)
        if way is not None:
            self._way[blossom] = way
        self._set_top(blossom)
        self._label[leaves] = _OUTER
        self._look_from(inner)
        # The nearest vertex may now be inside the blossom.
        outside = np.flatnonzero((self._label == _OUTER) & (self._group != self._group[leaves[0]]))
        self._slack[leaves] = np.inf
        if len(outside):
            slack = self.price[outside][:, None] + self.price[leaves] - self.gains[outside[:, None], leaves]
            best = slack.argmin(axis=0)
            self._slack[leaves] = slack[best, np.arange(len(leaves))]
            self._nearest[leaves] = outside[best]

    def _expand(self, blossom: _Blossom) -> None:
        """Replace an inner blossom by those of its nodes that the path takes."""
        way = self._way.pop(blossom)
        nodes, edges = blossom.nodes, blossom.edges
        self._label[blossom.leaves] = 0
        for node in nodes:
            self._set_top(node)
        at = nodes.index(self._top[way[1]])
        step = 1 if at % 2 else -1
        place, label = at, _INNER
        while True:
            node = nodes[place % len(nodes)]
            self._way[node] = way
            self._label[self._leaves(node)] = label
            if label == _OUTER:
                self._look_from(self._leaves(node))
            elif place % len(nodes) == 0:
                return
            edge = edges[(place if step == 1 else place - 1) % len(nodes)]
            way = edge if step == 1 else (edge[1], edge[0])
            place += step
            label = _OUTER if label == _INNER else _INNER

    def _flip(self, vertex: int, mate: int) -> None:
        """Pair an outer vertex with `mate` (-1: with no vertex), and flip the pairs up to the root."""
        while True:
            node = self._top[vertex]
            self._rebase(node, vertex)
            self.mate[vertex] = mate
            if node not in self._way:
                return
            inner = self._top[self._way[node][0]]
            parent, entrance = self._way[inner]
            self._rebase(inner, entrance)
            self.mate[entrance] = parent
            vertex, mate = parent, entrance

    def _rebase(self, node: _Node, vertex: int) -> None:
        """Pair the vertices of a blossom with one another so that `vertex` is free to be matched outside."""
        if isinstance(node, int) or self._base(node) == vertex:
            return
        at = next(place for place, part in enumerate(node.nodes) if vertex in self._leaves(part))
        node.nodes = node.nodes[at:] + node.nodes[:at]
        node.edges = node.edges[at:] + node.edges[:at]
        self._rebase(node.nodes[0], vertex)
        for place in range(1, len(node.nodes), 2):
            one, other = node.edges[place]
            self._rebase(node.nodes[place], one)
            self._rebase(node.nodes[place + 1], other)
            self.mate[one], self.mate[other] = other, one

    def _dissolve(self, node: _Node) -> None:
        if isinstance(node, int):
            self._set_top(node)
        elif node.price <= 0:
            for part in node.nodes:
                self._set_top(part)
                self._dissolve(part)

    def _ancestors(self, node: _Node) -> list[_Node]:
        """Return the nodes on the path to the root, this one first."""
        path = [node]
        while path[-1] in self._way:
            path.append(self._top[self._way[path[-1]][0]])
        return path

    def _set_top(self, node: _Node) -> None:
        leaves = self._leaves(node)
        for leaf in leaves.tolist():
            self._top[leaf] = node
        self._group[leaves] = self._groups
        self._groups += 1

    def _is(self, node: _Blossom, label: int) -> bool:
        return int(self._label[node.leaves[0]]) == label

    @staticmethod
    def _base(node: _Node) -> int:
        while not isinstance(node, int):
            node = node.nodes[0]
        return node

    @staticmethod
    def _leaves(node: _Node) -> Integers:
        return np.array([node]) if isinstance(node, int) else node.leaves
