"""CPUs and memory of the nodes with replicas without GPUs, present or planned: which attempts take them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from django.db import connection

from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.model.node_peaks import NodePeak

#: CPUs are fractions, whose sums have rounding errors.
_ROUNDING = 1e-6
_NODES = """
SELECT id, cpus, memory_bytes, state = 'ready' AND NOT cordoned AND loan_state IN ('', 'lent')
FROM scheduler_node WHERE id = ANY(%s)
"""
# A part of a planned attempt counts as a promise.
_TAKEN = """
SELECT p.node_id, a.state, p.cpus, p.memory_bytes, a.allocation_id
FROM scheduler_attemptpart p JOIN scheduler_attempt a ON a.id = p.attempt_id
WHERE p.node_id = ANY(%s) AND p.state <> 'exited' AND a.state <> 'ended'
"""
_NOMINEES = """
SELECT DISTINCT a.allocation_id FROM scheduler_attempt a
JOIN scheduler_allocation l ON l.id = a.allocation_id
WHERE a.state = 'planned' AND l.phase = 'planned' AND l.nodes IS NOT NULL
      AND (%(nodes)s::bigint[] IS NULL OR EXISTS (
          SELECT 1 FROM scheduler_attemptpart p WHERE p.attempt_id = a.id AND p.node_id = ANY(%(nodes)s)))
ORDER BY a.allocation_id
"""
_OWN = """
SELECT p.node_id, sum(p.cpus), sum(p.memory_bytes)
FROM scheduler_attemptpart p JOIN scheduler_attempt a ON a.id = p.attempt_id
WHERE a.allocation_id = %s AND a.state = 'planned' GROUP BY p.node_id
"""
_LOCK_NODES = "SELECT id FROM scheduler_node WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"

#: CPUs, and bytes of memory.
Amounts = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Taken:
    #: The state of the attempt.
    state: str
    cpus: float
    memory: float
    #: 0: it is made in this round.
    allocation: int = 0


@dataclass(slots=True)
class _Node:
    cpus: float
    memory: float
    takes_work: bool
    taken: list[_Taken] = field(default_factory=list)
    #: What its guaranteed jobs will use; None: they lend nothing.
    peak: NodePeak | None = None

    def has(self, needed: Amounts, taken: Collection[_Taken], lent: Amounts = (0.0, 0.0)) -> bool:
        """Whether it has this much beside those. An amount that the node does not state is enough."""
        cpus = needed[0] + sum([each.cpus for each in taken]) - lent[0]
        memory = needed[1] + sum([each.memory for each in taken]) - lent[1]
        return (not self.cpus or cpus <= self.cpus + _ROUNDING) and (not self.memory or memory <= self.memory)

    def lent_by(self, taken: Collection[_Taken]) -> Amounts:
        """Return what those with a known peak will not use, less the margin."""
        if self.peak is None:
            return 0.0, 0.0
        lenders = [each for each in taken if each.allocation in self.peak.allocations]
        cpus = sum([each.cpus for each in lenders]) - self.peak.cpus - self.peak.margin * self.cpus
        memory = sum([each.memory for each in lenders]) - self.peak.memory_bytes
        return max(cpus, 0.0), max(memory - self.peak.margin * self.memory, 0.0)


class NodeRoom:
    """What some nodes have, and which attempts take it: those that stay, leave, or are promised."""

    def __init__(self, nodes: dict[int, _Node]) -> None:
        self._nodes = nodes

    def problem_with(self, needed: Mapping[int, Amounts], *, guaranteed: bool) -> str | None:
        """Return why this cannot be promised, not even after the leaving attempts have ended; else None.

        Only opportunistic jobs get what is lent.
        """
        for number, amounts in needed.items():
            node = self._nodes.get(number)
            if node is None or not node.takes_work:
                return f"node {number} accepts no new work any more"
            staying = [each for each in node.taken if each.state != AttemptState.STOPPING]
            if not node.has(amounts, staying, (0.0, 0.0) if guaranteed else node.lent_by(staying)):
                return f"CPUs or memory of node {number} are promised to another job"
        return None

    def waits(self, needed: Mapping[int, Amounts]) -> bool:
        """Whether leaving attempts have to end first; without any there is nothing to wait for."""
        for number, amounts in needed.items():
            node = self._nodes.get(number)
            if node is None:
                continue
            live = [each for each in node.taken if each.state != AttemptState.PLANNED]
            is_left = any([each.state == AttemptState.STOPPING for each in live])
            if is_left and not node.has(amounts, live):
                return True
        return False

    def promise(self, needed: Mapping[int, Amounts], *, is_held: bool) -> None:
        """Count what an allocation of this round takes."""
        state = AttemptState.STARTING if is_held else AttemptState.PLANNED
        for number, (cpus, memory) in needed.items():
            if number in self._nodes:
                self._nodes[number].taken.append(_Taken(state, cpus, memory))


def room_on(nodes: Collection[int], peaks: Iterable[NodePeak] = ()) -> NodeRoom:
    """Return what these nodes have; a caller that acts on it has locked them. `peaks`: by its round."""
    if not nodes:
        return NodeRoom({})
    with connection.cursor() as cursor:
        cursor.execute(_NODES, [list(nodes)])
        found = {row[0]: _Node(row[1], row[2], row[3]) for row in cursor.fetchall()}
        cursor.execute(_TAKEN, [list(nodes)])
        for node, *taken in cursor.fetchall():
            found[node].taken.append(_Taken(*taken))
    for peak in peaks:
        if peak.node in found:
            found[peak.node].peak = peak
    return NodeRoom(found)


def nominees_on(nodes: Collection[int] | None) -> list[int]:
    """Return the nominated allocations that have replicas without GPUs, and a part on one of these nodes
    (None: on any), the oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_NOMINEES, {"nodes": None if nodes is None else list(nodes)})
        return [allocation for (allocation,) in cursor.fetchall()]


def has_room(allocation: int) -> bool:
    """Whether the nodes of a nominated allocation have what it takes there, beside the leaving attempts.

    The nodes stay locked: otherwise two allocations might both find the room for one.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OWN, [allocation])
        needed = {node: (float(cpus), float(memory)) for node, cpus, memory in cursor.fetchall()}
        cursor.execute(_LOCK_NODES, [list(needed)])
    return not room_on(needed).waits(needed)
