"""What a round decides: grants, placements, actions, and a reason for each waiting job."""

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
    """Something that was bid, won, paid, traded or lent in a round; deciding it again gives it again."""

    #: Such as "bid", "lease", "trade"; docs/ledger.md has them all.
    kind: str
    #: The tenant whose line it is, or in the market between virtual clusters the virtual cluster; empty: it
    #: is about all in the view.
    party: str = ""
    #: The other side, if there is one.
    counterparty: str = ""
    jobs: tuple[JobId, ...] = ()
    #: GPUs by model that the party gets, is entitled to or bids for; fractions are parts of the time.
    gpus: Mapping[str, float] = field(default_factory=dict)
    #: GPUs by model that it gives.
    given: Mapping[str, float] = field(default_factory=dict)
    #: What is paid: the part of a lease that is withheld, slow GPUs for a fast one, or millicredits for a GPU
    #: and an hour, as the kind says.
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
    #: Words for jobs that were passed over, by job: the policy's own reasons.
    reasons: Mapping[JobId, tuple[Reason, ...]] = field(default_factory=dict)
    #: The jobs that wait, in the order in which they will be considered; those not named come last.
    queue: tuple[JobId, ...] = ()
    #: What runs and is named in no grant stays as it is (otherwise it is stopped).
    keep_running: bool = False
    #: Except these: running jobs that lose their GPUs; one job stands for a group that shares them.
    stops: tuple[JobId, ...] = ()
    #: By a job that runs on: jobs that wait and get its GPUs beside it. A job that finds no room there, or
    #: may not be on these nodes, waits.
    joins: Mapping[JobId, tuple[JobId, ...]] = field(default_factory=dict)
    #: Jobs that lose the GPUs that they share, and why; the jobs beside them run on.
    leaves: Mapping[JobId, str] = field(default_factory=dict)
    #: The next instant at which it would decide otherwise though nothing happened; None: it never would.
    wake_at: float | None = None
    #: The policy would say the very same at each instant before this one, though in another round, if nothing
    #: happened: neither time nor seed would change a word. None: it does not know of any such instant. Only a
    #: decision that gives and takes nothing is believed (`round.standing`).
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
    get these GPUs beside those that run there. STOP may name some of an allocation's jobs only. What is not
    named in any action stays as it is.
    """

    kind: ActionKind
    jobs: tuple[JobId, ...]
    virtual_cluster: str
    #: For REGRADE: what the allocation is from now on.
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
    #: What stands in the way: a virtual cluster, a quota line, jobs.
    blocking: Mapping[str, Any] = field(default_factory=dict)
    #: GPUs needed and available under this reason's constraint.
    needed: int | None = None
    available: int | None = None
    hint: str = ""

    def __post_init__(self) -> None:
        # A policy or a placer from outside may give codes of its own, which are declared nowhere.
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
    #: The next instant at which a round is worth while though nothing happened.
    wake_at: float | None = None
    #: By view: why its policy or placer failed and its jobs merely kept what they had.
    degraded: Mapping[str, str] = field(default_factory=dict)
    #: Those of them whose policy took too long, and that were served by a cheap one.
    overran: tuple[str, ...] = ()
    #: By view: what was bid, won, paid or traded; under `lending.terms.MARKET` between virtual clusters.
    ledger: Mapping[str, tuple[LedgerLine, ...]] = field(default_factory=dict)
    #: What virtual clusters do by their rules in the market between them.
    market: tuple[MarketAction, ...] = ()
    #: What CPUs and memory each job has from now on that runs after this plan, or is nominated, and leaves
    #: them to the platform.
    shares: Mapping[JobId, AuxiliaryShare] = field(default_factory=dict)
