"""What the REST API answers with, as types. Plain dictionaries at run time: a field that a newer server
adds is kept and printed by `-o json`, not dropped.

Times are ISO 8601 strings in UTC. A job specification is an open dictionary, since the server checks it
and names what is wrong far better than a type could.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict, final

from allot.market_objects import Borrowed, Lent

JobSpec = dict[str, Any]

JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Phase = Literal["waiting", "held", "planned", "starting", "running", "stopping", "ended"]

#: Jobs in these states never change again.
ENDED: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})


class Membership(TypedDict):
    name: str
    role: Literal["viewer", "member", "admin"]


class User(TypedDict):
    username: str
    email: str


class Me(TypedDict):
    user: User
    is_operator: bool
    tenants: list[Membership]
    csrf_token: str


class PlacedGpu(TypedDict):
    id: int
    index: int


class NodeShare(TypedDict):
    """What an attempt has of one node."""

    node: str
    node_id: int
    gpus: list[PlacedGpu]
    ranks: list[int]
    state: str


class AttemptTurn(TypedDict):
    """It runs while floor(Unix seconds / seconds) modulo count is its index, and is frozen otherwise."""

    index: int
    count: int
    seconds: float


class JobPreemptions(TypedDict):
    times: int
    #: Work that was done again, and the time to stop and to start.
    lost_seconds: float
    overhead_seconds: float
    #: What one costs it, as policies are told.
    cost_seconds: float | None
    short_runs: int
    may_borrow_at: str | None


class JobRunTime(TypedDict):
    """Seconds in all, at its own size, on `gpu_model`; empty: its speed is known on none."""

    declared_seconds: float | None
    #: What its steps tell; None: too few yet.
    measured_seconds: float | None
    gpu_model: str
    differs: bool
    outlasts_limit: bool


class MatchedRule(TypedDict):
    """Of the site's rules the one that a failure matched, as it was then."""

    name: str
    severity: Literal["info", "warning", "error"]
    advice: str


class Attempt(TypedDict):
    id: int
    number: int
    #: On a few GPUs, before all of them are taken for the job.
    is_trial: bool
    state: Literal["planned", "starting", "running", "stopping", "ended"]
    outcome: str | None
    gpu_model: str
    placement: list[NodeShare]
    #: None: it runs all the time.
    turn: AttemptTurn | None
    exit_code: int | None
    category: str | None
    matched_rule: MatchedRule | None
    message: str
    stop_cause: str | None
    preempted_by: list[int]
    #: Work that its end threw away, as far as is known.
    lost_seconds: float | None
    planned_at: str | None
    starting_at: str | None
    running_at: str | None
    stopping_at: str | None
    ended_at: str | None
    throughput: float | None
    step: int | None
    total_steps: int | None


class Reason(TypedDict):
    """Why a job waits, the most decisive first."""

    code: str
    tier: str
    message: str
    blocking: dict[str, Any]
    needed: Any
    available: Any
    hint: str


class Job(TypedDict):
    id: int
    name: str
    tenant: str
    virtual_cluster: str
    submitted_by: str
    state: JobState
    phase: Phase
    guarantee: Literal["guaranteed", "opportunistic"]
    priority: int
    gpus: int
    gpu_models: list[str]
    spec: JobSpec
    submitted_at: str
    started_at: str | None
    ended_at: str | None
    attempts: int
    attempt: Attempt | None
    #: It runs on as an opportunistic job, since the cells it ran on are no more.
    guarantee_lapsed: bool
    reasons: list[Reason]
    position: int | None
    exit_code: int | None
    message: str
    preemptions: int
    service_gpu_seconds: float
    labels: dict[str, str]
    cancelling: bool
    held: bool
    version: int


@final
class SubmittedJob(TypedDict):
    """The short form that a bulk submission answers with."""

    id: int
    name: str


class CheckedField(TypedDict):
    field: str
    problem: str
    expected: str


class Check(TypedDict):
    """What the server would do with a specification, without doing it."""

    ok: bool
    fields: list[CheckedField]
    warnings: list[str]
    normalised: JobSpec | None
    gpus: int
    message: str


class Prediction(TypedDict):
    """`latest` is None when it is more than 30 days ahead; `position` when it starts at once."""

    starts_at: str
    earliest: str
    latest: str | None
    assumption: str
    position: int | None
    made_at: str
    round: int


class Foreseen(TypedDict):
    """A start in a what-if answer; `why_not` when there is none."""

    starts_at: str | None
    earliest: str | None
    latest: str | None
    position: int | None
    why_not: str


class WhatIfEffect(TypedDict):
    """A job before and after; `job` is None for one that is not submitted."""

    job: int | None
    name: str
    runs_now: bool
    before: Foreseen | None
    after: Foreseen | None


class WhatIf(TypedDict):
    """A what-if question and, when its state is done, its answer."""

    id: str
    state: Literal["waiting", "running", "done", "failed"]
    problem: str
    fields: list[CheckedField]
    asked_at: str
    expires_at: str
    made_at: str | None
    round: int | None
    assumption: str
    subjects: list[WhatIfEffect]
    later: list[WhatIfEffect]
    sooner: list[WhatIfEffect]
    later_count: int
    sooner_count: int
    others_later: int
    others_sooner: int


class Why(TypedDict):
    state: JobState
    reasons: list[Reason]
    position: int | None
    queue_length: int | None
    round: int | None
    decided_at: str | None
    prediction: Prediction | None
    #: Why there is none; empty when there is.
    no_prediction: str


Event = TypedDict(
    "Event",
    {
        "id": int,
        "at": str,
        "kind": str,
        "subject": str,
        "subject_id": int,
        "from": str | None,
        "to": str | None,
        "actor": str | None,
        "message": str,
        "data": dict[str, Any],
        "job": int | None,
        "node": int | None,
        "tenant": str | None,
    },
)


class Gpu(TypedDict):
    id: int
    index: int
    socket: int
    switch: int
    healthy: bool
    problem: str
    state: Literal["free", "held", "planned"]


class NodeCheck(TypedDict):
    name: str
    verdict: Literal["ok", "warning", "failed"]
    message: str
    #: Index of the one GPU that it is about; None: the whole node.
    gpu: int | None
    #: When the verdict became what it is.
    since: str


class NodeWithdrawn(TypedDict):
    """Who cordoned or drains a node; `health` is the platform."""

    by: str
    why: str
    since: str | None
    #: The platform uncordons it when its checks are all ok again.
    returns_itself: bool


class Node(TypedDict):
    id: int
    name: str
    rack: str
    gpu_model: str | None
    address: str
    state: Literal["new", "ready", "lost"]
    cordoned: bool
    draining: bool
    drained: bool
    #: When its jobs are moved away; until then it takes only what will have ended.
    drain_deadline: str | None
    withdrawn: NodeWithdrawn | None
    health: list[NodeCheck]
    isolation: dict[str, bool]
    #: What keeps jobs without an image apart.
    isolation_level: Literal["sandbox", "landlock", "none", "unknown"]
    cpus: float
    memory_bytes: int
    agent_version: str
    lease_expires_at: str | None
    gpus: list[Gpu]
    version: int


class Member(TypedDict):
    tenant: str
    weight: float


class ModelUsage(TypedDict):
    guaranteed_in_use: int
    opportunistic_in_use: int


class Overrun(TypedDict):
    since: str
    message: str


class VirtualCluster(TypedDict):
    name: str
    title: str
    policy: str
    policy_parameters: dict[str, Any]
    placer: str
    default_time_limit_seconds: float | None
    #: An attempt that has run for less is not displaced: by a policy; by a guarantee.
    min_run_seconds: float
    reclaim_min_run_seconds: float
    #: GPUs by model that it may rely on now: its own, less what is lent, and what is borrowed.
    guaranteed: dict[str, int]
    own_guaranteed: dict[str, int]
    lent: list[Lent]
    borrowed: list[Borrowed]
    #: Owned cells by type, and addresses by the name they are pinned under; empty where GPUs are counted.
    cells: dict[str, int]
    pinned: dict[str, str]
    #: Of one's own tenants; for operators all. And how many more there are.
    members: list[Member]
    other_members: int
    usage: dict[str, ModelUsage]
    queued: int
    running: int
    #: Whether its policy means each job to have a share of each GPU model.
    has_targets: bool
    #: While a cheap policy decides, since its own takes too long.
    overrun: Overrun | None
    version: int


class PluginParameter(TypedDict):
    name: str
    #: "bool", "int", "float", "str" or "list".
    type: str
    default: Any
    choices: list[str]


class Plugin(TypedDict):
    """A policy or a placer."""

    name: str
    summary: str
    parameters: list[PluginParameter]


class Secret(TypedDict):
    """A secret for jobs; its value is never shown."""

    name: str
    #: "user": one's own; "tenant": for the jobs of all its members.
    scope: str
    created_at: str
    changed_at: str
    changed_by: str
    last_used_at: str | None


class Plugins(TypedDict):
    policies: list[Plugin]
    placers: list[Plugin]


class ClusterSettings(TypedDict):
    spare_policy: str
    spare_placer: str
    #: Jobs that policies may displace in a round; None: any number.
    preemptions_per_round: int | None
    #: How long a job may not borrow after it was preempted too early: the first time, and at most.
    backoff_seconds: float
    most_backoff_seconds: float
    #: When a running job counts as stuck that says nothing of it itself; None: never.
    idle_gpus_seconds: float | None
    idle_gpus_below_percent: float
    idle_gpus_then: Literal["warn", "stop"]
    overrun: Overrun | None


#: One of the site's rules for failures.
FailureRule = TypedDict(
    "FailureRule",
    {
        "name": str,
        "class": str,
        #: Of a class of the site's own.
        "retry": Literal["never", "again", "elsewhere"] | None,
        "says": str,
        "pattern": str,
        "exit_codes": list[int],
        "signals": list[int],
        "severity": Literal["info", "warning", "error"],
        "advice": str,
    },
)


class FailureRuleFound(TypedDict):
    rule: FailureRule | None
    layer: str
    #: Whether a job that failed so for the first time is; None where no rule matches.
    tried_again: bool | None


class GpuModel(TypedDict):
    name: str
    memory_bytes: int
    gpus: int
    gpus_free: int
    nodes: int
    price_per_hour: float


class CreatedToken(TypedDict):
    key: str
    name: str
    token: str
