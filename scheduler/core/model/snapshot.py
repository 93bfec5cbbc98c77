"""The facts of one instant: everything `decide()` may know, and nothing else.

Every class is frozen and made of plain values, so that a snapshot can be stored with its round and
decided again later, bit for bit. Times are Unix seconds by the database's clock. GPU models, tenants
and virtual clusters are known by their unique names; rows that can be renamed are known by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NewType

from scheduler.core.model.auxiliary import TUNE, Auto
from scheduler.core.model.awaited import Awaited
from scheduler.core.model.cell_specification import Specification
from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.gpu_parts import SHARE_MEASURED, WHOLE_GPU, GpuPart, SharingLabels
from scheduler.core.model.interference import Branch, GroupSpeeds, PairSpeeds
from scheduler.core.model.job_array import ArrayTask
from scheduler.core.model.limits import Budget, UserLimits
from scheduler.core.model.loan_terms import Lending
from scheduler.core.model.node_peaks import OVERCOMMIT_NEVER, USUAL_MARGIN, NodePeak
from scheduler.core.model.reservations import Reservation
from scheduler.core.model.tag_constraints import TagConstraint
from scheduler.core.model.task_kind import TaskKind
from scheduler.core.model.training import Goodput, Profile, Training

JobId = NewType("JobId", int)
NodeId = NewType("NodeId", int)
GpuId = NewType("GpuId", int)
AllocationId = NewType("AllocationId", int)

#: JSON that only its policy understands; may be lost without harm.
Memory = Mapping[str, Any]

GUARANTEED = "guaranteed"
OPPORTUNISTIC = "opportunistic"
#: What becomes of a guaranteed job when its guarantee is taken: it stops, or runs on as opportunistic.
PREEMPT = "preempt"
DOWNGRADE = "downgrade"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device. `path` is its place inside the node, widest first: (socket, switch)."""

    id: GpuId
    index: int
    path: tuple[str, ...] = ()
    healthy: bool = True
    #: Memory of the device; 0: unknown, and then no memory on it is counted.
    memory_bytes: int = 0


#: Where a node of a serving pool is: with its pool, lent to the cluster, or lent and to be given back.
SERVING = "serving"
LENT = "lent"
RETURNING = "returning"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoan:
    """How things stand with a node of a serving pool, which is lent whole or not at all."""

    pool: str
    #: SERVING, LENT or RETURNING.
    state: str = SERVING
    #: For a node that is returning: when its pool has it back, and when jobs still there are stopped to
    #: be gone by then.
    return_by: float | None = None
    stops_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine with GPUs of one model, or with none. `path` is its place in the cluster, widest first:
    (rack,)."""

    id: NodeId
    name: str
    gpu_model: str
    gpus: tuple[Gpu, ...]
    path: tuple[str, ...] = ()
    #: Accepts new work: ready, neither cordoned nor lost.
    schedulable: bool = True
    #: When its jobs are moved away; until then it accepts what will have ended. None: never.
    closes_at: float | None = None
    #: None: it is the cluster's own, of no serving pool.
    loan: NodeLoan | None = None
    #: For a virtual node: the pinned cell that it is part of, given only to jobs that ask for it by name.
    pinned_cell: str = ""
    cpus: float = 0.0
    memory_bytes: int = 0
    #: Bytes a second of its storage, and bytes of it that stay in its cache; 0: not stated.
    storage_bandwidth: float = 0.0
    cache_bytes: int = 0

    @property
    def takes_work(self) -> bool:
        """Whether anything new may be started there: a node of a serving pool must be lent."""
        return self.schedulable and (self.loan is None or self.loan.state == LENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """`quota` caps the GPUs held at once, by GPU model; the key "*" caps all models together."""

    name: str
    quota: Mapping[str, int] = field(default_factory=dict)
    #: The most CPUs and bytes of memory that its jobs hold at once, as they state them; None: any number.
    quota_cpus: float | None = None
    quota_memory_bytes: int | None = None
    #: Users for whom the tenant's admins set limits.
    users: tuple[UserLimits, ...] = ()
    #: Its budget is used up, so that nothing of it is started, until the next period: None is for ever.
    budget_spent: bool = False
    budget_renewed_at: float | None = None
    #: What is left of it, for forecasts; a round needs to know no more than the above.
    budget: Budget | None = None

    @property
    def is_capped(self) -> bool:
        """Whether its jobs, or those of some user there, are limited in what they hold at once."""
        return bool(self.quota or self.users) or (self.quota_cpus, self.quota_memory_bytes) != (None, None)

    def has_spent(self, now: float) -> bool:
        """Whether its budget still holds it back."""
        return self.budget_spent and (self.budget_renewed_at is None or now < self.budget_renewed_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A tenant's share of a virtual cluster; weights are relative to the other members'."""

    tenant: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualCluster:
    """A guaranteed slice of the cluster with its own policy and placer.

    Both are named; snapshots stored by earlier versions may have "name:parameter=value,..." for a name.
    """

    name: str
    #: GPUs guaranteed, by model.
    guaranteed: Mapping[str, int] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    policy: str = "fifo"
    policy_parameters: Mapping[str, Any] = field(default_factory=dict)
    placer: str = "consolidate"
    placer_parameters: Mapping[str, Any] = field(default_factory=dict)
    #: Stands in for the time limit of a job that states none, so that reservations are finite.
    default_time_limit_seconds: float = 86_400.0
    #: An attempt that has run for less is not stopped, moved or resized by a policy.
    min_run_seconds: float = 0.0
    #: Nor, one that has run for less than this, by a virtual cluster that reclaims what it is guaranteed.
    reclaim_min_run_seconds: float = 0.0
    #: GPUs are reserved for the job that has waited longest, once that is longer than this; 0: never.
    longest_wait_seconds: float = 0.0
    #: `gpu_parts.SHARE_NEVER`, SHARE_MEASURED or SHARE_FREE.
    sharing: str = SHARE_MEASURED
    #: OVERCOMMIT_NEVER or OVERCOMMIT_PREDICTED, and the part of a node that is kept free even so.
    overcommit: str = OVERCOMMIT_NEVER
    overcommit_margin: float = USUAL_MARGIN

    def due_at(self, waiting_since: float) -> float | None:
        """Return when a job that waits since an instant has waited for too long; None: there is no bound."""
        return waiting_since + self.longest_wait_seconds if self.longest_wait_seconds > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One role in a gang: `replicas` processes, each with `gpus` GPUs that must be on one node.

    With 0 GPUs a replica takes CPUs and memory only, of any node that has them.
    """

    replicas: int
    gpus: int
    #: 0 where it is left to the platform: no job waits for it.
    cpus: float = 0.0
    memory_bytes: int = 0
    #: What each replica has of its one GPU; None: all of its GPUs.
    part: GpuPart | None = None
    #: None: the job itself says how many CPUs and how much memory.
    auto: Auto | None = None

    @property
    def milligpus(self) -> int:
        """What a replica has of GPUs, in thousandths of one."""
        return self.gpus * WHOLE_GPU if self.part is None else self.part.request


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The only nodes, by name, on which a job may start (HiveD's suggested nodes)."""

    #: Empty: all that are not to be avoided.
    only: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()

    def allow(self, node: str) -> bool:
        """Whether the job may be started on the node of this name."""
        return node not in self.avoid and (not self.only or node in self.only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Keep the gang inside one `level` (rack, node, socket, switch), as a requirement or a preference."""

    level: str
    required: bool = False


#: What an elastic job lets be done to it. RESIZABLE: it may be stopped and started with another number of
#: replicas. ADAPTIVE: the same, and its batch and learning rate follow. FIXED_WORLD: all its replicas always
#: run, and share devices where there are fewer: on a number of them that divides the replicas.
RESIZABLE = "resizable"
ADAPTIVE = "adaptive"
FIXED_WORLD = "fixed_world"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that has not ended. GPUs of a gang are always of one model."""

    id: JobId
    tenant: str
    virtual_cluster: str
    submitted_at: float
    tasks: tuple[Task, ...]
    #: The user that submitted it; empty: unknown.
    user: str = ""
    #: Jobs of a tenant that name the same search are one app, as in a search for hyper-parameters.
    search: str = ""
    #: Acceptable models, the preferred first; empty means any.
    gpu_models: tuple[str, ...] = ()
    #: Higher wins.
    priority: int = 0
    guaranteed: bool = True
    #: PREEMPT, DOWNGRADE or empty: it gives way at once to jobs of its own virtual cluster, and runs on as
    #: opportunistic when its guarantee lapses.
    on_reclaim: str = ""
    time_limit_seconds: float | None = None
    #: Not before this instant: its begin as its user said it, or back-off after a failure.
    eligible_at: float = 0.0
    #: Since when it waits, where it ran, was on hold or waited for other jobs; 0: since its submission.
    waits_since: float = 0.0
    #: What has yet to happen to other jobs before it may start.
    awaits: tuple[Awaited, ...] = ()
    array: ArrayTask | None = None
    held: bool = False
    cancelling: bool = False
    topology: Topology | None = None
    #: None: its user does not say on which nodes it is to run.
    nodes: Candidates | None = None
    #: The reservation on whose nodes alone it is to run; empty, or none that lasts: it uses none.
    reservation: str = ""
    #: Found by each round: where reservations let it be started; None: anywhere.
    reserved: Candidates | None = None
    #: The pinned cell of its virtual cluster in which it is to run, and nowhere else while it is guaranteed;
    #: empty: in any cells that are not pinned.
    pinned_cell: str = ""
    #: (least, most) GPUs of an elastic gang; None when its size is fixed. The most may be above its own size.
    elastic: tuple[int, int] | None = None
    #: RESIZABLE, ADAPTIVE or FIXED_WORLD.
    elastic_mode: str = RESIZABLE
    #: None: nothing was measured yet.
    goodput: Goodput | None = None
    #: Samples per second by GPU model, where known.
    throughput: Mapping[str, float] = field(default_factory=dict)
    #: The GPU models for which that is no more than an estimate.
    estimated: tuple[str, ...] = ()
    #: How fast its gang is over several nodes relative to near together, by GPU model, where known.
    spread_speeds: Mapping[str, float] = field(default_factory=dict)
    #: When it should have ended; None: whenever.
    deadline_at: float | None = None
    #: None: not reported, or its batch size never changes.
    training: Training | None = None
    #: (step, loss) as reported now and then, by step; empty: not reported.
    losses: tuple[tuple[float, float], ...] = ()
    #: GPU-seconds received in attempts that have ended, by GPU model; `service` adds what runs now.
    attained_service: Mapping[str, float] = field(default_factory=dict)
    #: How long it is expected to run in all at its own size, by the best source; None: unknown.
    estimate_seconds: float | None = None
    #: Its own steps give that (`pace`), on the fastest model of its throughput; otherwise it was declared.
    measured: bool = False
    #: How long jobs like it ran on average, at their own size (`perf.recurrence`); None: too few have ended,
    #: or no policy reads it.
    usual_seconds: float | None = None
    #: What the job trains (often the name of a network), under which its throughputs are known.
    application: str = ""
    #: By its own measurements, else by those of its like; None: nothing was measured.
    profile: Profile | None = None
    #: Largest tensor's part of the model; a skewed gang suffers when it is spread (Tiresias, section 3.3).
    skew: float | None = None
    #: Attempts started so far.
    attempts: int = 0
    #: Nodes on which it is not to be started: their hardware failed it, or they lack containers it needs.
    avoid: tuple[NodeId, ...] = ()
    #: Nodes that close before it will have ended.
    outlasts: tuple[NodeId, ...] = ()
    #: Seconds of work lost or spent when the job is preempted.
    preemption_cost_seconds: float = 0.0
    #: How often in a row it was preempted before it had run for the least time of its virtual cluster.
    short_runs: int = 0
    #: Not before this instant on GPUs without a guarantee: back-off after short runs.
    may_borrow_at: float = 0.0
    #: None: what starts next is the job itself.
    trial: Trial | None = None
    #: For a job that has parts of GPUs: with which jobs it shares them; None: with any.
    sharing: SharingLabels | None = None
    #: The tags by which others of its tenant count it, and those it wants near it.
    tags: tuple[str, ...] = ()
    constraints: tuple[TagConstraint, ...] = ()
    data: DataSet | None = None
    version: int = 0

    @property
    def waiting_since(self) -> float:
        """Since when it could have been started, if it does not run."""
        return max(self.submitted_at, self.eligible_at, self.waits_since)

    @property
    def gpus(self) -> int:
        """Size of the gang: the GPUs that it is on, though it may have only a part of each."""
        if len(self.tasks) == 1:  # As nearly all are, and asked several times for each job of a round.
            task = self.tasks[0]
            return task.replicas * task.gpus
        return sum([task.replicas * task.gpus for task in self.tasks])

    @property
    def is_without_gpus(self) -> bool:
        """Whether it takes CPUs and memory only."""
        for task in self.tasks:  # noqa: SIM110 As in `has_parts`.
            if task.gpus:
                return False
        return True

    @property
    def milligpus(self) -> int:
        """What the gang has of these GPUs, in thousandths of one."""
        return sum([task.replicas * task.milligpus for task in self.tasks])

    def parts_on(self, replicas: tuple[tuple[GpuId, ...], ...]) -> dict[GpuId, GpuPart]:
        """Return the part that it has of each of these GPUs, by task, then replica; none of a whole one."""
        parts = [task.part for task in self.tasks for _ in range(task.replicas)]
        return {
            gpu: part for part, gpus in zip(parts, replicas, strict=False) if part is not None for gpu in gpus
        }

    @property
    def has_parts(self) -> bool:
        """Whether it has parts of GPUs, and so may share them with others that have."""
        # Asked several times for each job of a round; a loop is the fastest way.
        for task in self.tasks:  # noqa: SIM110
            if task.part is not None:
                return True
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A run of a small part of a job, to see that it works. The facts of the job are those of its trial."""

    #: For how long it runs.
    seconds: float
    #: The job as it waits when its trial is over.
    gang: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An allocation: the GPUs that the jobs of one grant hold or are about to hold."""

    allocation: AllocationId
    jobs: tuple[JobId, ...]
    gpu_model: str
    #: By task, then replica, in the order of the job's spec: the GPUs of that replica.
    replicas: tuple[tuple[GpuId, ...], ...]
    #: By replica, where some replica has no GPUs to show its node; else empty.
    nodes: tuple[NodeId, ...] = ()
    #: "planned", as stored rounds have it: nominated, the successor on GPUs that are still being released.
    phase: Literal["held", "planned"] = "held"
    #: When the allocation was made.
    since: float = 0.0
    guaranteed: bool = True
    #: Told to stop; its GPUs come free when its nodes say so. It cannot be kept.
    stopping: bool = False
    #: Measured speed of each job relative to having these GPUs alone; empty: not measured.
    speeds: Mapping[JobId, float] = field(default_factory=dict)
    #: Seconds of a turn, in which the other jobs are frozen in place; None: they run at the same time.
    slice_seconds: float | None = None
    #: This many of its GPUs, those of its last replicas, are beyond what its virtual cluster is guaranteed.
    #: They are opportunistic: a job that reclaims them makes the gang smaller and does not stop it.
    opportunistic_gpus: int = 0
    #: When those of its jobs came that joined the others; these have the GPUs from the beginning.
    joined: Mapping[JobId, float] = field(default_factory=dict)
    #: Besides `jobs`, which stay: those that have to leave them and are still there.
    leaving: tuple[JobId, ...] = ()

    def since_of(self, job: JobId) -> float:
        """Return since when a job of it has the GPUs."""
        return self.joined.get(job, self.since)

    @property
    def base(self) -> Running:
        """The part that counts against the guarantee of its virtual cluster; all of it, as a rule."""
        if not self.opportunistic_gpus:
            return self
        kept = len(self.replicas) - self._surplus_replicas
        return self if kept == len(self.replicas) else self._part(self.replicas[:kept])

    @property
    def surplus(self) -> Running | None:
        """The part that is opportunistic, under the negative of its number; None: nothing."""
        if not self.opportunistic_gpus:
            return None
        kept = len(self.replicas) - self._surplus_replicas
        if kept == len(self.replicas):
            return None
        return replace(
            self._part(self.replicas[kept:]), allocation=AllocationId(-self.allocation), guaranteed=False
        )

    def _part(self, replicas: tuple[tuple[GpuId, ...], ...]) -> Running:
        return replace(self, replicas=replicas, opportunistic_gpus=0)

    @property
    def _surplus_replicas(self) -> int:
        if not self.replicas:
            return 0
        return min(self.opportunistic_gpus // max(map(len, self.replicas), default=1), len(self.replicas) - 1)

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        if len(self.replicas) == 1:
            return self.replicas[0]
        return tuple([gpu for replica in self.replicas for gpu in replica])

    @property
    def is_nominated(self) -> bool:
        """Whether its GPUs have yet to be released by others."""
        return self.phase == "planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All facts at one instant, in the order of their ids (so equal facts make equal bytes)."""

    round_number: int
    now: float
    round_seconds: float
    nodes: tuple[Node, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    virtual_clusters: tuple[VirtualCluster, ...] = ()
    jobs: tuple[Job, ...] = ()
    running: tuple[Running, ...] = ()
    #: By view name: what each policy remembered last time.
    memory: Mapping[str, Memory] = field(default_factory=dict)
    #: Policy and placer of the spare view, which serves the opportunistic jobs of every VC.
    spare_policy: str = "fifo"
    spare_policy_parameters: Mapping[str, Any] = field(default_factory=dict)
    spare_placer: str = "consolidate"
    spare_placer_parameters: Mapping[str, Any] = field(default_factory=dict)
    #: The most jobs that may lose their GPUs in a round because a policy prefers others; None: any number.
    preemptions_per_round: int | None = None
    #: How long a job whose last run was too short may not borrow: the first time, and at most.
    backoff_seconds: float = 30.0
    most_backoff_seconds: float = 600.0
    #: How CPUs and memory are divided among jobs that leave it to the platform (`model.auxiliary`).
    auxiliary: str = TUNE
    #: What a GPU of each model costs for an hour; one that is not named costs 1.
    prices: Mapping[str, float] = field(default_factory=dict)
    #: How much of nodes their jobs will use, where some lend what they do not use.
    peaks: tuple[NodePeak, ...] = ()
    #: How fast jobs are that share GPUs, where known.
    pair_speeds: tuple[PairSpeeds, ...] = ()
    group_speeds: tuple[GroupSpeeds, ...] = ()
    #: How fast they are expected to be by their profiles, where that was not measured; empty: unknown.
    interference: tuple[Branch, ...] = ()
    #: Those that have not ended, of whole nodes for a time.
    reservations: tuple[Reservation, ...] = ()
    #: What the jobs of the last days asked for: what is likely to come next. Empty: not counted.
    workload: tuple[TaskKind, ...] = ()
    #: How GPUs are divided by cells; None: every model is divided by counts.
    cells: Specification | None = None
    #: What virtual clusters offer, lend and borrow; None: there is no market.
    lending: Lending | None = None
    #: Names of the topology's levels, widest first, as in Node.path + (node,) + Gpu.path.
    levels: tuple[str, ...] = ("rack", "node", "socket", "switch")
