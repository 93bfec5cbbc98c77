"""How many nodes a serving pool lends now, and how many it asks back.

A node that is needed at a step of the load curve is asked back earlier by the time that the return may take:
the pool has it at the step. A node that will be needed within that time is not lent either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.core.model.snapshot import LENT, RETURNING, SERVING, Node, NodeId
from scheduler.core.serving_pools.load_curve import LoadCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPool:
    """A pool of nodes that answer requests, and what it needs of them."""

    name: str
    #: How long a return takes at most.
    return_seconds: float = 300.0
    #: How many nodes it needs. None: nodes are lent and asked back by name only.
    curve: LoadCurve | None = None
    #: Of nodes that are lent by name for a time: when the pool has each back.
    lent_until: Mapping[NodeId, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """What is to be done so that a pool has the nodes that it needs, and no more."""

    #: Nodes to lend, those first that were about to go back.
    lend: tuple[NodeId, ...] = ()
    #: How many of the lent nodes are asked back, to be there by that instant.
    ask_back: int = 0
    return_by: float = 0.0


def steer(pool: ServingPool, nodes: Sequence[Node], now: float) -> Steering:
    """Return what is to be done about the pool's nodes now."""
    if pool.curve is None:
        return Steering()
    states: dict[str, list[Node]] = {SERVING: [], LENT: [], RETURNING: []}
    for node in sorted(nodes, key=lambda node: node.id):
        if node.loan is not None and node.loan.pool == pool.name:
            states[node.loan.state].append(node)
    # The node that returns last has most to gain from staying.
    states[RETURNING].sort(key=lambda node: (-((node.loan and node.loan.return_by) or now), node.id))
    there = len(states[SERVING]) + len(states[RETURNING])
    ahead = pool.curve.steps_within(now, pool.return_seconds)
    needed = max([count for _, count in ahead])
    if needed < there:
        to_lend = [*states[RETURNING], *states[SERVING]][: there - needed]
        return Steering(lend=tuple([node.id for node in to_lend]))
    lacking = min(needed - there, len(states[LENT]))
    if not lacking:
        return Steering()
    first = next(instant for instant, count in ahead if count > there)
    return Steering(ask_back=lacking, return_by=first if first > now else now + pool.return_seconds)


def next_look(pool: ServingPool, now: float) -> float | None:
    """Return the next instant at which steering may come to another answer though nothing happens to nodes:
    at the next step, or earlier by the time that a return may take; None: never.
    """
    if pool.curve is None:
        return None
    step = pool.curve.next_step(now)
    # The steps so far ahead that a return begins before them.
    later = pool.curve.next_step(now + min(pool.return_seconds, 86_400))
    return min([at for at in (step, later - pool.return_seconds) if at > now], default=step)
