"""Nodes, their GPUs and GPU models, and what checks of nodes found."""

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

GPU_MODEL_NAME = RegexValidator(
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", "Use letters, digits, '.', '_' and '-'."
)
NODE_NAME = RegexValidator(
    r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$", "Use 1 to 63 lower-case letters, digits, '.' and '-'."
)


class GpuModel(models.Model):
    name = models.CharField(max_length=63, unique=True, validators=[GPU_MODEL_NAME])
    memory_bytes = models.PositiveBigIntegerField(default=0)
    #: What one of its GPUs costs for an hour, in the unit in which the operators count costs.
    price_per_hour = models.FloatField(default=1.0, db_default=1.0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(price_per_hour__gte=0), name="price_is_not_negative"),
        ]

    def __str__(self) -> str:
        return self.name


class NodeState(models.TextChoices):
    """`new` has never reported; `lost` stopped reporting for longer than its lease and a margin."""

    NEW = "new"
    READY = "ready"
    LOST = "lost"


class AgentService(models.Model):
    """One row: when agents were last known to be served (`agents.services.leases.pulse`)."""

    at = models.DateTimeField()
    #: When service began again after its last interruption.
    since = models.DateTimeField(null=True)


class ServingPool(models.Model):
    """Nodes that answer users' requests; those that it does not need it lends (docs/serving-pools.md)."""

    name = models.CharField(max_length=63, unique=True, validators=[NODE_NAME])
    #: How long a return takes at most.
    return_seconds = models.FloatField(default=300)
    #: Nodes that it needs itself by time of day (UTC), {"08:00": 6}; null: it lends by name only.
    nodes_needed = models.JSONField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(return_seconds__gt=0), name="return_takes_time"),
        ]

    def __str__(self) -> str:
        return self.name


class LoanState(models.TextChoices):
    """Where a node of a serving pool is; `none` for every other node."""

    NONE = ""
    SERVING = "serving"
    LENT = "lent"
    RETURNING = "returning"


class Node(models.Model):
    """One machine. Cordoned: accepts nothing new. Draining: its jobs are moved away as well, at once or at a
    deadline, until which it accepts what will have ended by then."""

    name = models.CharField(max_length=63, unique=True, validators=[NODE_NAME])
    rack = models.CharField(max_length=63, default="rack-1", validators=[NODE_NAME])
    gpu_model = models.ForeignKey(GpuModel, on_delete=models.PROTECT, null=True, related_name="nodes")
    state = models.CharField(max_length=5, choices=NodeState.choices, default=NodeState.NEW)
    cordoned = models.BooleanField(default=False)
    draining = models.BooleanField(default=False)
    #: When its jobs are moved away, while that is still to come.
    drain_deadline = models.DateTimeField(null=True)
    #: Who cordoned or drains it, why and since when.
    cordoned_by = models.CharField(max_length=80, blank=True)
    cordon_why = models.CharField(max_length=500, blank=True)
    cordoned_at = models.DateTimeField(null=True)
    #: Cordoned because a health check failed, and uncordoned when all are ok again.
    returns_itself = models.BooleanField(default=False)

    #: The pool that has it while it is not lent; null: it is the cluster's own.
    serving_pool = models.ForeignKey(ServingPool, on_delete=models.PROTECT, null=True, related_name="nodes")
    loan_state = models.CharField(
        max_length=9, choices=LoanState.choices, default=LoanState.NONE, db_default=LoanState.NONE, blank=True
    )
    #: Who lent it or asked it back last, why and when.
    loan_by = models.CharField(max_length=80, blank=True, default="", db_default="")
    loan_why = models.CharField(max_length=300, blank=True, default="", db_default="")
    loan_since = models.DateTimeField(null=True)
    #: When the pool has a node back that it lends for a time.
    lent_until = models.DateTimeField(null=True)
    #: When the pool has a returning node back, and when the jobs still on it are stopped.
    return_by = models.DateTimeField(null=True)
    return_stops_at = models.DateTimeField(null=True)

    address = models.CharField(max_length=255, blank=True)
    cpus = models.FloatField(default=0)
    memory_bytes = models.PositiveBigIntegerField(default=0)
    #: Bytes a second of its storage, and bytes of what it read that stay in its cache; 0: not reported.
    storage_bandwidth = models.FloatField(default=0, db_default=0)
    cache_bytes = models.PositiveBigIntegerField(default=0, db_default=0)
    isolation = models.JSONField(default=dict)
    agent_version = models.CharField(max_length=40, blank=True)

    token_key = models.CharField(max_length=16, unique=True, null=True)
    token_digest = models.BinaryField(max_length=32, null=True)

    #: One life of the agent process; its inventory is known for this life.
    boot = models.CharField(max_length=40, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    #: Number of the last answer to the agent, drawn before its desired state was read: the answer with the
    #: higher number was read later than another, or equals it.
    generation = models.PositiveBigIntegerField(default=0)
    #: Grows with every change that the dashboard shows or a round must not miss; not with heartbeats.
    version = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=NodeState.values), name="node_state_is_known"),
            models.CheckConstraint(
                condition=Q(draining=False) | Q(cordoned=True) | Q(drain_deadline__isnull=False),
                name="draining_is_cordoned_or_will_be",
            ),
            models.CheckConstraint(
                condition=Q(drain_deadline__isnull=True) | Q(draining=True), name="deadline_of_draining"
            ),
            models.CheckConstraint(
                condition=Q(serving_pool__isnull=True, loan_state=LoanState.NONE)
                | Q(serving_pool__isnull=False)
                & Q(loan_state__in=[LoanState.SERVING, LoanState.LENT, LoanState.RETURNING]),
                name="loan_of_a_serving_pool",
            ),
            models.CheckConstraint(
                condition=Q(loan_state=LoanState.RETURNING)
                & Q(return_by__isnull=False)
                & Q(return_stops_at__isnull=False)
                | ~Q(loan_state=LoanState.RETURNING)
                & Q(return_by__isnull=True)
                & Q(return_stops_at__isnull=True),
                name="return_has_its_instants",
            ),
            models.CheckConstraint(
                condition=Q(returns_itself=False) | Q(cordoned=True), name="returns_from_cordon"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Gpu(models.Model):
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    index = models.PositiveSmallIntegerField()
    uuid = models.CharField(max_length=80)
    memory_bytes = models.PositiveBigIntegerField(default=0)
    socket = models.PositiveSmallIntegerField(default=0)
    switch = models.PositiveSmallIntegerField(default=0)
    healthy = models.BooleanField(default=True)
    problem = models.CharField(max_length=200, blank=True)
    #: The node's last inventory named it. Kept when it vanishes, since history points to it.
    present = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "index"], name="one_gpu_per_index"),
        ]


class Verdict(models.TextChoices):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class NodeCheck(models.Model):
    """One check of one node, as its agent reported it last."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="checks")
    name = models.CharField(max_length=60)
    verdict = models.CharField(max_length=7, choices=Verdict.choices)
    message = models.CharField(max_length=300, blank=True)
    #: The index of the one device that it is about; null: the whole node.
    gpu = models.PositiveSmallIntegerField(null=True)
    #: When the verdict became what it is.
    since = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "name"], name="one_check_per_name"),
            models.CheckConstraint(condition=models.Q(verdict__in=Verdict.values), name="verdict_is_known"),
        ]
