"""Rounds and what they wrote: allocations, memory, explanations, and the fence."""

from django.db import models
from django.db.models import Q

from scheduler.core.model.lifecycle import HoldPhase
from scheduler.models.inventory import Gpu
from tenants.models import VirtualCluster


class Leadership(models.Model):
    """One row. `number` is the current round: its name and its fence."""

    number = models.PositiveBigIntegerField(default=0)
    #: While this is in the future, a round is being decided and no other may start.
    expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="leadership_is_one_row")]


class RoundState(models.TextChoices):
    APPLIED = "applied"
    FENCED = "fenced"
    FAILED = "failed"


class Round(models.Model):
    """A record from which the round can be decided again, bit for bit."""

    number = models.PositiveBigIntegerField(primary_key=True)
    started_at = models.DateTimeField()
    state = models.CharField(max_length=7, choices=RoundState.choices)
    snapshot_seconds = models.FloatField(default=0)
    decide_seconds = models.FloatField(default=0)
    apply_seconds = models.FloatField(default=0)
    started = models.PositiveIntegerField(default=0)
    kept = models.PositiveIntegerField(default=0)
    stopped = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    dropped = models.JSONField(default=list)
    degraded = models.JSONField(default=dict)
    error = models.TextField(blank=True)
    #: Compressed, by `core.model.codec`. Null when the round failed before there was one.
    snapshot = models.BinaryField(null=True)
    plan = models.BinaryField(null=True)


class Allocation(models.Model):
    """The GPUs of one grant. `replicas` lists GPU ids by task, then replica."""

    round_number = models.PositiveBigIntegerField()
    view = models.CharField(max_length=63)
    virtual_cluster = models.ForeignKey(VirtualCluster, on_delete=models.PROTECT, related_name="allocations")
    guaranteed = models.BooleanField()
    gpu_model = models.CharField(max_length=63)
    replicas = models.JSONField()
    phase = models.CharField(max_length=8, choices=[(p.value, p.value) for p in HoldPhase])
    created_at = models.DateTimeField()
    held_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)
    #: Its jobs take turns of so many seconds, the others frozen in place; None: they run at the same time.
    slice_seconds = models.FloatField(null=True)

    @property
    def gpu_count(self) -> int:
        return sum(map(len, self.replicas))

    class Meta:
        indexes = [
            models.Index(fields=["id"], condition=~Q(phase="released"), name="allocation_active"),
        ]


class AllocatedGpu(models.Model):
    """One GPU of an allocation. The two partial indexes are the last guard of the whole platform:
    a GPU has at most one holder and at most one planned successor, whatever the code above believes."""

    # No index of its own: the constraint's begins with it, and each is written with every row.
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="gpus", db_index=False)
    gpu = models.ForeignKey(Gpu, on_delete=models.PROTECT, related_name="allocations")
    phase = models.CharField(max_length=8, choices=[(p.value, p.value) for p in HoldPhase])
    #: A gang may leave its nodes one after another.
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["gpu"], condition=Q(phase="held"), name="one_holder_per_gpu"),
            models.UniqueConstraint(
                fields=["gpu"], condition=Q(phase="planned"), name="one_successor_per_gpu"
            ),
            models.UniqueConstraint(fields=["allocation", "gpu"], name="gpu_once_per_allocation"),
            models.CheckConstraint(condition=Q(phase__in=list(HoldPhase)), name="hold_phase_is_known"),
        ]


class PolicyMemory(models.Model):
    """What the policy of a view remembered; JSON, may be lost without harm."""

    view = models.CharField(max_length=63, primary_key=True)
    memory = models.JSONField(default=dict)


class ViewComputing(models.Model):
    """How long the computations of a view's policy take, and whether it is taking too long.

    A row for each view whose policy computes outside the round's own process.
    """

    view = models.CharField(max_length=63, primary_key=True)
    #: Computations begun, those of them that took too long or broke down, and seconds in the newest round.
    computations = models.PositiveBigIntegerField(default=0)
    overruns = models.PositiveBigIntegerField(default=0)
    last_seconds = models.FloatField(default=0)
    #: Since when a cheap policy decides in its place; null: it decides itself.
    since = models.DateTimeField(null=True)
    message = models.TextField(blank=True)
    #: Attempts in a row that took too long, and rounds to come that do without one.
    failures = models.PositiveIntegerField(default=0)
    rounds_to_skip = models.PositiveIntegerField(default=0)
    #: Name and parameters of the policy that this is about: another one is tried at once.
    policy = models.JSONField(default=list)


class Explanation(models.Model):
    """Why a job waits, by the newest round in which the answer changed."""

    job = models.OneToOneField(
        "scheduler.Job", on_delete=models.CASCADE, primary_key=True, related_name="explanation"
    )
    reasons = models.JSONField()
    #: Of `reasons`, so that a round can tell what changed without reading all of them.
    digest = models.CharField(max_length=16)
    round_number = models.PositiveBigIntegerField()
    decided_at = models.DateTimeField()


class QueueOrder(models.Model):
    """The waiting jobs of a view in the order in which they will be considered: one row a view, so
    that a job leaving the head does not rewrite a row of everyone behind it."""

    view = models.CharField(max_length=63, primary_key=True)
    jobs = models.JSONField(default=list)
    round_number = models.PositiveBigIntegerField()


class UsageSample(models.Model):
    """GPUs in use at one instant, by tenant name."""

    at = models.DateTimeField(unique=True)
    total = models.PositiveIntegerField()
    held = models.PositiveIntegerField()
    by_tenant = models.JSONField(default=dict)
