"""What the REST API answers and takes, as types: made from docs/api/openapi.yaml by `make schema`.

Plain dictionaries at run time: a field that a newer server adds is kept and printed by `-o json`, not
dropped. Times are ISO 8601 strings in UTC.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class ActionRefusal(TypedDict):
    job: int
    message: str


class AddressAnswer(TypedDict):
    address: str
    confirmation_sent: bool


class AddressInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    address: str


class AddressTokenRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    token: str


class AdviceCurvePoint(TypedDict):
    """One assignment of cells that was tried."""

    cells: dict[str, int]
    gpus: int
    delay_mean_seconds: float


class AdviceFigures(TypedDict):
    """
    Figures of an assignment. Delays are those in a private cluster; in the shared cluster, cells can only
    shorten them.
    """

    gpus: int
    delay_mean_seconds: float
    utilisation: float
    cost_per_day: float | None
    cells: dict[str, int]
    delay_p95_seconds: float


KeepItem: TypeAlias = str


class AdviceQuestionRequest(TypedDict):
    """Conditions for the advice. Fields that are left out set no condition."""

    days: NotRequired[float]
    budget_gpus: NotRequired[dict[str, int]]
    price_per_gpu_hour: NotRequired[dict[str, float]]
    minimum: NotRequired[dict[str, dict[str, int]]]
    keep: NotRequired[list[KeepItem]]


class AdviceRow(TypedDict):
    virtual_cluster: str
    jobs: int
    today: AdviceFigures
    advised: AdviceFigures
    why: str


class AdviceTotals(TypedDict):
    gpus: int
    delay_mean_seconds: float
    utilisation: float
    cost_per_day: float | None


class AdviceTotalsBoth(TypedDict):
    today: AdviceTotals
    advised: AdviceTotals


class AgentSetUp(TypedDict):
    file: str
    command: str
    real: dict[str, Any]
    simulated: dict[str, Any]


class AllowanceInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    credits: float
    every_seconds: int


AnomaliesStateEnum: TypeAlias = Literal['never', 'waiting', 'done', 'failed']


class ArrayTask(TypedDict):
    number: int
    index: int
    size: int
    at_most: int | None


ArtefactKindEnum: TypeAlias = Literal['file', 'folder', 'link', 'other']


AttemptOutcomeEnum: TypeAlias = Literal['succeeded', 'failed', 'preempted', 'cancelled', 'lost']


AttemptState: TypeAlias = Literal['planned', 'starting', 'running', 'stopping', 'ended']


class AttemptTurn(TypedDict):
    index: int
    count: int
    seconds: float


AuditEntryKindEnum: TypeAlias = Literal['user', 'token', 'node', 'system', 'database', 'nobody']


AuditEntryOutcomeEnum: TypeAlias = Literal['done', 'refused']


AuxiliaryEnum: TypeAlias = Literal['proportional', 'greedy', 'tune']


BlankEnum: TypeAlias = Literal['']


BudgetAction: TypeAlias = Literal['warn', 'hold']


ByEnum: TypeAlias = Literal['tenant', 'user', 'virtual_cluster', 'gpu_model', 'application', 'day']


CauseEnum: TypeAlias = Literal['fragmentation', 'hardware', 'reclaim', 'order', 'quota', 'lent', 'other']


class CellEffect(TypedDict):
    virtual_cluster: str
    running: int
    lapsing: int
    jobs: list[int]


CellNodeStateEnum: TypeAlias = Literal['free', 'used', 'opportunistic', 'bad', 'mixed']


CellOnLoan = TypedDict(
    'CellOnLoan',
    {
        'until': str,
        'from': str,
    },
)


class CellType(TypedDict):
    of: str
    count: int
    node: NotRequired[bool]


class CellTypeRequest(TypedDict):
    of: str
    count: int
    node: NotRequired[bool]


class ChainCells(TypedDict):
    """Counts of cells at one level: total = free + used + bad."""

    level: int
    type: str
    total: int
    free: int
    used: int
    bad: int
    owned: int
    doomed: int


class ChainType(TypedDict):
    name: str
    level: int
    gpus: int
    is_node: bool


class Checkpoint(TypedDict):
    """The time in which a job can save its state before it stops."""

    grace_seconds: NotRequired[int]


class CheckpointRequest(TypedDict):
    """The time in which a job can save its state before it stops."""

    grace_seconds: NotRequired[int | None]


class ChosenPlugin(TypedDict):
    """A policy or placer with its parameters."""

    name: str
    parameters: dict[str, Any]


class ChosenPluginRequest(TypedDict):
    """A policy or placer with its parameters."""

    name: str
    parameters: NotRequired[dict[str, Any]]


class Code(TypedDict):
    """The initial content of each replica's working folder: an archive, or a commit of a git repository."""

    archive: NotRequired[str | None]
    git: NotRequired[str | None]
    commit: NotRequired[str | None]


class CodeRequest(TypedDict):
    """The initial content of each replica's working folder: an archive, or a commit of a git repository."""

    archive: NotRequired[str | None]
    git: NotRequired[str | None]
    commit: NotRequired[str | None]


class ComparisonQuestionRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    hours: NotRequired[float]


class CorrectionInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    tenant: str
    application: str
    gpu_model: str
    gpus: int
    spread: NotRequired[bool]
    partner: NotRequired[str]
    value: float
    reason: NotRequired[str]


class CreditAllowance(TypedDict):
    credits: float
    every_seconds: int
    next_at: str


class DataSet(TypedDict):
    """Data that a job reads. Jobs of a tenant that name the same data set read the same bytes."""

    name: str
    size: int
    bandwidth: NotRequired[int]


class DataSetRequest(TypedDict):
    """Data that a job reads. Jobs of a tenant that name the same data set read the same bytes."""

    name: str
    size: str | int
    bandwidth: NotRequired[str | int | None]


DeactivationJobsEnum: TypeAlias = Literal['hold', 'cancel']


class DeactivationRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    jobs: NotRequired[DeactivationJobsEnum]
    dry_run: NotRequired[bool]


class DelayPoint(TypedDict):
    """Mean delays of the jobs submitted between this point and the next."""

    at: str
    real_seconds: float
    private_seconds: float


class Delays(TypedDict):
    """Queueing delays: from submission to the first GPU."""

    real_mean_seconds: float
    private_mean_seconds: float
    real_p95_seconds: float
    private_p95_seconds: float


DeliveryState: TypeAlias = Literal['waiting', 'delivered', 'given_up']


DependencyStateEnum: TypeAlias = Literal['awaited', 'met', 'never']


class DrainInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    deadline_seconds: NotRequired[float]
    until: NotRequired[str]
    why: NotRequired[str]


class DroppedAction(TypedDict):
    kind: str
    jobs: list[int]
    why: str
    position: NotRequired[int]


ElasticMode: TypeAlias = Literal['resizable', 'adaptive', 'fixed_world']


class ElasticRequest(TypedDict):
    """A job that can run on fewer GPUs, or on more."""

    min_gpus: NotRequired[int | None]
    max_gpus: NotRequired[int | None]
    mode: NotRequired[ElasticMode | None]


class ElasticityFigures(TypedDict):
    """Results of one simulation."""

    mean_completion_seconds: float
    mean_wait_seconds: float
    gpu_hours: float
    resizes: int


class ElasticityQuestionRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    days: NotRequired[float]


EmailEnum: TypeAlias = Literal['start', 'end', 'failure', 'preemption']


EnforcementEnum: TypeAlias = Literal['enforced', 'cooperative', 'placement_only']


Event = TypedDict(
    'Event',
    {
        'id': int,
        'at': str,
        'kind': str,
        'subject': str,
        'subject_id': int,
        'to': str,
        'actor': str,
        'message': str,
        'data': dict[str, Any],
        'job': int | None,
        'job_name': str | None,
        'node': int | None,
        'node_name': str | None,
        'tenant': str | None,
        'from': str,
    },
)


class FailureRulesTrialRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    rules: NotRequired[Any]
    log: str
    exit_code: NotRequired[int]


class FairnessMinute(TypedDict):
    at: str
    tenant: str
    entitled: float
    received: float
    rho_worst: float | None
    rho_mean: float | None
    envy: float
    borrowed: float
    lent: float
    traded: float
    paid: float
    gain: float | None
    gpu_fraction: float | None


class FieldError(TypedDict):
    field: str
    problem: str
    expected: str


class FieldProblem(TypedDict):
    field: str
    problem: str
    expected: str


class FragmentationPoint(TypedDict):
    at: str
    idle: float
    fragmented: float


class FragmentedKind(TypedDict):
    gpus: float
    cpus: float
    gpu_models: list[str]
    frequency: float
    usable: float


class FragmentedNode(TypedDict):
    name: str
    idle: float
    fragmented: float


class GpuCounts(TypedDict):
    total: int
    healthy: int
    held: int
    planned: int
    free: int


class GpuModelUsage(TypedDict):
    guaranteed_in_use: int
    opportunistic_in_use: int


GpuState: TypeAlias = Literal['free', 'held', 'planned']


class GrantInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    credits: float
    reason: NotRequired[str]


GuaranteeEnum: TypeAlias = Literal['guaranteed', 'opportunistic']


class Held(TypedDict):
    gpus: dict[str, float]
    cpus: float
    memory_bytes: int


class IdleGpus(TypedDict):
    """When idle GPUs mean that it is stuck; null: the site's rule."""

    seconds: NotRequired[float | None]
    below_percent: NotRequired[float]


class IdleGpusRequest(TypedDict):
    """When idle GPUs mean that it is stuck; null: the site's rule."""

    seconds: NotRequired[str | float | None]
    below_percent: NotRequired[float | None]


class ImportInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    tenant: str
    content: str
    dry_run: NotRequired[bool]
    reason: NotRequired[str]


class InputWorkers(TypedDict):
    """Processes that prepare batches for the job while it runs, on CPUs and memory of any node."""

    command: list[str]
    min: NotRequired[int]
    max: NotRequired[int]
    cpu: NotRequired[float]
    memory: NotRequired[int]
    shared: NotRequired[bool]


class InputWorkersRequest(TypedDict):
    """Processes that prepare batches for the job while it runs, on CPUs and memory of any node."""

    command: str | list[str]
    min: NotRequired[int | None]
    max: NotRequired[int | None]
    cpu: NotRequired[float | None]
    memory: NotRequired[str | int | None]
    shared: NotRequired[bool | None]


class Interference(TypedDict):
    least_pairs: int
    pairs: int
    error: float | None
    error_of_mean: float | None
    fitted_at: str | None
    rules: list[str]


class InvitationSecretRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    invitation: str


IsolationLevelEnum: TypeAlias = Literal['sandbox', 'landlock', 'none', 'unknown']


class JobArray(TypedDict):
    """The same job for many indices. Each index is a separate job, which reads it in $ALLOT_ARRAY_INDEX."""

    indices: str
    at_most: NotRequired[int | None]


class JobArrayRequest(TypedDict):
    """The same job for many indices. Each index is a separate job, which reads it in $ALLOT_ARRAY_INDEX."""

    indices: str
    at_most: NotRequired[int | None]


class JobChangesRequest(TypedDict):
    """Changes to an object. Fields that are left out stay as they are."""

    gpus: NotRequired[int]
    replicas: NotRequired[int]
    gpu_models: NotRequired[Any]
    time_limit: NotRequired[Any]
    guarantee: NotRequired[GuaranteeEnum]
    priority: NotRequired[int]
    virtual_cluster: NotRequired[str]


class JobCode(TypedDict):
    archive: str | None
    git: str | None
    commit: str | None
    bytes: int | None
    files: int | None
    unpacked_bytes: int | None
    is_removed: bool


class JobCounts(TypedDict):
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int


class JobGroup(TypedDict):
    """A group of jobs: how many are in each state, their GPUs, and their first and last submission."""

    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    key: str | None
    name: str
    jobs: int
    gpus: int
    gpus_running: int
    first_submitted_at: str
    last_submitted_at: str


JobNotices: TypeAlias = Literal['all', 'failures', 'none']


class JobPreemptions(TypedDict):
    times: int
    lost_seconds: float
    overhead_seconds: float
    cost_seconds: float | None
    short_runs: int
    may_borrow_at: str | None


class JobProfile(TypedDict):
    """How the job uses GPUs that it has alone; null: unknown."""

    utilisation: float | None
    memory_utilisation: float | None
    memory_bytes: int | None
    amp: bool | None
    stages: list[float] | None
    is_own: bool


Tag: TypeAlias = str


GpuModelItem: TypeAlias = str


JobState: TypeAlias = Literal['queued', 'running', 'succeeded', 'failed', 'cancelled']


class JobTargets(TypedDict):
    job: int
    name: str
    tenant: str
    application: str
    gpus: int
    gpu_model: str | None
    targets: dict[str, float]
    received: dict[str, float]


class JobTemplate(TypedDict):
    name: str
    summary: str
    owner: NotRequired[str | None]
    changed_at: str
    may_change: bool
    spec: dict[str, Any]


class JobTemplateRow(TypedDict):
    name: str
    summary: str
    owner: NotRequired[str | None]
    changed_at: str
    may_change: bool


class JobUsage(TypedDict):
    """Latest readings of a job, summed over its GPUs or replicas; null: unknown."""

    job: int
    name: str
    tenant: str
    virtual_cluster: str
    attempt: int
    gpus: float
    gpu_model: str
    nodes: list[str]
    running_at: str | None
    utilisation_percent: float | None
    least_busy_percent: float | None
    gpu_memory_used_bytes: float | None
    power_watts: float | None
    cpus_used: float | None
    memory_used_bytes: float | None
    idle_seconds: float | None
    simulated: bool


class JobsActionAnswer(TypedDict):
    jobs: int
    remaining: int
    refused: list[ActionRefusal]
    queued: int | None
    running: int | None


JobsActionKind: TypeAlias = Literal['cancel', 'hold', 'release', 'requeue', 'update']


class JobsActionRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    action: JobsActionKind
    filter: dict[str, str]
    priority: NotRequired[int | None]
    labels: NotRequired[dict[str, str | None]]
    dry_run: NotRequired[bool]
    most: NotRequired[int | None]


class LargerGuaranteeRequest(TypedDict):
    virtual_cluster: str
    gpu_model: str
    more_gpus: int


LauncherEnum: TypeAlias = Literal['torchrun', 'mpi', 'deepspeed', 'accelerate']


LayerEnum: TypeAlias = Literal['user', 'engine', 'platform', 'unknown']


LayoutEnum: TypeAlias = Literal['csv', 'gavel']


class Leaving(TypedDict):
    running: int
    held: int
    cancelled: int
    remaining: int


LevelEnum: TypeAlias = Literal['rack', 'node', 'socket', 'switch']


class Line(TypedDict):
    """A line of the ledger; docs/ledger.md describes each kind."""

    id: int
    at: str
    round_number: int | None
    view: str
    position: int
    kind: str
    party: str
    counterparty: str
    jobs: list[int]
    gpus: dict[str, float]
    given: dict[str, float]
    price: float | None
    seconds: float | None
    rho_before: float | None
    rho_after: float | None
    message: str
    details: dict[str, Any]
    person: str


class LoanInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    until: NotRequired[str]
    why: NotRequired[str]


LoanState: TypeAlias = Literal['coming', 'active', 'ended']


class LogChunk(TypedDict):
    sequence: int
    at: str
    text: str


class LogHit(TypedDict):
    rank: int
    task: str
    line: int
    sequence: int
    chunk_line: int
    text: str
    start: int
    end: int
    before: list[str]
    after: list[str]


class LogRemoval(TypedDict):
    at: str
    bytes: int
    message: str


class LogSearch(TypedDict):
    attempt: int | None
    hits: list[LogHit]
    lines_searched: int
    next_after: str
    removed: LogRemoval | None


class Lot(TypedDict):
    gpus: dict[str, int]
    cells: dict[str, int]


class LotInputRequest(TypedDict):
    """What is lent: GPUs of models that are divided by counts, and cells of all other models."""

    gpus: NotRequired[dict[str, int]]
    cells: NotRequired[dict[str, int]]


class MaintenanceJob(TypedDict):
    id: int
    name: str
    tenant: str


class MapGpu(TypedDict):
    id: int
    index: int
    healthy: bool
    problem: str
    state: GpuState
    in_use: float


class MapPlacedGpu(TypedDict):
    id: int
    part: NotRequired[float]


MarksEnum: TypeAlias = Literal['now', 'proportional', 'best']


class MeUser(TypedDict):
    username: str
    email: str


class MeasuredAttempt(TypedDict):
    number: int
    started_at: str
    ended_at: str | None
    outcome: str


class NewAccountRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    invitation: str
    username: str
    password: str


class NewestRound(TypedDict):
    number: int
    at: str


class NodeAskedBack(TypedDict):
    node: str
    stops: list[int]
    shrinks: list[int]


class NodeCounts(TypedDict):
    ready: int
    lost: int
    cordoned: int


class NodeInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    name: str
    rack: NotRequired[str]


NodeLoanStateEnum: TypeAlias = Literal['serving', 'lent', 'returning']


NodeState: TypeAlias = Literal['new', 'ready', 'lost']


class NodeWithdrawal(TypedDict):
    by: str
    why: str
    since: str | None
    returns_itself: bool


OnlyItem: TypeAlias = str


AvoidItem: TypeAlias = str


class Nodes(TypedDict):
    """The only nodes, by name, on which a job may start (HiveD's suggested nodes)."""

    only: NotRequired[list[OnlyItem]]
    avoid: NotRequired[list[AvoidItem]]


class NodesAskedBack(TypedDict):
    results: list[NodeAskedBack]


class NodesRequest(TypedDict):
    """The only nodes, by name, on which a job may start (HiveD's suggested nodes)."""

    only: NotRequired[list[OnlyItem] | None]
    avoid: NotRequired[list[AvoidItem] | None]


class NotificationSettings(TypedDict):
    address: str
    can_send: bool
    jobs: JobNotices
    tenants: bool
    cluster: bool
    problem: str


class Notify(TypedDict):
    """The events of the job that are sent to its owner."""

    email: NotRequired[list[EmailEnum] | None]


class NotifyRequest(TypedDict):
    """The events of the job that are sent to its owner."""

    email: NotRequired[list[EmailEnum] | None]


NullEnum: TypeAlias = None


class OfferInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    virtual_cluster: str
    lot: LotInputRequest
    starts_at: NotRequired[str | None]
    ends_at: str
    price_per_gpu_hour: NotRequired[float]
    in_return: NotRequired[LotInputRequest | None]


OfferState: TypeAlias = Literal['open', 'taken', 'withdrawn', 'expired']


OnReclaimEnum: TypeAlias = Literal['preempt', 'downgrade']


OnUnmetEnum: TypeAlias = Literal['cancel', 'wait']


class OutgoingLoan(TypedDict):
    loan: int
    to: str
    lot: Lot
    ends_at: str


OvercommitEnum: TypeAlias = Literal['never', 'predicted']


class OvercommitViolations(TypedDict):
    samples: int
    exceeded: int
    rate: float


class Overrun(TypedDict):
    since: str
    message: str


class OwnedCells(TypedDict):
    chain: str
    type: str
    level: int
    gpus: int
    owned: int
    bound: int
    free: int
    doomed: int
    pinned: bool
    name: str
    addresses: list[str]


class PageAddress(TypedDict):
    url: str


class PaginatedEventList(TypedDict):
    results: list[Event]
    next: str | None
    previous: str | None


class PaginatedFairnessMinuteList(TypedDict):
    results: list[FairnessMinute]
    next: str | None
    previous: str | None


class PaginatedJobGroupList(TypedDict):
    results: list[JobGroup]
    next: str | None
    previous: str | None


class PaginatedJobTargetsList(TypedDict):
    results: list[JobTargets]
    next: str | None
    previous: str | None


class PaginatedJobTemplateRowList(TypedDict):
    results: list[JobTemplateRow]
    next: str | None
    previous: str | None


class PaginatedJobUsageList(TypedDict):
    results: list[JobUsage]
    next: str | None
    previous: str | None


class PaginatedLineList(TypedDict):
    results: list[Line]
    next: str | None
    previous: str | None


class PartEnforcement(TypedDict):
    enforced: int
    cooperative: int
    placement_only: int


class PasswordChangeRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    current: str
    new: str
    end_tokens: NotRequired[bool]


class PatchedJobChangeRequest(TypedDict):
    """What a job asks for. If a job has one task, `command`, `gpus`, `gpu_model`, `resources`, `replicas` and `env` may stand here instead of in `tasks`."""

    name: NotRequired[str]
    description: NotRequired[str | None]
    virtual_cluster: NotRequired[str | None]
    priority: NotRequired[int | None]
    guarantee: NotRequired[GuaranteeEnum | None]
    time_limit: NotRequired[str | float | None]
    begin: NotRequired[str | float | None]
    reservation: NotRequired[str | None]
    labels: NotRequired[dict[str, str] | None]


class PatchedNodeChangeRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    cordoned: NotRequired[bool]
    why: NotRequired[str]
    rack: NotRequired[str]


class PatchedNotificationChangeRequest(TypedDict):
    """Changes to an object. Fields that are left out stay as they are."""

    jobs: NotRequired[JobNotices]
    tenants: NotRequired[bool]
    cluster: NotRequired[bool]


class PatchedPoolFieldsRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    return_seconds: NotRequired[float]
    nodes_needed: NotRequired[dict[str, int] | None]


class PatchedPriceInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    price_per_hour: NotRequired[float]


class PatchedReservationChangeRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    gpus: NotRequired[int]
    starts_at: NotRequired[str]
    ends_at: NotRequired[str]
    note: NotRequired[str]


class PatchedTenantChangeRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    title: NotRequired[str]
    most_unfinished_jobs: NotRequired[int | None]


class PatchedUserChangeRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    email: NotRequired[str]
    is_active: NotRequired[bool]
    is_operator: NotRequired[bool]
    password: NotRequired[str]
    end_tokens: NotRequired[bool]
    your_password: NotRequired[str]


Node1: TypeAlias = str


Rack: TypeAlias = str


class PatchedWindowInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    reason: NotRequired[str]
    starts_at: NotRequired[str]
    ends_at: NotRequired[str]
    nodes: NotRequired[list[Node1]]
    racks: NotRequired[list[Rack]]


PeriodEnum: TypeAlias = Literal['month', 'week', 'none']


PhaseEnum: TypeAlias = Literal['waiting', 'held', 'planned', 'starting', 'running', 'stopping', 'ended']


class PhysicalCell(TypedDict):
    type: str
    name: NotRequired[str]
    nodes: list[str]
    gpus: NotRequired[dict[str, list[int]]]


class PhysicalCellRequest(TypedDict):
    type: str
    name: NotRequired[str]
    nodes: list[str]
    gpus: NotRequired[dict[str, list[int]]]


class PlacedGpu(TypedDict):
    id: int
    index: int
    part: NotRequired[float]


class PlacementPart(TypedDict):
    node: str
    node_id: int
    gpus: list[PlacedGpu]
    ranks: list[int]
    state: str
    enforcement: EnforcementEnum | BlankEnum


class PluginParameter(TypedDict):
    name: str
    type: str
    default: Any | None
    choices: list[str]


class PoolInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    return_seconds: NotRequired[float]
    nodes_needed: NotRequired[dict[str, int] | None]
    name: str


class PoolMembershipInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    pool: str | None


class PoolReturnInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    deadline_seconds: NotRequired[float]
    why: NotRequired[str]
    nodes: int


class Port(TypedDict):
    """Port of a web page of the job, which reads the number in $ALLOT_PORT_<NAME>."""

    name: str
    port: NotRequired[int | None]


class PortRequest(TypedDict):
    """Port of a web page of the job, which reads the number in $ALLOT_PORT_<NAME>."""

    name: str
    port: NotRequired[int | None]


class Prediction(TypedDict):
    starts_at: str
    earliest: str
    latest: str | None
    assumption: str
    position: int | None
    made_at: str
    round: int


class ProgressPoint(TypedDict):
    attempt: int
    at: str
    step: int
    samples: float | None
    values: dict[str, float]


class Quota(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    limits: dict[str, int]
    cpus: NotRequired[float | None]
    memory_bytes: NotRequired[int | None]


class QuotaRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    limits: dict[str, int]
    cpus: NotRequired[float | None]
    memory_bytes: NotRequired[int | None]


class RankedLogChunk(TypedDict):
    sequence: int
    at: str
    text: str
    rank: int
    task: str


class Receiver(TypedDict):
    address: str
    sent_id: int
    sent_at: str | None
    behind: int
    failures: int
    failing_since: str | None
    problem: str


class Replay(TypedDict):
    same: bool
    line: Line | None
    round_number: int
    seconds: float


class ReplicaShare(TypedDict):
    rank: int
    cpus: float
    memory_bytes: int
    proportional_cpus: float
    proportional_memory_bytes: int


ReportPeriod: TypeAlias = Literal['week', 'month']


class ReservationInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    gpus: int
    starts_at: str
    ends_at: str
    note: NotRequired[str]
    name: str
    tenant: str
    user: NotRequired[str | None]
    virtual_cluster: NotRequired[str | None]
    gpu_model: str


ReservationStateEnum: TypeAlias = Literal['announced', 'in_force', 'over', 'cancelled']


class Resources(TypedDict):
    """What each replica gets, all of it on one node."""

    gpu: int | float
    gpu_limit: NotRequired[float | None]
    gpu_memory: NotRequired[int]
    gpu_model: NotRequired[str | list[GpuModelItem]]
    cpu: NotRequired[Literal['auto'] | float]
    memory: NotRequired[Literal['auto'] | int]
    measure_cpu: NotRequired[bool]


class ResourcesRequest(TypedDict):
    """What each replica gets, all of it on one node."""

    gpu: int | float
    gpu_limit: NotRequired[float | None]
    gpu_memory: NotRequired[str | int | None]
    gpu_model: NotRequired[str | list[GpuModelItem] | None]
    cpu: NotRequired[Literal['auto'] | float | None]
    memory: NotRequired[Literal['auto'] | str | int | None]
    measure_cpu: NotRequired[bool | None]


class Retry(TypedDict):
    """How often a job is tried again after failures. The first attempt counts as one."""

    max_attempts: NotRequired[int]
    attempts: NotRequired[dict[str, int]]
    matching: NotRequired[dict[str, int]]


RetryEnum: TypeAlias = Literal['never', 'again', 'elsewhere']


class RetryRequest(TypedDict):
    """How often a job is tried again after failures. The first attempt counts as one."""

    max_attempts: NotRequired[int | None]
    attempts: NotRequired[dict[str, int] | None]
    matching: NotRequired[dict[str, int] | None]


class ReturnInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    deadline_seconds: NotRequired[float]
    why: NotRequired[str]


Role: TypeAlias = Literal['viewer', 'member', 'admin']


class RotationRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    overlap_seconds: NotRequired[int]
    your_password: NotRequired[str]


class RoundAction(TypedDict):
    kind: str
    jobs: list[int]
    virtual_cluster: str
    guaranteed: bool
    gpu_model: str | None
    gpus: list[int]
    cause: str
    preempted_by: list[int]
    message: str


RoundState: TypeAlias = Literal['applied', 'fenced', 'failed']


class RoundTimings(TypedDict):
    snapshot: float
    decide: float
    apply: float


GpuModel1: TypeAlias = str


RuleKind: TypeAlias = Literal['lend', 'borrow']


class SavedSearch(TypedDict):
    id: int
    name: str
    search: str
    tenant: NotRequired[str | None]
    owner: str
    may_delete: bool


class SavedSearchInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    name: str
    search: str
    tenant: NotRequired[str | None]


class ScalingAllocation(TypedDict):
    attempt: int
    gpus: float
    gpu_model: str
    nodes: int
    since: str
    until: str | None
    why: str


class ScalingNow(TypedDict):
    attempt: int
    gpus: int
    nodes: int
    batch_size: int
    local_batch: int
    accumulation: int
    lr_factor: float
    overhead: float | None
    noise_scale: float | None
    efficiency: float | None
    throughput: float | None
    is_measured: bool
    goodput: float | None
    speedup: float | None


class ScalingOnModel(TypedDict):
    gpu_model: str
    ways: int
    most_replicas: int
    projected_from: str
    error: float | None


class ScalingPoint(TypedDict):
    gpus: int
    nodes: int
    goodput: float
    speedup: float
    efficiency: float
    batch_size: int
    local_batch: int
    accumulation: int


Scope: TypeAlias = Literal['read', 'submit', 'manage', 'operate']


class SecretInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    value: str


SecretScope: TypeAlias = Literal['user', 'tenant']


class SecretUse(TypedDict):
    """A stored secret that all processes of the job get. A name alone puts it into the variable of that name: hf-token comes in HF_TOKEN."""

    name: str
    env: NotRequired[str | None]
    file: NotRequired[str | None]
    scope: NotRequired[SecretScope | None]


class SecretUseRequest(TypedDict):
    """A stored secret that all processes of the job get. A name alone puts it into the variable of that name: hf-token comes in HF_TOKEN."""

    name: str
    env: NotRequired[str | None]
    file: NotRequired[str | None]
    scope: NotRequired[SecretScope | None]


class Sensitivity(TypedDict):
    """Speed of a replica by its CPUs, and by its bytes of memory, in pairs (amount, speed), ascending."""

    cpu: NotRequired[dict[str, float]]
    memory: NotRequired[dict[str, float]]


class SensitivityMeasured(TypedDict):
    gpu_model: str
    trials: int
    is_over: bool


class SensitivityPoint(TypedDict):
    amount: float
    speed: float
    marks: list[MarksEnum]


class SensitivityRequest(TypedDict):
    """Speed of a replica by its CPUs, and by its bytes of memory, in pairs (amount, speed), ascending."""

    cpu: NotRequired[dict[str, float] | None]
    memory: NotRequired[dict[str, float] | None]


class SensitivityShare(TypedDict):
    rank: int
    cpus: float
    memory_bytes: int
    speed: float


SeriesKindEnum: TypeAlias = Literal['gpu', 'host', 'replica']


class ServingPool(TypedDict):
    name: str
    return_seconds: float
    nodes_needed: dict[str, int] | None
    needed_now: int | None
    serving: int
    lent: int
    returning: int


class Session(TypedDict):
    id: str
    user: str
    attempt: int
    rank: int
    node: str
    port: str
    command: str
    opened_at: str
    ended_at: str | None
    exit_code: int | None


SeverityEnum: TypeAlias = Literal['info', 'warning', 'error']


class Sharing(TypedDict):
    """Which jobs may share GPUs with a job that uses parts of GPUs (KubeShare, HPDC 2020); empty: any."""

    affinity: NotRequired[str | None]
    anti_affinity: NotRequired[str | None]
    exclusion: NotRequired[str | None]


SharingEnum: TypeAlias = Literal['never', 'measured', 'free']


class SharingRequest(TypedDict):
    """Which jobs may share GPUs with a job that uses parts of GPUs (KubeShare, HPDC 2020); empty: any."""

    affinity: NotRequired[str | None]
    anti_affinity: NotRequired[str | None]
    exclusion: NotRequired[str | None]


class ShortJob(TypedDict):
    id: int
    name: str
    virtual_cluster: str
    gpus: int
    state: JobState


class ShortResourcesRequest(TypedDict):
    """What each replica gets, all of it on one node."""

    gpu: NotRequired[int | float]
    gpu_limit: NotRequired[float | None]
    gpu_memory: NotRequired[str | int | None]
    gpu_model: NotRequired[str | list[GpuModelItem] | None]
    cpu: NotRequired[Literal['auto'] | float | None]
    memory: NotRequired[Literal['auto'] | str | int | None]
    measure_cpu: NotRequired[bool | None]


class SignInRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    username: str
    password: str


SourceEnum: TypeAlias = Literal['corrected', 'measured', 'declared', 'estimated', 'assumed']


class StartForecast(TypedDict):
    starts_at: str | None
    earliest: str | None
    latest: str | None
    position: int | None
    why_not: str


StopCauseEnum: TypeAlias = Literal['preempted', 'migrated', 'resized', 'drained', 'cancelled', 'time_limit', 'part_failed', 'node_lost', 'gang_timeout', 'stuck', 'idle_gpus', 'trial_over']


class StoredArchive(TypedDict):
    """An uploaded working folder."""

    archive: str
    bytes: int
    files: int
    unpacked_bytes: int
    uploaded_by: str
    uploaded_at: str


TagConstraintScopeEnum: TypeAlias = Literal['node', 'rack', 'cluster']


class TakeInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    virtual_cluster: str


class Task(TypedDict):
    """One role in the gang: `replicas` processes that run `command`, each on `gpu` GPUs of one node, on a part of one, or on CPUs and memory alone."""

    name: NotRequired[str | None]
    replicas: NotRequired[int]
    resources: Resources
    sensitivity: NotRequired[Sensitivity | None]
    command: list[str]
    env: NotRequired[dict[str, str]]


class TaskRequest(TypedDict):
    """One role in the gang: `replicas` processes that run `command`, each on `gpu` GPUs of one node, on a part of one, or on CPUs and memory alone."""

    name: NotRequired[str | None]
    replicas: NotRequired[int | None]
    resources: ResourcesRequest
    sensitivity: NotRequired[SensitivityRequest | None]
    command: str | list[str]
    env: NotRequired[dict[str, str | float] | None]


class TaskSensitivity(TypedDict):
    task: str
    by_cpus: list[SensitivityPoint]
    by_memory: list[SensitivityPoint]
    now: SensitivityShare | None
    proportional: SensitivityShare | None
    measured: SensitivityMeasured | None


class Tenant(TypedDict):
    name: str
    title: str
    role: Role
    members: int
    most_unfinished_jobs: int | None
    quota: dict[str, int]
    quota_cpus: float | None
    quota_memory_bytes: int | None
    created_at: str
    version: int


class TenantFairness(TypedDict):
    tenant: str
    weight: float
    jobs_running: int
    jobs_waiting: int
    demand_gpus: float
    own_part: dict[str, float]
    entitled: dict[str, float]
    received: dict[str, float]
    received_mean: float
    entitled_mean: float
    rho_worst: float | None
    rho_mean: float | None
    envy: float
    envies: str | None
    borrowed: float
    lent: float
    traded_in: dict[str, float]
    traded_out: dict[str, float]
    paid: float
    speed_here: float
    speed_alone: float
    gain: float | None
    better_off_alone: bool
    tier: str | None
    guaranteed_fraction: float | None
    gpu_fraction: float | None


class TenantInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    name: str
    title: NotRequired[str]


class TenantTargets(TypedDict):
    tenant: str
    jobs: int
    gpus: dict[str, float]


class ThroughputChange(TypedDict):
    application: str
    gpu_model: str
    gpus: int
    spread: bool
    partner: str
    before: float | None
    after: float


class ThroughputCorrection(TypedDict):
    value: float
    reason: str
    by: str
    at: str


class ThroughputMeasurement(TypedDict):
    average: float
    deviation: float
    samples: int
    updated_at: str


ThroughputRename = TypedDict(
    'ThroughputRename',
    {
        'from': str,
        'to': str,
    },
)


TierEnum: TypeAlias = Literal['never', 'held', 'quota', 'guarantee', 'capacity', 'topology', 'order', 'preparing']


class Token(TypedDict):
    key: str
    user: str
    name: str
    scopes: list[Scope]
    created_at: str
    first_used_at: str | None
    first_used_from: str | None
    last_used_at: str | None
    last_used_from: str | None
    expires_at: str | None
    replaced_by: str | None


class TokenInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    name: str
    scopes: NotRequired[list[Scope]]
    expires_in_days: NotRequired[int | None]
    your_password: NotRequired[str]


class TokenTerms(TypedDict):
    default_days: int
    most_days: int
    may_never_expire: bool


TopicsEnum: TypeAlias = Literal['job.started', 'job.finished', 'job.failed', 'job.preempted', 'job.stuck', 'job.trial_failed', 'job.maintenance', 'job.reserved', 'budget.reached', 'reservation.changed', 'webhook.disabled', 'node.lost', 'node.cordoned']


class Topology(TypedDict):
    """Keep the gang inside one `level` (rack, node, socket, switch), as a requirement or a preference."""

    level: LevelEnum
    required: NotRequired[bool]


class TopologyRequest(TypedDict):
    """Keep the gang inside one `level` (rack, node, socket, switch), as a requirement or a preference."""

    level: LevelEnum
    required: NotRequired[bool | None]


class TourInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    seen: bool


TransferKind: TypeAlias = Literal['grant', 'allowance', 'taken_back', 'payment', 'refund']


class Trial(TypedDict):
    """A short run of rank 0 alone, which must succeed before the whole gang starts."""

    seconds: float
    gpus: NotRequired[int]


class TrialRequest(TypedDict):
    """A short run of rank 0 alone, which must succeed before the whole gang starts."""

    seconds: str | float
    gpus: NotRequired[int | None]


class UnfinishedCounts(TypedDict):
    queued: int
    running: int


UnitEnum: TypeAlias = Literal['gpu_hours', 'cost']


class UsagePoint(TypedDict):
    at: str
    total: int
    held: int
    by_tenant: dict[str, int]


class UsageRow(TypedDict):
    jobs: int
    gpu_hours: float
    guaranteed_gpu_hours: float
    opportunistic_gpu_hours: float
    wasted_gpu_hours: float
    cost: float
    currency: str | None
    tenant: NotRequired[str]
    user: NotRequired[str]
    virtual_cluster: NotRequired[str]
    gpu_model: NotRequired[str]
    application: NotRequired[str]
    day: NotRequired[str]
    entitled_gpu_hours: float | None


class UsageSubscription(TypedDict):
    tenant: str | None
    period: ReportPeriod
    reported_until: str


class UsageSubscriptionAnswer(TypedDict):
    tenant: str | None
    period: ReportPeriod | NullEnum | None


class UsageSubscriptionInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    tenant: NotRequired[str | None]
    period: ReportPeriod | NullEnum | None


class UsageTotal(TypedDict):
    jobs: int
    gpu_hours: float
    guaranteed_gpu_hours: float
    opportunistic_gpu_hours: float
    wasted_gpu_hours: float
    cost: float
    currency: str | None


class UserBudgetTerms(TypedDict):
    amount: float
    unit: UnitEnum
    period: PeriodEnum
    action: BudgetAction
    starts_at: str
    is_spent: bool


class UserInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    username: str
    email: NotRequired[str]
    password: NotRequired[str | None]
    is_operator: NotRequired[bool]
    your_password: NotRequired[str]


class UserQuotaInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    gpus: NotRequired[int | None]
    cpus: NotRequired[float | None]
    memory_bytes: NotRequired[int | None]


class UserQuotaLines(TypedDict):
    gpus: int | None
    cpus: float | None
    memory_bytes: int | None


class UserQuotaState(TypedDict):
    gpus: int | None
    cpus: float | None
    memory_bytes: int | None
    held: Held


UsualByEnum: TypeAlias = Literal['size', 'application', 'user']


VerdictEnum: TypeAlias = Literal['ok', 'warning', 'failed']


class Violation(TypedDict):
    id: int
    virtual_cluster: str
    tenant: str
    began_at: str
    ended_at: str | None
    worst: float
    lost_gpu_seconds: float
    cause: str
    message: str
    round_number: int


class VirtualCells(TypedDict):
    cells: NotRequired[dict[str, int]]
    pinned: NotRequired[dict[str, str]]


class VirtualCellsRequest(TypedDict):
    cells: NotRequired[dict[str, int]]
    pinned: NotRequired[dict[str, str]]


class VirtualClusterHoldings(TypedDict):
    virtual_cluster: str
    cells: list[OwnedCells]
    guaranteed: dict[str, int]


class VirtualClusterMember(TypedDict):
    tenant: str
    weight: float


class VirtualClusterPreemptions(TypedDict):
    hours: int
    preemptions: int
    jobs: int
    preemptions_per_hour: float
    lost_gpu_hours: float
    overhead_gpu_hours: float


WatchedThen: TypeAlias = Literal['warn', 'stop']


WayEnum: TypeAlias = Literal['part', 'together', 'turns']


class Webhook(TypedDict):
    id: int
    tenant: str | None
    url: str
    title: str
    topics: list[TopicsEnum]
    active: bool
    created_at: str
    created_by: str
    failures: int
    failing_since: str | None
    held_until: str | None
    old_secret_ends_at: str | None
    problem: str


class WebhookInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    tenant: NotRequired[str | None]
    url: str
    title: NotRequired[str]
    topics: list[TopicsEnum]
    active: NotRequired[bool]


class WeightedTenantRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    tenant: str
    weight: NotRequired[float]


class WhatIfEffect(TypedDict):
    job: int | None
    name: str
    runs_now: bool
    before: StartForecast | None
    after: StartForecast | None


WhatIfState: TypeAlias = Literal['waiting', 'running', 'done', 'failed']


WhenEnum: TypeAlias = Literal['succeeded', 'ended', 'failed', 'started']


class WindowInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    reason: str
    starts_at: str
    ends_at: str
    nodes: NotRequired[list[Node1]]
    racks: NotRequired[list[Rack]]


WindowState: TypeAlias = Literal['announced', 'draining', 'open', 'over', 'cancelled']


class Advice(TypedDict):
    """Advice on the cells of each virtual cluster, judged by the waiting times of its jobs with them."""

    id: str
    state: WhatIfState
    problem: str
    fields: list[FieldProblem]
    asked_at: str
    asked_by: str
    days: float
    jobs: int
    made_at: str | None
    assumption: str
    rows: list[AdviceRow]
    totals: AdviceTotalsBoth | None
    curves: dict[str, list[AdviceCurvePoint]]
    based_on_version: int
    applied_at: str | None


class Anomaly(TypedDict):
    """A job that waited longer here than it would have in the private cluster."""

    job: int
    name: str
    tenant: str | None
    gpus: int
    submitted_at: str
    real_delay_seconds: float
    private_delay_seconds: float
    extra_seconds: float
    hard_affinity: bool
    cause: CauseEnum
    message: str
    round: int | None


class Artefact(TypedDict):
    """One entry of a job's checkpoint folder or a subfolder."""

    name: str
    path: str
    kind: ArtefactKindEnum
    bytes: int | None
    modified_at: str | None


class AuditEntry(TypedDict):
    id: int
    at: str
    kind: AuditEntryKindEnum
    actor: str
    token: str
    address: str | None
    request: str
    action: str
    outcome: AuditEntryOutcomeEnum
    object: str
    object_id: str
    subject: str
    tenant: str | None
    sentence: str
    before: Any | None
    after: Any | None


class AuditStatus(TypedDict):
    days_kept: int
    is_complete: bool
    receivers: list[Receiver]


class AuxiliaryShare(TypedDict):
    replicas: list[ReplicaShare]
    message: str


class Awaited(TypedDict):
    """One job that another waits for."""

    job: int
    when: NotRequired[WhenEnum]


class AwaitedRequest(TypedDict):
    """One job that another waits for."""

    job: int
    when: NotRequired[WhenEnum | None]


class BudgetInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    amount: float
    unit: NotRequired[UnitEnum]
    period: NotRequired[PeriodEnum]
    action: NotRequired[BudgetAction]
    starts_at: NotRequired[str]


class BudgetOfTenant(TypedDict):
    tenant: str
    amount: float
    unit: UnitEnum
    period: PeriodEnum
    action: BudgetAction
    starts_at: str
    is_spent: bool


class BudgetTerms(TypedDict):
    amount: float
    unit: UnitEnum
    period: PeriodEnum
    action: BudgetAction
    starts_at: str


class BuiltInClass(TypedDict):
    name: str
    layer: LayerEnum
    says: str


class BuiltInClassRequest(TypedDict):
    name: str
    layer: LayerEnum
    says: str


class BulkSubmitAnswer(TypedDict):
    jobs: list[ShortJob]


class CellDocument(TypedDict):
    """What a YAML file of cells holds; docs/cells.md describes it."""

    types: NotRequired[dict[str, CellType]]
    physical: NotRequired[list[PhysicalCell]]
    virtual_clusters: NotRequired[dict[str, VirtualCells]]


class CellDocumentRequest(TypedDict):
    """What a YAML file of cells holds; docs/cells.md describes it."""

    types: NotRequired[dict[str, CellTypeRequest]]
    physical: NotRequired[list[PhysicalCellRequest]]
    virtual_clusters: NotRequired[dict[str, VirtualCellsRequest]]


class CellNode(TypedDict):
    """A cell, with counts of GPUs: gpus = free + used + opportunistic + bad."""

    gpus: int
    free: int
    used: int
    opportunistic: int
    bad: int
    address: str
    chain: str
    type: str
    level: int
    level_is_node: bool
    virtual_cluster: str | None
    pinned: str
    on_loan: CellOnLoan | None
    node: str
    gpu: int | None
    state: CellNodeStateEnum
    children: int


class CellsBodyRequest(TypedDict):
    specification: CellDocumentRequest
    version: int


class CellsCheck(TypedDict):
    valid: bool
    specification: CellDocument | None
    problems: list[FieldProblem]
    guaranteed: dict[str, dict[str, int]]
    effects: list[CellEffect]


class CellsProposal(TypedDict):
    specification: CellDocument


class ChainSummary(TypedDict):
    """A cell, with counts of GPUs: gpus = free + used + opportunistic + bad."""

    gpus: int
    free: int
    used: int
    opportunistic: int
    bad: int
    name: str
    gpu_model: str
    types: list[ChainType]
    cells: list[ChainCells]


class Cluster(TypedDict):
    gpus: GpuCounts
    by_model: dict[str, GpuCounts]
    jobs: UnfinishedCounts
    nodes: NodeCounts
    round: NewestRound | None


class ClusterChangesRequest(TypedDict):
    drain: NotRequired[list[str]]
    add_back: NotRequired[list[str]]
    enlarge: NotRequired[list[LargerGuaranteeRequest]]


class ClusterSettings(TypedDict):
    spare_policy_plugin: ChosenPlugin
    spare_placer_plugin: ChosenPlugin
    auxiliary: AuxiliaryEnum
    currency: str
    preemptions_per_round: int | None
    backoff_seconds: float
    most_backoff_seconds: float
    idle_gpus_seconds: float | None
    idle_gpus_below_percent: float
    idle_gpus_then: WatchedThen
    overrun: Overrun | None


class CreditAccount(TypedDict):
    id: int
    virtual_cluster: str
    version: int
    balance: float
    earned: float
    spent: float
    granted: float
    allowance: CreditAllowance | None
    may_act: bool


CreditTransfer = TypedDict(
    'CreditTransfer',
    {
        'id': int,
        'at': str,
        'kind': TransferKind,
        'to': str,
        'credits': float,
        'loan': int | None,
        'reason': str,
        'by': str,
        'round_number': int | None,
        'from': str,
    },
)


class Delivery(TypedDict):
    id: int
    message: str
    topic: str
    body: str
    created_at: str
    state: DeliveryState
    tries: int
    tried_at: str | None
    next_at: str
    until: str
    status: int | None
    reply: str
    seconds: float | None
    problem: str


class Dependency(TypedDict):
    job: int
    name: str
    job_state: JobState
    when: WhenEnum
    state: DependencyStateEnum


class Elastic(TypedDict):
    """A job that can run on fewer GPUs, or on more."""

    min_gpus: NotRequired[int | None]
    max_gpus: NotRequired[int | None]
    mode: NotRequired[ElasticMode]


class ElasticitySavings(TypedDict):
    """Simulation of the jobs of the last days: as declared, and each at its own number of GPUs."""

    id: str
    state: WhatIfState
    problem: str
    asked_at: str
    asked_by: str
    days: float
    made_at: str | None
    jobs: int
    elastic_jobs: int
    measured_jobs: int
    left_out: int
    elastic: ElasticityFigures | None
    rigid: ElasticityFigures | None
    assumption: str


class Error(TypedDict):
    type: str
    title: str
    status: int
    detail: str
    code: str
    fields: list[FieldError]


class Failure(TypedDict):
    id: int
    job: int
    job_name: str
    job_state: JobState
    tenant: str
    virtual_cluster: str
    submitted_by: str
    attempt: int
    failure: str
    layer: LayerEnum
    says: str
    message: str
    rank: int | None
    exit_code: int | None
    rule: str
    advice: str
    gpu_model: str
    nodes: list[str]
    ended_at: str


FailureRule = TypedDict(
    'FailureRule',
    {
        'name': str,
        'retry': RetryEnum | NullEnum | None,
        'says': str,
        'pattern': str,
        'exit_codes': list[int],
        'signals': list[int],
        'severity': SeverityEnum,
        'advice': str,
        'class': str,
    },
)


class FailureRuleList(TypedDict):
    rules: list[FailureRule]
    classes: list[BuiltInClass]


class FailureRuleMatch(TypedDict):
    rule: FailureRule | None
    layer: str
    tried_again: bool | None


FailureRuleRequest = TypedDict(
    'FailureRuleRequest',
    {
        'name': str,
        'retry': NotRequired[RetryEnum | NullEnum | None],
        'says': NotRequired[str],
        'pattern': NotRequired[str],
        'exit_codes': NotRequired[list[int]],
        'signals': NotRequired[list[int]],
        'severity': NotRequired[SeverityEnum],
        'advice': NotRequired[str],
        'class': str,
    },
)


class Fairness(TypedDict):
    at: str | None
    window_seconds: float
    fraction_seconds: float
    policy: str
    tenants: list[TenantFairness]
    open_violations: int


class FragmentationNow(TypedDict):
    at: str
    idle: float
    fragmented: float
    causes: dict[str, float]
    kinds: list[FragmentedKind]
    nodes: list[FragmentedNode]


class Gpu(TypedDict):
    id: int
    index: int
    socket: int
    switch: int
    memory_bytes: int
    healthy: bool
    problem: str
    state: GpuState
    in_use: float


class GpuModel(TypedDict):
    name: str
    memory_bytes: int
    gpus: int
    gpus_free: int
    serving_gpus: int
    nodes: int
    part_enforcement: PartEnforcement
    price_per_hour: float
    currency: str | None


class GpuModels(TypedDict):
    results: list[GpuModel]


class GpuSharer(TypedDict):
    """A job on a shared GPU. Fields that identify it are null for viewers who may not see it."""

    id: int | None
    name: str | None
    tenant: str | None
    virtual_cluster: str | None
    request: float
    limit: float
    memory_bytes: int
    memory_used_bytes: int | None
    way: WayEnum
    enforcement: EnforcementEnum | BlankEnum
    slowdown: float | None


IncomingLoan = TypedDict(
    'IncomingLoan',
    {
        'loan': int,
        'lot': Lot,
        'ends_at': str,
        'from': str,
    },
)


class InputWorker(TypedDict):
    job: int
    state: JobState
    started_at: str | None
    node: str | None


class Invitation(TypedDict):
    key: str
    role: Role
    email: str
    mailed: bool
    invited_by: str
    created_at: str
    expires_at: str


class InvitationInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    role: Role
    email: NotRequired[str]
    expires_in_days: NotRequired[int]


class InvitationOffer(TypedDict):
    tenant: str
    title: str
    role: Role
    invited_by: str
    expires_at: str


class JobDependencies(TypedDict):
    waits_for: list[Dependency]
    awaited_by: list[Dependency]
    awaited_by_count: int


class JobInputWorkers(TypedDict):
    desired: int
    running: int
    connected: int | None
    stall: float | None
    skipped: int | None
    problem: str
    workers: list[InputWorker]


class JobMaintenance(TypedDict):
    id: int
    reason: str
    state: WindowState
    starts_at: str
    ends_at: str
    node: str


class JobModelThroughput(TypedDict):
    gpu_model: str
    price_per_hour: float
    accepted: bool
    throughput: float | None
    relative: float | None
    source: SourceEnum | NullEnum | None
    samples: int
    confidence: float
    target_share: float | None
    received_seconds: float | None
    received_share: float | None
    attained_gpu_seconds: float
    attained_share: float | None
    runs_now: bool


class JobRunTime(TypedDict):
    declared_seconds: float | None
    measured_seconds: float | None
    gpu_model: str
    differs: bool
    outlasts_limit: bool
    usual_seconds: float | None
    usual_by: UsualByEnum | BlankEnum
    usual_jobs: int
    usual_error: float | None


class JobSensitivity(TypedDict):
    attempt: int | None
    tasks: list[TaskSensitivity]


class JobThroughputs(TypedDict):
    job: int
    tenant: str
    application: str
    gpus: int
    view: str
    policy_plugin: ChosenPlugin
    objective: str | None
    decided_at: str | None
    models: list[JobModelThroughput]
    profile: JobProfile | None


class LimitsOfUser(TypedDict):
    username: str
    quota: UserQuotaLines | None
    budget: UserBudgetTerms | None


class Loan(TypedDict):
    id: int
    version: int
    offer: int
    lender: str
    borrower: str
    lot: Lot
    in_return: Lot | None
    gpus: int
    gpu_models: list[str]
    starts_at: str
    ends_at: str
    state: LoanState
    ended_by: str
    price_per_gpu_hour: float
    paid: float
    refunded: float
    taken_by: str
    taken_at: str
    round_number: int | None
    may_end: bool


class LogPage(TypedDict):
    attempt: int | None
    rank: int
    ranks: list[int]
    tasks: list[str]
    chunks: list[LogChunk]
    next_after: int
    complete: bool
    truncated: bool
    removed: LogRemoval | None


class MaintenanceWindow(TypedDict):
    id: int
    reason: str
    state: WindowState
    starts_at: str
    ends_at: str
    nodes: list[str]
    jobs: list[MaintenanceJob]
    job_count: int
    made_by: str
    made_at: str


class MapLoan(TypedDict):
    state: NodeLoanStateEnum


class MapMaintenance(TypedDict):
    state: WindowState


class MapNode(TypedDict):
    """What the map shows of a node. Each field is that of the whole node."""

    id: int
    name: str
    rack: str
    gpu_model: str | None
    state: NodeState
    cordoned: bool
    draining: bool
    drained: bool
    drain_deadline: str | None
    loan: MapLoan | None
    maintenance: MapMaintenance | None
    gpus: list[MapGpu]
    version: int


class MapPart(TypedDict):
    state: str
    gpus: list[MapPlacedGpu]


class MarketRule(TypedDict):
    id: int
    virtual_cluster: str
    kind: RuleKind
    lot: Lot | None
    idle_seconds: float | None
    lend_seconds: float | None
    gpu_models: list[str]
    most_gpus: int | None
    waiting_seconds: float | None
    price_per_gpu_hour: float
    made_by: str
    made_at: str
    may_delete: bool


class MatchedRule(TypedDict):
    name: str
    severity: SeverityEnum
    advice: str


class MeTenant(TypedDict):
    name: str
    role: Role


class Member(TypedDict):
    username: str
    email: str
    role: Role


class MemberInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    role: Role


class MergedLogPage(TypedDict):
    attempt: int | None
    ranks: list[int]
    chunks: list[RankedLogChunk]
    next_after: str
    complete: bool
    removed: LogRemoval | None


class NewInvitation(TypedDict):
    key: str
    role: Role
    email: str
    mailed: bool
    invited_by: str
    created_at: str
    expires_at: str
    link: str | None


class NewToken(TypedDict):
    key: str
    user: str
    name: str
    scopes: list[Scope]
    created_at: str
    first_used_at: str | None
    first_used_from: str | None
    last_used_at: str | None
    last_used_from: str | None
    expires_at: str | None
    replaced_by: str | None
    token: str | None


class NewUser(TypedDict):
    username: str
    email: str
    is_operator: bool
    is_active: bool
    date_joined: str
    last_login: str | None
    last_seen_at: str | None
    tenants: list[MeTenant]
    password: str | None


class NewWebhook(TypedDict):
    id: int
    tenant: str | None
    url: str
    title: str
    topics: list[TopicsEnum]
    active: bool
    created_at: str
    created_by: str
    failures: int
    failing_since: str | None
    held_until: str | None
    old_secret_ends_at: str | None
    problem: str
    secret: str | None


class NodeCheck(TypedDict):
    name: str
    verdict: VerdictEnum
    message: str
    gpu: int | None
    since: str


class NodeLoan(TypedDict):
    pool: str
    state: NodeLoanStateEnum
    by: str
    why: str
    since: str | None
    until: str | None
    return_by: str | None


class NodeMaintenance(TypedDict):
    id: int
    reason: str
    state: WindowState
    starts_at: str
    ends_at: str


class NodeWithToken(TypedDict):
    id: int
    name: str
    rack: str
    gpu_model: str | None
    address: str
    state: NodeState
    cordoned: bool
    draining: bool
    drained: bool
    drain_deadline: str | None
    withdrawn: NodeWithdrawal | None
    loan: NodeLoan | None
    maintenance: NodeMaintenance | None
    health: list[NodeCheck]
    isolation: dict[str, bool]
    isolation_level: IsolationLevelEnum
    enforcement: EnforcementEnum | BlankEnum
    cpus: float
    cpus_held: float
    memory_bytes: int
    memory_bytes_held: int
    storage_bandwidth: float
    cache_bytes: int
    agent_version: str
    lease_expires_at: str | None
    gpus: list[Gpu]
    version: int
    token: str
    agent: AgentSetUp | None


class Offer(TypedDict):
    id: int
    version: int
    lender: str
    lot: Lot
    gpus: int
    gpu_models: list[str]
    starts_at: str | None
    ends_at: str
    price_per_gpu_hour: float
    in_return: Lot | None
    state: OfferState
    rule: int | None
    made_by: str
    made_at: str
    loan: int | None
    cost_now: float
    may_withdraw: bool


class PaginatedAdviceList(TypedDict):
    results: list[Advice]
    next: str | None
    previous: str | None


class PaginatedArtefactList(TypedDict):
    results: list[Artefact]
    next: str | None
    previous: str | None


class PaginatedAuditEntryList(TypedDict):
    results: list[AuditEntry]
    next: str | None
    previous: str | None


class PaginatedBudgetOfTenantList(TypedDict):
    results: list[BudgetOfTenant]
    next: str | None
    previous: str | None


class PaginatedCellNodeList(TypedDict):
    results: list[CellNode]
    next: str | None
    previous: str | None


class PaginatedCreditAccountList(TypedDict):
    results: list[CreditAccount]
    next: str | None
    previous: str | None


class PaginatedCreditTransferList(TypedDict):
    results: list[CreditTransfer]
    next: str | None
    previous: str | None


class PaginatedDeliveryList(TypedDict):
    results: list[Delivery]
    next: str | None
    previous: str | None


class PaginatedElasticitySavingsList(TypedDict):
    results: list[ElasticitySavings]
    next: str | None
    previous: str | None


class PaginatedFailureList(TypedDict):
    results: list[Failure]
    next: str | None
    previous: str | None


class PaginatedInvitationList(TypedDict):
    results: list[Invitation]
    next: str | None
    previous: str | None


class PaginatedLimitsOfUserList(TypedDict):
    results: list[LimitsOfUser]
    next: str | None
    previous: str | None


class PaginatedLoanList(TypedDict):
    results: list[Loan]
    next: str | None
    previous: str | None


class PaginatedMaintenanceWindowList(TypedDict):
    results: list[MaintenanceWindow]
    next: str | None
    previous: str | None


class PaginatedMapNodeList(TypedDict):
    results: list[MapNode]
    next: str | None
    previous: str | None


class PaginatedMarketRuleList(TypedDict):
    results: list[MarketRule]
    next: str | None
    previous: str | None


class PaginatedMemberList(TypedDict):
    results: list[Member]
    next: str | None
    previous: str | None


class PaginatedOfferList(TypedDict):
    results: list[Offer]
    next: str | None
    previous: str | None


class PaginatedSavedSearchList(TypedDict):
    results: list[SavedSearch]
    next: str | None
    previous: str | None


class PaginatedServingPoolList(TypedDict):
    results: list[ServingPool]
    next: str | None
    previous: str | None


class PaginatedSessionList(TypedDict):
    results: list[Session]
    next: str | None
    previous: str | None


class PaginatedTenantList(TypedDict):
    results: list[Tenant]
    next: str | None
    previous: str | None


class PaginatedTokenList(TypedDict):
    results: list[Token]
    next: str | None
    previous: str | None


class PaginatedUsageSubscriptionList(TypedDict):
    results: list[UsageSubscription]
    next: str | None
    previous: str | None


class PaginatedViolationList(TypedDict):
    results: list[Violation]
    next: str | None
    previous: str | None


class PaginatedWebhookList(TypedDict):
    results: list[Webhook]
    next: str | None
    previous: str | None


class PatchedClusterSettingsChangeRequest(TypedDict):
    """Changes to an object. Fields that are left out stay as they are."""

    spare_policy_plugin: NotRequired[ChosenPluginRequest]
    spare_placer_plugin: NotRequired[ChosenPluginRequest]
    auxiliary: NotRequired[AuxiliaryEnum]
    currency: NotRequired[str]
    preemptions_per_round: NotRequired[int | None]
    backoff_seconds: NotRequired[float]
    most_backoff_seconds: NotRequired[float]
    idle_gpus_seconds: NotRequired[float | None]
    idle_gpus_below_percent: NotRequired[float]
    idle_gpus_then: NotRequired[WatchedThen]


class PatchedWebhookChangeRequest(TypedDict):
    """Changes to an object. Fields that are left out stay as they are."""

    url: NotRequired[str]
    title: NotRequired[str]
    topics: NotRequired[list[TopicsEnum]]
    active: NotRequired[bool]


class Plugin(TypedDict):
    name: str
    summary: str
    parameters: list[PluginParameter]


class Plugins(TypedDict):
    policies: list[Plugin]
    placers: list[Plugin]


class Progress(TypedDict):
    points: list[ProgressPoint]


class Reason(TypedDict):
    code: str
    tier: TierEnum
    message: str
    blocking: dict[str, Any]
    needed: int | None
    available: int | None
    hint: str


class Reservation(TypedDict):
    id: int
    name: str
    state: ReservationStateEnum
    tenant: str
    user: str | None
    virtual_cluster: str | None
    gpu_model: str
    gpus: int
    nodes: list[str]
    starts_at: str
    ends_at: str
    note: str
    made_by: str
    made_at: str


class Round(TypedDict):
    number: int
    started_at: str
    state: RoundState
    degraded: dict[str, str]
    timings_ms: RoundTimings
    started: int
    kept: int
    stopped: int
    moved: int
    dropped: list[DroppedAction]
    waiting: int
    error: str


class RoundDetail(TypedDict):
    number: int
    started_at: str
    state: RoundState
    degraded: dict[str, str]
    timings_ms: RoundTimings
    started: int
    kept: int
    stopped: int
    moved: int
    dropped: list[DroppedAction]
    waiting: int
    error: str
    actions: list[RoundAction]
    overran: list[str]


class RuleInputRequest(TypedDict):
    """
    A market rule. To lend, give lot, idle_seconds and lend_seconds. To borrow, give most_gpus,
    waiting_seconds and gpu_models.
    """

    virtual_cluster: str
    kind: RuleKind
    lot: NotRequired[LotInputRequest | None]
    idle_seconds: NotRequired[float | None]
    lend_seconds: NotRequired[float | None]
    gpu_models: NotRequired[list[GpuModel1] | None]
    most_gpus: NotRequired[int | None]
    waiting_seconds: NotRequired[float | None]
    price_per_gpu_hour: NotRequired[float]


class ScalingEvidence(TypedDict):
    ways: int
    iterations: float
    most_replicas: int
    fitted_at: str | None
    gpu_models: list[ScalingOnModel]


class Secret(TypedDict):
    name: str
    scope: SecretScope
    created_at: str
    changed_at: str
    changed_by: str
    last_used_at: str | None


class Series(TypedDict):
    kind: SeriesKindEnum
    attempt: int | None
    node: str | None
    gpu: int | None
    rank: int | None
    measure: str
    points: list[list[float]]


class SharedGpu(TypedDict):
    id: int
    node: str
    index: int
    gpu_model: str | None
    memory_bytes: int
    in_use: float
    jobs: list[GpuSharer]


class SpecificationBodyRequest(TypedDict):
    specification: CellDocumentRequest


TagConstraint = TypedDict(
    'TagConstraint',
    {
        'with': str,
        'scope': NotRequired[TagConstraintScopeEnum],
        'min': NotRequired[int],
        'max': NotRequired[int | None],
        'weight': NotRequired[float | None],
    },
)


TagConstraintRequest = TypedDict(
    'TagConstraintRequest',
    {
        'with': str,
        'scope': NotRequired[TagConstraintScopeEnum | None],
        'min': NotRequired[int | None],
        'max': NotRequired[int | None],
        'weight': NotRequired[float | None],
    },
)


class Targets(TypedDict):
    objective: str | None
    decided_at: str | None
    tenants: list[TenantTargets]


class ThroughputCell(TypedDict):
    gpu_model: str
    value: float | None
    source: SourceEnum | NullEnum | None
    samples: int
    confidence: float
    relative: float | None
    measured: ThroughputMeasurement | None
    declared: float | None
    correction: ThroughputCorrection | None


class ThroughputImport(TypedDict):
    dry_run: bool
    layout: LayoutEnum
    added: int
    changed: int
    unchanged: int
    unknown_models: list[str]
    renamed: list[ThroughputRename]
    changes: list[ThroughputChange]


class ThroughputRow(TypedDict):
    tenant: str
    application: str
    gpus: int
    spread: bool
    partner: str
    gpu_limit: float
    may_correct: bool
    throughputs: list[ThroughputCell]


class Usage(TypedDict):
    points: list[UsagePoint]


class UsageReport(TypedDict):
    since: str
    until: str
    by: list[ByEnum]
    rows: list[UsageRow]
    total: UsageTotal


class User(TypedDict):
    username: str
    email: str
    is_operator: bool
    is_active: bool
    date_joined: str
    last_login: str | None
    last_seen_at: str | None
    tenants: list[MeTenant]


class VirtualCluster(TypedDict):
    id: int
    name: str
    title: str
    policy_plugin: ChosenPlugin
    placer_plugin: ChosenPlugin
    default_time_limit_seconds: float
    sharing: SharingEnum
    min_run_seconds: float
    reclaim_min_run_seconds: float
    longest_wait_seconds: float
    overcommit: OvercommitEnum
    overcommit_margin: float
    overcommit_violations: OvercommitViolations | None
    guaranteed: dict[str, int]
    own_guaranteed: dict[str, int]
    lent: list[OutgoingLoan]
    borrowed: list[IncomingLoan]
    cells: dict[str, int]
    pinned: dict[str, str]
    members: list[VirtualClusterMember]
    other_members: int
    usage: dict[str, GpuModelUsage]
    queued: int
    running: int
    has_targets: bool
    overrun: Overrun | None
    version: int


class VirtualClusterChangeRequest(TypedDict):
    """Changes to an object. Fields that are left out stay as they are."""

    title: NotRequired[str]
    policy_plugin: NotRequired[ChosenPluginRequest]
    placer_plugin: NotRequired[ChosenPluginRequest]
    default_time_limit_seconds: NotRequired[float]
    sharing: NotRequired[SharingEnum]
    min_run_seconds: NotRequired[float]
    reclaim_min_run_seconds: NotRequired[float]
    longest_wait_seconds: NotRequired[float]
    overcommit: NotRequired[OvercommitEnum]
    overcommit_margin: NotRequired[float]
    guaranteed: NotRequired[dict[str, int]]
    members: NotRequired[list[WeightedTenantRequest]]
    version: NotRequired[int]


class VirtualClusterInputRequest(TypedDict):
    """A virtual cluster to create. Fields that are left out take their defaults."""

    title: NotRequired[str]
    policy_plugin: NotRequired[ChosenPluginRequest]
    placer_plugin: NotRequired[ChosenPluginRequest]
    default_time_limit_seconds: NotRequired[float]
    sharing: NotRequired[SharingEnum]
    min_run_seconds: NotRequired[float]
    reclaim_min_run_seconds: NotRequired[float]
    longest_wait_seconds: NotRequired[float]
    overcommit: NotRequired[OvercommitEnum]
    overcommit_margin: NotRequired[float]
    guaranteed: NotRequired[dict[str, int]]
    members: NotRequired[list[WeightedTenantRequest]]
    name: str


class Watch(TypedDict):
    """When a job counts as stuck, by either of two signs, and what is done then."""

    silent: NotRequired[float | None]
    then: NotRequired[WatchedThen]
    idle_gpus: NotRequired[IdleGpus | None]


class WatchRequest(TypedDict):
    """When a job counts as stuck, by either of two signs, and what is done then."""

    silent: NotRequired[str | float | None]
    then: NotRequired[WatchedThen | None]
    idle_gpus: NotRequired[IdleGpusRequest | None]


class WhatIf(TypedDict):
    id: str
    state: WhatIfState
    problem: str
    fields: list[FieldProblem]
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


class WholeAdvice(TypedDict):
    """Advice, with the specification that it proposes."""

    id: str
    state: WhatIfState
    problem: str
    fields: list[FieldProblem]
    asked_at: str
    asked_by: str
    days: float
    jobs: int
    made_at: str | None
    assumption: str
    rows: list[AdviceRow]
    totals: AdviceTotalsBoth | None
    curves: dict[str, list[AdviceCurvePoint]]
    based_on_version: int
    applied_at: str | None
    specification: CellDocument | None


class Why(TypedDict):
    state: JobState
    reasons: list[Reason]
    position: int | None
    queue_length: int | None
    round: int | None
    decided_at: str | None
    prediction: Prediction | None
    no_prediction: str


class Anomalies(TypedDict):
    """
    Comparison of a virtual cluster's guaranteed jobs here and in a private cluster of its guaranteed
    GPUs.
    """

    virtual_cluster: str
    state: AnomaliesStateEnum
    problem: str
    made_at: str | None
    since: str | None
    until: str | None
    jobs: int
    never: int
    delay: Delays | None
    series: list[DelayPoint]
    tolerance_seconds: float
    count: int
    total_extra_seconds: float
    hard_affinity_count: int
    anomalies: list[Anomaly]
    assumption: str


class Attempt(TypedDict):
    id: int
    number: int
    is_trial: bool
    state: AttemptState
    outcome: AttemptOutcomeEnum | BlankEnum
    gpu_model: str
    placement: list[PlacementPart]
    turn: AttemptTurn | None
    enforcement: EnforcementEnum | BlankEnum
    auxiliary: AuxiliaryShare | None
    exit_code: int | None
    signal: str
    category: str
    failure: str
    matched_rule: MatchedRule | None
    message: str
    stop_cause: StopCauseEnum | BlankEnum
    preempted_by: list[int]
    lost_seconds: float | None
    planned_at: str
    starting_at: str | None
    running_at: str | None
    stopping_at: str | None
    ended_at: str | None
    throughput: float | None
    step: int | None
    total_steps: int | None


class BudgetState(TypedDict):
    budget: BudgetTerms | None
    used: float
    counts_from: str
    ends_at: str | None
    used_last_day: float
    expected: float | None
    reached_at: str | None
    currency: str | None
    is_holding: bool


class Cells(TypedDict):
    version: int
    specification: CellDocument
    changed_at: str | None
    changed_by: str | None
    gpu_models: list[str]
    chains: list[ChainSummary]
    problems: list[FieldProblem]


class FailureRuleListRequest(TypedDict):
    rules: list[FailureRuleRequest]


class Fragmentation(TypedDict):
    points: list[FragmentationPoint]
    newest: FragmentationNow | None


class JobMetricsAnswer(TypedDict):
    since: str
    until: str
    resolution_seconds: int
    simulated: bool
    left_out: int
    series: list[Series]
    attempts: list[MeasuredAttempt]


class JobScaling(TypedDict):
    is_elastic: bool
    mode: ElasticMode | NullEnum | None
    min_gpus: int
    gpus: float
    max_gpus: int
    allocations: list[ScalingAllocation]
    has_earlier: bool
    now: ScalingNow | None
    gpu_model: str | None
    curve: list[ScalingPoint]
    rests_on: ScalingEvidence | None


class JobSpec(TypedDict):
    """What a job asks for. If a job has one task, `command`, `gpus`, `gpu_model`, `resources`, `replicas` and `env` may stand here instead of in `tasks`."""

    name: str
    description: NotRequired[str | None]
    virtual_cluster: NotRequired[str | None]
    priority: NotRequired[int]
    guarantee: NotRequired[GuaranteeEnum]
    tasks: list[Task]
    elastic: NotRequired[Elastic | None]
    image: NotRequired[str | None]
    launcher: NotRequired[LauncherEnum | None]
    topology: NotRequired[Topology | None]
    time_limit: NotRequired[float | None]
    estimate: NotRequired[float | None]
    deadline: NotRequired[float | None]
    application: NotRequired[str | None]
    search: NotRequired[str | None]
    skew: NotRequired[float | None]
    nodes: NotRequired[Nodes | None]
    pinned_cell: NotRequired[str | None]
    reservation: NotRequired[str | None]
    on_reclaim: NotRequired[OnReclaimEnum | None]
    sharing: NotRequired[Sharing | None]
    tags: NotRequired[list[Tag]]
    constraints: NotRequired[list[TagConstraint]]
    array: NotRequired[JobArray | None]
    after: NotRequired[list[Awaited]]
    on_unmet: NotRequired[OnUnmetEnum]
    singleton: NotRequired[bool]
    begin: NotRequired[str | float | None]
    hold: NotRequired[bool]
    code: NotRequired[Code | None]
    retry: NotRequired[Retry]
    watch: NotRequired[Watch | None]
    trial: NotRequired[Trial | None]
    input_workers: NotRequired[InputWorkers | None]
    data: NotRequired[DataSet | None]
    notify: NotRequired[Notify | None]
    ports: NotRequired[list[Port]]
    secrets: NotRequired[list[SecretUse]]
    checkpoint: NotRequired[Checkpoint]
    throughput: NotRequired[dict[str, float]]
    labels: NotRequired[dict[str, str]]


class JobSpecRequest(TypedDict):
    """What a job asks for. If a job has one task, `command`, `gpus`, `gpu_model`, `resources`, `replicas` and `env` may stand here instead of in `tasks`."""

    name: str
    description: NotRequired[str | None]
    virtual_cluster: NotRequired[str | None]
    priority: NotRequired[int | None]
    guarantee: NotRequired[GuaranteeEnum | None]
    tasks: NotRequired[list[TaskRequest]]
    elastic: NotRequired[ElasticRequest | None]
    image: NotRequired[str | None]
    launcher: NotRequired[LauncherEnum | None]
    topology: NotRequired[TopologyRequest | None]
    time_limit: NotRequired[str | float | None]
    estimate: NotRequired[str | float | None]
    deadline: NotRequired[str | float | None]
    application: NotRequired[str | None]
    search: NotRequired[str | None]
    skew: NotRequired[float | None]
    nodes: NotRequired[NodesRequest | None]
    pinned_cell: NotRequired[str | None]
    reservation: NotRequired[str | None]
    on_reclaim: NotRequired[OnReclaimEnum | None]
    sharing: NotRequired[SharingRequest | None]
    tags: NotRequired[list[Tag] | None]
    constraints: NotRequired[list[TagConstraintRequest] | None]
    array: NotRequired[JobArrayRequest | None]
    after: NotRequired[list[int | str | AwaitedRequest] | None]
    on_unmet: NotRequired[OnUnmetEnum | None]
    singleton: NotRequired[bool | None]
    begin: NotRequired[str | float | None]
    hold: NotRequired[bool | None]
    code: NotRequired[CodeRequest | None]
    retry: NotRequired[RetryRequest | None]
    watch: NotRequired[WatchRequest | None]
    trial: NotRequired[TrialRequest | None]
    input_workers: NotRequired[InputWorkersRequest | None]
    data: NotRequired[DataSetRequest | None]
    notify: NotRequired[NotifyRequest | None]
    ports: NotRequired[list[str | PortRequest] | None]
    secrets: NotRequired[list[str | SecretUseRequest] | None]
    checkpoint: NotRequired[CheckpointRequest | None]
    throughput: NotRequired[dict[str, float] | None]
    labels: NotRequired[dict[str, str] | None]
    command: NotRequired[str | list[str] | None]
    gpus: NotRequired[int | float | None]
    gpu_model: NotRequired[str | list[GpuModelItem] | None]
    resources: NotRequired[ShortResourcesRequest | None]
    sensitivity: NotRequired[SensitivityRequest | None]
    replicas: NotRequired[int | None]
    env: NotRequired[dict[str, str | float] | None]
    notebook: NotRequired[bool | None]


class JobSubmitRequest(TypedDict):
    """What a job asks for. If a job has one task, `command`, `gpus`, `gpu_model`, `resources`, `replicas` and `env` may stand here instead of in `tasks`."""

    tenant: NotRequired[str]
    name: str
    description: NotRequired[str | None]
    virtual_cluster: NotRequired[str | None]
    priority: NotRequired[int | None]
    guarantee: NotRequired[GuaranteeEnum | None]
    tasks: NotRequired[list[TaskRequest]]
    elastic: NotRequired[ElasticRequest | None]
    image: NotRequired[str | None]
    launcher: NotRequired[LauncherEnum | None]
    topology: NotRequired[TopologyRequest | None]
    time_limit: NotRequired[str | float | None]
    estimate: NotRequired[str | float | None]
    deadline: NotRequired[str | float | None]
    application: NotRequired[str | None]
    search: NotRequired[str | None]
    skew: NotRequired[float | None]
    nodes: NotRequired[NodesRequest | None]
    pinned_cell: NotRequired[str | None]
    reservation: NotRequired[str | None]
    on_reclaim: NotRequired[OnReclaimEnum | None]
    sharing: NotRequired[SharingRequest | None]
    tags: NotRequired[list[Tag] | None]
    constraints: NotRequired[list[TagConstraintRequest] | None]
    array: NotRequired[JobArrayRequest | None]
    after: NotRequired[list[int | str | AwaitedRequest] | None]
    on_unmet: NotRequired[OnUnmetEnum | None]
    singleton: NotRequired[bool | None]
    begin: NotRequired[str | float | None]
    hold: NotRequired[bool | None]
    code: NotRequired[CodeRequest | None]
    retry: NotRequired[RetryRequest | None]
    watch: NotRequired[WatchRequest | None]
    trial: NotRequired[TrialRequest | None]
    input_workers: NotRequired[InputWorkersRequest | None]
    data: NotRequired[DataSetRequest | None]
    notify: NotRequired[NotifyRequest | None]
    ports: NotRequired[list[str | PortRequest] | None]
    secrets: NotRequired[list[str | SecretUseRequest] | None]
    checkpoint: NotRequired[CheckpointRequest | None]
    throughput: NotRequired[dict[str, float] | None]
    labels: NotRequired[dict[str, str] | None]
    command: NotRequired[str | list[str] | None]
    gpus: NotRequired[int | float | None]
    gpu_model: NotRequired[str | list[GpuModelItem] | None]
    resources: NotRequired[ShortResourcesRequest | None]
    sensitivity: NotRequired[SensitivityRequest | None]
    replicas: NotRequired[int | None]
    env: NotRequired[dict[str, str | float] | None]
    notebook: NotRequired[bool | None]


class JobTemplateInputRequest(TypedDict):
    """Unknown fields and values of a wrong type are refused."""

    summary: NotRequired[str]
    spec: JobSpecRequest


class MapAttempt(TypedDict):
    state: AttemptState
    running_at: str | None
    placement: list[MapPart]


class MapJob(TypedDict):
    """What the map and the tiles show of a job. Each field is that of the whole job."""

    id: int
    name: str
    tenant: str
    virtual_cluster: str
    state: JobState
    guarantee: GuaranteeEnum
    gpus: int
    submitted_at: str
    attempt: MapAttempt | None
    position: int | None
    held: bool
    version: int


class Me(TypedDict):
    user: MeUser
    is_operator: bool
    saw_tour: bool
    tenants: list[MeTenant]
    csrf_token: str


class Node(TypedDict):
    id: int
    name: str
    rack: str
    gpu_model: str | None
    address: str
    state: NodeState
    cordoned: bool
    draining: bool
    drained: bool
    drain_deadline: str | None
    withdrawn: NodeWithdrawal | None
    loan: NodeLoan | None
    maintenance: NodeMaintenance | None
    health: list[NodeCheck]
    isolation: dict[str, bool]
    isolation_level: IsolationLevelEnum
    enforcement: EnforcementEnum | BlankEnum
    cpus: float
    cpus_held: float
    memory_bytes: int
    memory_bytes_held: int
    storage_bandwidth: float
    cache_bytes: int
    agent_version: str
    lease_expires_at: str | None
    gpus: list[Gpu]
    version: int


class NodeMetricsAnswer(TypedDict):
    since: str
    until: str
    resolution_seconds: int
    simulated: bool
    left_out: int
    series: list[Series]


class PaginatedAttemptList(TypedDict):
    results: list[Attempt]
    next: str | None
    previous: str | None


class PaginatedMapJobList(TypedDict):
    results: list[MapJob]
    next: str | None
    previous: str | None


class PaginatedNodeList(TypedDict):
    results: list[Node]
    next: str | None
    previous: str | None


class PaginatedReservationList(TypedDict):
    results: list[Reservation]
    next: str | None
    previous: str | None


class PaginatedRoundList(TypedDict):
    results: list[Round]
    next: str | None
    previous: str | None


class PaginatedSecretList(TypedDict):
    results: list[Secret]
    next: str | None
    previous: str | None


class PaginatedSharedGpuList(TypedDict):
    results: list[SharedGpu]
    next: str | None
    previous: str | None


class PaginatedThroughputRowList(TypedDict):
    results: list[ThroughputRow]
    next: str | None
    previous: str | None


class PaginatedUserList(TypedDict):
    results: list[User]
    next: str | None
    previous: str | None


class PaginatedVirtualClusterList(TypedDict):
    results: list[VirtualCluster]
    next: str | None
    previous: str | None


class WhatIfQuestionRequest(TypedDict):
    """One or more of: changes of a waiting job, the specification of a new job, changes of the cluster."""

    job: NotRequired[int]
    changes: NotRequired[JobChangesRequest]
    tenant: NotRequired[str]
    spec: NotRequired[JobSpecRequest]
    cluster: NotRequired[ClusterChangesRequest]


class BulkSubmitRequest(TypedDict):
    tenant: NotRequired[str]
    jobs: list[JobSpecRequest]


class CheckAnswer(TypedDict):
    ok: bool
    fields: list[FieldProblem]
    warnings: list[str]
    normalised: JobSpec | None
    gpus: int
    gpu_amount: float
    message: str


class Job(TypedDict):
    id: int
    name: str
    tenant: str
    virtual_cluster: str
    submitted_by: str
    state: JobState
    phase: PhaseEnum
    guarantee: GuaranteeEnum
    priority: int
    gpus: int
    gpu_models: list[str]
    spec: JobSpec
    submitted_at: str
    eligible_at: str | None
    started_at: str | None
    ended_at: str | None
    deadline_at: str | None
    attempts: int
    attempt: Attempt | None
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
    code: JobCode | None
    maintenance: JobMaintenance | None
    array: ArrayTask | None
    serves: int | None
    version: int


class PaginatedJobList(TypedDict):
    results: list[Job]
    next: str | None
    previous: str | None
