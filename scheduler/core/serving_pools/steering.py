"""Decide how many nodes a serving pool lends now, and how many it asks back.

A node that a step of the load curve needs is asked back ahead of the step, by the time that the return may
take, so that the pool has it at the step. For the same reason, a node needed within that time is not lent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.core.model.snapshot import LENT, RETURNING, SERVING, Node, NodeId
from scheduler.core.serving_pools.load_curve import LoadCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPool:
    """A pool of nodes that answer requests, and how many of them it needs."""

    name: str
    #: The longest time that a return takes.
    return_seconds: float = 300.0
    #: How many nodes it needs. If None, nodes are lent and asked back only by name.
    curve: LoadCurve | None = None
    #: For nodes that are lent by name for a time: when the pool has each back.
    lent_until: Mapping[NodeId, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """The actions by which a pool gets the nodes that it needs, and no more."""

    #: The nodes to lend; nodes that were about to go back come first.
    lend: tuple[NodeId, ...] = ()
    #: How many lent nodes are asked back, and when they must be there.
    ask_back: int = 0
    return_by: float = 0.0


def steer(pool: ServingPool, nodes: Sequence[Node], now: float) -> Steering:
    """Return what the pool should lend or ask back now."""
    if pool.curve is None:
        return Steering()
    states: dict[str, list[Node]] = {SERVING: [], LENT: [], RETURNING: []}
    for node in sorted(nodes, key=lambda node: node.id):
        if node.loan is not None and node.loan.pool == pool.name:
            states[node.loan.state].append(node)
    # The node with the latest return has the most to gain from staying.
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
    """Return the next instant at which steering may decide differently though no node changes, or None.

    That is the next step, or earlier by the time that a return may take.
    """
    if pool.curve is None:
        return None
    step = pool.curve.next_step(now)
    # A return for the first step beyond the time that a return takes begins that long before the step.
    later = pool.curve.next_step(now + min(pool.return_seconds, 86_400))
    return min([at for at in (step, later - pool.return_seconds) if at > now], default=step)
