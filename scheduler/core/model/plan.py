"""The output of a round: grants, placements, actions, and a reason for each waiting job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduler.core.model.auxiliary import AuxiliaryShare
from scheduler.core.model.loan_terms import MarketAction

# Code that makes a reason finds its tier beside it.
from scheduler.core.model.reason_kinds import Tier as Tier
from scheduler.core.model.reasons import TIERS
from scheduler.core.model.snapshot import AllocationId, GpuId, JobId, Memory, NodeId


class Locality(StrEnum):
    """How close together a policy wants a gang's GPUs."""

    ANY = "any"
    NODE = "node"
    RACK = "rack"


class Mode(StrEnum):
    """How the jobs of one grant use its GPUs."""

    EXCLUSIVE = "exclusive"
    PACK = "pack"
    TIME_SLICE = "time_slice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """These jobs get this many GPUs this round. Several jobs share the GPUs in the way that `mode` states."""

    jobs: tuple[JobId, ...]
    gpus: int
    #: None leaves the choice among the job's models to the placer.
    gpu_model: str | None = None
    locality: Locality = Locality.ANY
    #: Nodes of that GPU model, and how many replicas are to be on each; empty: the placer chooses.
    nodes: tuple[tuple[NodeId, int], ...] = ()
    mode: Mode = Mode.EXCLUSIVE
    #: For TIME_SLICE: how long the turn of each job is; the others are frozen in place meanwhile.
    slice_seconds: float = 60.0
    hints: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """A bid, win, payment, trade or loan of a round; deciding the round again gives the same lines."""

    #: Such as "bid", "lease", "trade"; docs/ledger.md has them all.
    kind: str
    #: The tenant that the line concerns, or the virtual cluster in the market between them; empty: all of the
    #: view.
    party: str = ""
    #: The other side, if there is one.
    counterparty: str = ""
    jobs: tuple[JobId, ...] = ()
    #: GPUs by model that the party gets, is entitled to or bids for; fractions are parts of the time.
    gpus: Mapping[str, float] = field(default_factory=dict)
    #: GPUs by model that it gives.
    given: Mapping[str, float] = field(default_factory=dict)
    #: The price, by kind: the withheld part of a lease, slow GPUs for a fast one, or millicredits for a
    #: GPU-hour.
    price: float | None = None
    #: For how long.
    seconds: float | None = None
    #: Finish-time fairness without and with it.
    rho_before: float | None = None
    rho_after: float | None = None
    #: One sentence in plain words.
    message: str = ""
    #: What else this kind has; JSON.
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A policy's answer for its view: grants, most important first, and what it wants to remember."""

    grants: tuple[Grant, ...]
    memory: Memory = field(default_factory=dict)
    #: By job: the policy's own reasons for jobs that were passed over.
    reasons: Mapping[JobId, tuple[Reason, ...]] = field(default_factory=dict)
    #: The jobs that wait, in the order in which they will be considered; those not named come last.
    queue: tuple[JobId, ...] = ()
    #: Whether running jobs that no grant names stay as they are (otherwise they stop).
    keep_running: bool = False
    #: Exceptions: running jobs that lose their GPUs; one job stands for a group that shares them.
    stops: tuple[JobId, ...] = ()
    #: By a job that runs on: waiting jobs that share its GPUs from now on. A job that finds no room there, or
    #: may not be on these nodes, waits.
    joins: Mapping[JobId, tuple[JobId, ...]] = field(default_factory=dict)
    #: Jobs that lose the GPUs that they share, and why; the jobs beside them run on.
    leaves: Mapping[JobId, str] = field(default_factory=dict)
    #: The next instant at which it would decide differently without an event; None: never.
    wake_at: float | None = None
    #: Until this instant the policy would decide exactly the same in any round without an event: neither time
    #: nor seed would change it. None: unknown. It counts only for a decision that changes nothing
    #: (`round.standing`).
    stands_until: float | None = None
    #: What was bid, won, paid or traded.
    ledger: tuple[LedgerLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Exact GPUs of one model, by task then replica; the GPUs of a replica are on one node."""

    gpu_model: str
    replicas: tuple[tuple[GpuId, ...], ...]
    #: As `Running.nodes`.
    nodes: tuple[NodeId, ...] = ()

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        return tuple([gpu for replica in self.replicas for gpu in replica])


class ActionKind(StrEnum):
    START = "start"
    RESIZE = "resize"
    MOVE = "move"
    STOP = "stop"
    REGRADE = "regrade"
    JOIN = "join"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One step from what runs to what was decided.

    START has a placement; STOP has an allocation; RESIZE and MOVE have both. REGRADE has an allocation that
    keeps its GPUs while its guarantee lapses or returns. JOIN has an allocation and its placement: the jobs
    get these GPUs beside those that run there. STOP may name only some of an allocation's jobs. Jobs that no
    action names stay as they are.
    """

    kind: ActionKind
    jobs: tuple[JobId, ...]
    virtual_cluster: str
    #: For REGRADE: whether the allocation is guaranteed from now on.
    guaranteed: bool = True
    placement: Placement | None = None
    #: Its jobs take turns of this many seconds on these GPUs; None: they use them at the same time.
    slice_seconds: float | None = None
    #: As `Running.opportunistic_gpus`, of the placement.
    opportunistic_gpus: int = 0
    allocation: AllocationId | None = None
    #: For STOP: "preempted", "cancelled", "time_limit", or "drained": a node goes back to its serving pool.
    #: For MOVE: "preempted" when it has to give way.
    #: For REGRADE: why it lapses: "cells_lost", "guarantee_lowered", "lent", "loan_ended", "downgraded"; or
    #: why it returns: "cells_back", "guarantee_back".
    cause: str = ""
    #: For both: the jobs whose placement took these GPUs, and the sentence shown to the victim.
    preempted_by: tuple[JobId, ...] = ()
    message: str = ""
    hints: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a job waits. `code` is a stable token, `message` a sentence, `hint` what would help.

    Raises:
        ValueError: the code is declared in `reasons.py`, and for other tiers.
    """

    code: str
    tier: Tier
    message: str
    #: What blocks the job: a virtual cluster, a quota line, jobs.
    blocking: Mapping[str, Any] = field(default_factory=dict)
    #: GPUs needed and available under this reason's constraint.
    needed: int | None = None
    available: int | None = None
    hint: str = ""

    def __post_init__(self) -> None:
        # A policy or placer from outside may use codes of its own, which are not declared.
        if self.tier not in TIERS.get(self.code, (self.tier,)):
            raise ValueError(f"tier: reason {self.code} has {' or '.join(TIERS[self.code])}, not {self.tier}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of a round."""

    round_number: int
    actions: tuple[Action, ...] = ()
    #: For every job that is not running after this plan, most decisive first; never empty.
    reasons: Mapping[JobId, tuple[Reason, ...]] = field(default_factory=dict)
    #: By view: the waiting jobs in the order in which they will be considered.
    queues: Mapping[str, tuple[JobId, ...]] = field(default_factory=dict)
    memory: Mapping[str, Memory] = field(default_factory=dict)
    #: The next instant at which a round is useful without an event.
    wake_at: float | None = None
    #: By view: why its policy or placer failed, so that its jobs kept what they had.
    degraded: Mapping[str, str] = field(default_factory=dict)
    #: Those of them whose policy took too long, so that a cheap one served them.
    overran: tuple[str, ...] = ()
    #: By view: what was bid, won, paid or traded; under `lending.terms.MARKET` between virtual clusters.
    ledger: Mapping[str, tuple[LedgerLine, ...]] = field(default_factory=dict)
    #: What virtual clusters do by their rules in the market between them.
    market: tuple[MarketAction, ...] = ()
    #: The CPUs and memory of each job that leaves them to the platform and runs, or is nominated, after this
    #: plan.
    shares: Mapping[JobId, AuxiliaryShare] = field(default_factory=dict)
