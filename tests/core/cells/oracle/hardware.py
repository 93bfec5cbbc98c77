"""The hardware of a chain, and which groups use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.core.cells.chains import Chain
from scheduler.core.cells.physical import Hardware
from scheduler.core.cells.pool import Pool
from tests.core.cells.oracle.groups import Group
from tests.core.cells.oracle.placer import Interior
from tests.core.cells.oracle.records import Record
from tests.core.cells.oracle.rooms import Rooms

#: What a GPU counts as: (not usable by opportunistic groups, in use by a guaranteed one, by another).
IDLE, GUARANTEED, OPPORTUNISTIC, RESERVED = (0, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1)


class UsedHardware(Hardware):
    """The cells of one chain, with groups on them."""

    def __init__(self, chain: Chain, pool: Pool) -> None:
        super().__init__(chain, pool)
        sizes, node = chain.sizes, chain.node_level
        self.users: list[Record | None] = [None] * len(chain.leaves)
        #: Those of them that keep their priority though their guarantee has lapsed, with their GPUs.
        self.lapsed: dict[Record, Sequence[int]] = {}
        #: GPU -> the group that gets it when its user has left.
        self.reservers: dict[int, Record] = {}
        #: Node -> a set of its idle GPUs (0 for the first).
        self.idle = [(1 << sizes[node]) - 1] * chain.count(node)
        #: The idle GPUs of the nodes; a node ranks by how many of its GPUs guaranteed groups have.
        larger = [
            (sizes[level] // sizes[node], chain.count(level)) for level in range(node + 1, chain.top + 1)
        ]
        self.rooms = Rooms([sizes[node]] * chain.count(node), larger)

    def mark(self, node: int, *, broken: bool) -> None:
        super().mark(node, broken=broken)
        (self.rooms.close if broken else self.rooms.open)(node)

    def interior(self, node: int) -> Interior:
        size, idle = self.chain.sizes[self.chain.node_level], self.idle[node]
        return Interior(self.chain.sizes[: self.chain.node_level + 1], node * size, idle, idle)

    def use(self, leaves: Sequence[int], record: Record) -> None:
        """Let a group use GPUs that nobody uses; a reservation of its own is fulfilled."""
        before = [self._kind(leaf) for leaf in leaves]
        for leaf in leaves:
            self.users[leaf] = record
            if self.reservers.get(leaf) is record:
                del self.reservers[leaf]
        if record.keeps_priority:
            self.lapsed[record] = leaves
        self._changed(leaves, before)

    def vacate(self, leaves: Sequence[int]) -> None:
        """Let GPUs be used by nobody."""
        before = [self._kind(leaf) for leaf in leaves]
        for leaf in leaves:
            user = self.users[leaf]
            if user is not None:
                self.lapsed.pop(user, None)
            self.users[leaf] = None
        self._changed(leaves, before)

    def kept_from(self, group: Group) -> int:
        """Return the set of GPUs that a guaranteed group may not have: those of lapsed ones of its own
        virtual cluster that have no lower priority."""
        return sum(
            1 << leaf
            for record, leaves in self.lapsed.items()
            if record.group.virtual_cluster == group.virtual_cluster
            and record.group.priority >= group.priority
            for leaf in leaves
        )

    def reserve(self, leaves: Sequence[int], record: Record) -> None:
        before = [self._kind(leaf) for leaf in leaves]
        for leaf in leaves:
            self.reservers[leaf] = record
        self._changed(leaves, before)

    def unreserve(self, leaves: Sequence[int], record: Record) -> None:
        """Withdraw what a group has reserved of these GPUs."""
        own = [leaf for leaf in leaves if self.reservers.get(leaf) is record]
        before = [self._kind(leaf) for leaf in own]
        for leaf in own:
            del self.reservers[leaf]
        self._changed(own, before)

    def _kind(self, leaf: int) -> tuple[int, int, int]:
        user = self.users[leaf]
        if user is None:
            return GUARANTEED if leaf in self.reservers else IDLE
        if user.guaranteed:
            return GUARANTEED
        return RESERVED if leaf in self.reservers else OPPORTUNISTIC

    def _changed(self, leaves: Iterable[int], before: Iterable[tuple[int, int, int]]) -> None:
        """Bring the counts up to date after a change of GPUs."""
        chain, size = self.chain, self.chain.sizes[self.chain.node_level]
        by_node: dict[int, list[int]] = {}
        for leaf, (taken, guaranteed, opportunistic) in zip(leaves, before, strict=True):
            taken_now, guaranteed_now, opportunistic_now = self._kind(leaf)
            node, inside = divmod(leaf, size)
            sums = by_node.setdefault(node, [0, 0])
            if taken != taken_now:
                self.idle[node] ^= 1 << inside
                sums[0] += taken - taken_now
            sums[1] += guaranteed_now - guaranteed
            if opportunistic != opportunistic_now:
                for level, counts in enumerate(self.opportunistic):
                    counts[leaf // chain.sizes[level]] += opportunistic_now - opportunistic
        for node, (free, rank) in by_node.items():
            if free or rank:
                self.rooms.change(node, free, rank)
