"""The kinds of reasons, and the declaration of a code (`reasons`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tier(StrEnum):
    """Kinds of reasons, the most decisive first (the order of this enumeration)."""

    NEVER = "never"
    HELD = "held"
    QUOTA = "quota"
    GUARANTEE = "guarantee"
    CAPACITY = "capacity"
    TOPOLOGY = "topology"
    ORDER = "order"
    PREPARING = "preparing"


class Cause(StrEnum):
    """Why a job waited longer than it would have privately."""

    #: Enough GPUs were available, but not near enough to each other, which cells prevent.
    FRAGMENTATION = "fragmentation"
    #: Broken or cordoned hardware; the private cluster is assumed to be healthy.
    HARDWARE = "hardware"
    #: Its GPUs had to be taken back from others first.
    RECLAIM = "reclaim"
    #: Other jobs of the same virtual cluster came first here.
    ORDER = "order"
    QUOTA = "quota"
    #: GPUs of its virtual cluster were lent, or borrowed ones had returned to their owner.
    LENT = "lent"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ReasonCode:
    """One code. All texts but `field` are Markdown, for the table of docs/reasons.md."""

    code: str
    tiers: tuple[Tier, ...]
    #: Why a job that waits for this reason waits longer than in a private cluster.
    cause: Cause
    #: When it is given.
    meaning: str
    #: The keys of the reason's `blocking`, with their meaning where the name does not show it.
    blocking: str = ""
    #: The field of the specification that a person would change, where it is not the number of GPUs.
    #: `{largest}` stands for the number of the task with the most GPUs a replica, `{names}` for the list of
    #: nodes that the job gives.
    field: str = ""


def never(code: str, meaning: str, blocking: str = "", *, field: str = "") -> ReasonCode:
    """Return the code of a job that can never run."""
    return ReasonCode(code, (Tier.NEVER,), Cause.OTHER, meaning, blocking, field)


def order(code: str, meaning: str, blocking: str = "") -> ReasonCode:
    """Return the code of a job that waits since others come first."""
    return ReasonCode(code, (Tier.ORDER,), Cause.ORDER, meaning, blocking)


def waits(code: str, tier: Tier, cause: Cause, meaning: str, blocking: str = "") -> ReasonCode:
    """Return the code of a job that waits for something else."""
    return ReasonCode(code, (tier,), cause, meaning, blocking)
