"""The two plug-in interfaces of the core: a Policy decides how many GPUs each job gets, a Placer decides
which.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Protocol

from scheduler.core.building_blocks.computing import Compute, run_inline
from scheduler.core.building_blocks.kept_orders import (
    Ends,
    KeptOrders,
    OwnRank,
    RankedLine,
    WaitingLine,
)
from scheduler.core.model.interference import Branch, GroupSpeeds, PairSpeeds
from scheduler.core.model.plan import Decision, Grant, Placement, Reason
from scheduler.core.model.snapshot import (
    Job,
    JobId,
    Member,
    Memory,
    Node,
    NodeId,
    Running,
)
from scheduler.core.model.task_kind import TaskKind

if TYPE_CHECKING:
    from scheduler.core.fitting.capacity import Capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """The jobs that constraints between tags concern, and the nodes of those that this view does not
    schedule.
    """

    #: Tenants with a job that states constraints.
    tenants: frozenset[str]
    #: Jobs of other views, with the number of their replicas on each node.
    elsewhere: Sequence[tuple[Job, Mapping[NodeId, int]]]
    #: The nodes of the hardware.
    nodes: Mapping[NodeId, Node]

    def concerns(self, job: Job) -> bool:
        """Whether the place of a job matters to constraints."""
        return bool(job.tags or job.constraints) and job.tenant in self.tenants


class Dice:
    """A generator of random numbers that is made on first use, since few policies need it."""

    __slots__ = ("_generator", "_seed")

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._generator: random.Random | None = None

    @property
    def generator(self) -> random.Random:
        if self._generator is None:
            self._generator = random.Random(self._seed)
        return self._generator


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One virtual cluster's part of the snapshot (or the spare view's); a policy sees nothing else."""

    name: str
    guaranteed: bool
    now: float
    round_seconds: float
    #: Every admitted job of this view, those that run included, by id.
    jobs: Mapping[JobId, Job]
    #: What the jobs of this view hold or are nominated for; stopping allocations are left out.
    running: Mapping[JobId, Running]
    #: The jobs that neither hold anything nor are nominated, and the elastic jobs. Both are kept from round
    #: to round, so that a round need not scan all running jobs to find them.
    waiting: Mapping[JobId, Job]
    elastic: Mapping[JobId, Job]
    members: tuple[Member, ...]
    #: Everything that this view may hand out, including the GPUs that its own jobs hold.
    capacity: Capacity
    default_time_limit_seconds: float = 86_400.0
    #: The price of a GPU-hour by model; 1 for a model that is not named.
    prices: Mapping[str, float] = field(default_factory=dict)
    #: Measured speeds of jobs that share GPUs.
    pair_speeds: Sequence[PairSpeeds] = ()
    group_speeds: Sequence[GroupSpeeds] = ()
    #: The model that predicts such speeds from profiles: read by `co_location`, for jobs that share freely.
    interference: Sequence[Branch] = ()
    #: The requests of the last days' jobs of all views; empty where they were not counted.
    workload: Sequence[TaskKind] = ()
    #: By virtual cluster: whether its jobs share GPUs (`gpu_parts.SHARE_NEVER` and so on).
    sharing: Mapping[str, str] = field(default_factory=dict)
    #: None: no constraints between tags are stated.
    tagged: Tagged | None = None
    #: Runs a computation that may take long; the result must not depend on where it runs.
    compute: Compute = run_inline
    #: Seeded from the round number and the view's name: the only randomness a policy may use.
    dice: Dice = field(default_factory=Dice)
    #: Orders of its jobs that are kept from round to round; those of a view cut out of another are not.
    orders: KeptOrders = field(default_factory=KeptOrders)

    @property
    def rng(self) -> random.Random:
        """The generator of these."""
        return self.dice.generator

    def limit_of(self, job: Job) -> float:
        """Return the time limit of a job, or the view's default."""
        limit = job.time_limit_seconds
        return self.default_time_limit_seconds if limit is None else limit

    @property
    def line(self) -> WaitingLine:
        """The waiting jobs, by priority and submission."""
        if self.orders.line is None:
            self.orders.line = WaitingLine(self.capacity.cluster, self.waiting.values())
        return self.orders.line

    @property
    def ends(self) -> Ends:
        """The running jobs, by their latest ends."""
        if self.orders.ends is None:
            holdings = self.capacity.pending.values()
            self.orders.ends = Ends(self.default_time_limit_seconds, holdings, self.jobs)
        return self.orders.ends

    def ranked(self, rank: Callable[[Job], OwnRank], terms: object) -> RankedLine:
        """Return the waiting jobs by a rank of the policy's own.

        The rank of a waiting job must depend on the job and on `terms` alone: it is kept while both stay.
        """
        line, self.orders.ranked = self.orders.ranked, None
        if line is None or line.terms != terms:
            line = RankedLine(terms)
        line.renew(self.waiting, rank)
        # Only now: should a rank fail, the next round ranks all jobs.
        self.orders.ranked = line
        return line

    def without(self, jobs: Container[JobId]) -> View:
        """Return the view without some of its jobs."""
        kept = [
            {number: job for number, job in known.items() if number not in jobs}
            for known in (self.jobs, self.waiting, self.elastic)
        ]
        return replace(self, jobs=kept[0], waiting=kept[1], elastic=kept[2], orders=KeptOrders())


class Policy(Protocol):
    """A frozen dataclass of keyword parameters with defaults; no logic in its construction."""

    def allocate(self, view: View, memory: Memory) -> Decision:
        """Return this round's grants, most important first, within the view's capacity."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a policy declares of all its decisions by attributes of these names; False where it has none."""

    #: Among jobs that differ only in number and instant of submission, it starts the earlier ones first.
    by_arrival: bool = False
    #: It never stops, moves or joins a job for one that starts.
    only_starts: bool = False
    #: It decides how many GPUs elastic jobs get.
    resizes: bool = False
    #: It reads the losses that jobs report, or how long jobs like them ran.
    reads_losses: bool = False
    reads_recurrence: bool = False
    #: It runs jobs to measure how they use GPUs.
    measures_profiles: bool = False
    #: It sets each job a target share of each GPU model.
    has_targets: bool = False

    @classmethod
    def of(cls, policy: Policy) -> Traits:
        return cls(**{each.name: bool(getattr(policy, each.name, False)) for each in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacerDecision:
    """A placer's answer for its view."""

    #: By position in the grants; a grant that cannot be placed, or should wait, is left out.
    placements: Mapping[int, Placement]
    #: By job, why the placer makes a job wait though there is room.
    reasons: Mapping[JobId, tuple[Reason, ...]] = field(default_factory=dict)
    #: The next instant at which it would place differently without an event; None: never.
    wake_at: float | None = None

    def added_to(self, decision: Decision) -> Decision:
        """Return the policy's decision with the placer's reasons before its own, and the earlier instant."""
        if not self.reasons and self.wake_at is None:
            return decision
        reasons = dict(decision.reasons)
        for job, words in self.reasons.items():
            reasons[job] = words + reasons.get(job, ())
        instants = [instant for instant in (decision.wake_at, self.wake_at) if instant is not None]
        return replace(decision, reasons=reasons, wake_at=min(instants, default=None))


class Placer(Protocol):
    """A frozen dataclass of keyword parameters with defaults; no logic in its construction."""

    def place(self, grants: Sequence[Grant], view: View, capacity: Capacity) -> PlacerDecision:
        """Return where the grants go; the first ones have the first choice.

        `capacity` shrinks as grants are placed; it knows which GPUs each job already holds.
        """
        ...
