"""The CPUs and memory that a node's jobs use, and their predicted peak.

CPUs and memory that guaranteed jobs asked for and do not use may be given to opportunistic jobs as well: the
node is overcommitted. Decision 0087 states which jobs get it, and how much.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Whether the unused CPUs and memory of a virtual cluster's guaranteed jobs are lent: never, or beyond their
#: predicted peak.
OVERCOMMIT_NEVER = "never"
OVERCOMMIT_PREDICTED = "predicted"
#: The default part of a node that is kept free.
USUAL_MARGIN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUse:
    """What the replicas of an allocation use of one node, as newly measured."""

    allocation: int
    cpus: float
    memory_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePeak:
    """The predicted peak of a node's guaranteed jobs together. Only virtual clusters that lend unused amounts
    have one, so a node without a peak is not overcommitted.
    """

    node: int
    #: The peak of `allocations` together, never more than they ask for.
    cpus: float
    memory_bytes: float
    allocations: tuple[int, ...]
    #: The part of the node's CPUs, and of its memory, that is not lent.
    margin: float = USUAL_MARGIN
    #: What is measured of all jobs there, by allocation.
    used: tuple[MeasuredUse, ...] = ()
