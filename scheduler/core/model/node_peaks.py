"""What the jobs of a node use, and how much of it they are expected to use at most.

CPUs and memory that guaranteed jobs asked for and do not use may be given to opportunistic jobs as well: the
node is overcommitted. Decision 0087 states which jobs get it, and how much.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Whether what the guaranteed jobs of a virtual cluster do not use is lent: not at all, or as far as their
#: predicted peak leaves it.
OVERCOMMIT_NEVER = "never"
OVERCOMMIT_PREDICTED = "predicted"
#: The part of a node that is kept free where nothing else is said.
USUAL_MARGIN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUse:
    """What the replicas of an allocation use of one node, as newly measured."""

    allocation: int
    cpus: float
    memory_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePeak:
    """The predicted peak of guaranteed jobs of a node together. Only virtual clusters that lend what their
    jobs do not use have any, so that a node without one is not overcommitted."""

    node: int
    #: Of `allocations` together, at no time more than they ask for.
    cpus: float
    memory_bytes: float
    allocations: tuple[int, ...]
    #: The part of the node, of its CPUs as of its memory, that is not lent.
    margin: float = USUAL_MARGIN
    #: What is measured of all jobs there, by allocation.
    used: tuple[MeasuredUse, ...] = ()
