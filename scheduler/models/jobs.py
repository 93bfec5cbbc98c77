"""Jobs, why they wait, and in which order."""

from datetime import UTC, datetime
from enum import StrEnum

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Coalesce

from scheduler.core.model.lifecycle import JOB_FINAL, JobState
from scheduler.core.perf.throughput import JobClass, job_class_of
from scheduler.jobspec.shape import Shape, stored_shape
from scheduler.jobspec.spec import JobSpec
from scheduler.jobspec.stored import stored_specification
from scheduler.models.archives import Archive
from tenants.models import Tenant, VirtualCluster


def choices_of(states: type[StrEnum]) -> list[tuple[str, str]]:
    """Return the states as a column's choices."""
    return [(state.value, state.value) for state in states]


_FINAL = sorted(JOB_FINAL)


def or_never(column: str) -> Coalesce:
    """Return an instant of a job, the end of time where there is none: as it sorts, and is indexed."""
    return Coalesce(column, Value(datetime.max.replace(tzinfo=UTC)))


class Job(models.Model):
    """What a user submitted. `spec` is its normal form as stored and `specification` the same as a value;
    columns repeat what is queried.
    """

    # No index of its own, here and below: another one begins with it, and each is written with every row.
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    virtual_cluster = models.ForeignKey(VirtualCluster, on_delete=models.PROTECT, related_name="jobs")
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=63)
    spec = models.JSONField()
    #: What a round needs of the spec, as `jobspec.shape.Shape` stores it; `needs` is the same as a value.
    #: Until its trial run is over it is the shape of the trial, which contains the job's own.
    shape = models.JSONField()
    labels = models.JSONField(default=dict)
    #: What its working folders begin with, where the spec names one.
    archive = models.ForeignKey(
        Archive, null=True, on_delete=models.PROTECT, related_name="jobs", db_index=False
    )

    #: For a task of an array: the array's number, which is that of its first task.
    array_id = models.BigIntegerField(null=True)
    #: {"index": its own, "size": tasks of the array, "at_most": how many run at once, or null}.
    array = models.JSONField(null=True)

    #: The attempt for which it makes batches, if the platform started it as an input worker.
    serves = models.ForeignKey(
        "scheduler.Attempt", null=True, on_delete=models.CASCADE, related_name="input_workers", db_index=False
    )

    guaranteed = models.BooleanField(default=True)
    #: Higher wins.
    priority = models.SmallIntegerField(default=0)
    gpus = models.PositiveIntegerField()
    #: Acceptable models, the preferred first; empty means any.
    gpu_models = ArrayField(models.CharField(max_length=63), default=list)
    time_limit_seconds = models.FloatField(null=True)

    state = models.CharField(max_length=10, choices=choices_of(JobState), default=JobState.QUEUED)
    held = models.BooleanField(default=False)
    cancelling = models.BooleanField(default=False)
    #: No attempt before this: its begin, as `spec` states it, or back-off after a failure.
    eligible_at = models.DateTimeField(null=True)
    #: Since when it could be started, after it ran, was on hold or waited for other jobs; None: all along.
    waits_since = models.DateTimeField(null=True)
    attempts_started = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    preemptions = models.PositiveIntegerField(default=0)
    #: How often in a row it was preempted before it had run for long enough (`core.backoff`), and from when
    #: on it may borrow GPUs again.
    short_runs = models.PositiveIntegerField(default=0)
    may_borrow_at = models.DateTimeField(null=True)
    #: What a preemption costs it, by its own attempts (`attempts.services.preemption_cost`); None: not known.
    preemption_cost_seconds = models.FloatField(null=True)
    #: Nodes, by id, on which it is not to be started again: their hardware failed it.
    avoid_nodes = ArrayField(models.BigIntegerField(), default=list)
    #: GPU-seconds received by ended attempts, by GPU model.
    service = models.JSONField(default=dict)
    #: What its progress lines report of its steps (`core.pace.Pace`); None: nothing. Never bumps its version.
    pace = models.JSONField(null=True)

    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    message = models.CharField(max_length=500, blank=True)
    #: Grows with every change of state, never with heartbeats or progress.
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=list(JobState)), name="job_state_is_known"),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=False, state__in=_FINAL)
                | (Q(ended_at=None) & ~Q(state__in=_FINAL)),
                name="job_ended_at_matches_state",
            ),
        ]
        indexes = [
            # What every round reads.
            models.Index(fields=["id"], condition=Q(state__in=["queued", "running"]), name="job_unfinished"),
            models.Index(fields=["tenant", "-id"], name="job_by_tenant"),
            models.Index(fields=["state", "-id"], name="job_by_state"),
            GinIndex(fields=["labels"], name="job_labels"),
            # The orders of lists, and their ranges of time: a page costs the same however many have ended.
            models.Index(or_never("started_at"), "id", name="job_by_start"),
            models.Index(or_never("ended_at"), "id", name="job_by_end"),
            models.Index(fields=["name", "id"], name="job_by_name"),
            models.Index(fields=["gpus", "id"], name="job_by_gpus"),
            models.Index(fields=["priority", "id"], name="job_by_priority"),
            models.Index(fields=["archive"], condition=Q(archive__isnull=False), name="job_by_archive"),
            models.Index(fields=["array_id", "id"], condition=Q(array_id__isnull=False), name="job_by_array"),
            models.Index(fields=["serves", "id"], condition=Q(serves__isnull=False), name="job_by_served"),
            # What is known of the cost of preemptions in a virtual cluster, the latest first.
            models.Index(
                fields=["virtual_cluster", "-id"],
                condition=Q(preemption_cost_seconds__isnull=False),
                name="job_preemption_costs",
            ),
        ]

    @property
    def specification(self) -> JobSpec:
        """What its user asked for."""
        return stored_specification(self.spec)

    @property
    def needs(self) -> Shape:
        """What a round needs of it; while a trial is due, what the trial needs."""
        return stored_shape(self.shape)

    @property
    def job_class(self) -> JobClass:
        """Which throughputs and run times it shares; its tenant is read along."""
        return job_class_of(self.tenant.name, self.needs.application, self.name)

    @property
    def grace_seconds(self) -> float:
        """How long its processes may take to end when they are stopped."""
        return self.specification.grace_seconds

    @property
    def is_trial_due(self) -> bool:
        """Whether the next attempt is a trial run."""
        return bool(self.needs.after_trial)


class DependencyState(StrEnum):
    """What became of what a job waits for."""

    AWAITED = "awaited"
    MET = "met"
    #: The other job ended otherwise.
    NEVER = "never"


class Dependency(models.Model):
    """What a job waits for another job to do, as its specification states it: found here by either job."""

    job = models.ForeignKey("scheduler.Job", on_delete=models.CASCADE, related_name="dependencies")
    awaited = models.ForeignKey("scheduler.Job", on_delete=models.CASCADE, related_name="dependents")
    when = models.CharField(max_length=9)
    state = models.CharField(
        max_length=7, choices=choices_of(DependencyState), default=DependencyState.AWAITED.value
    )
    #: Rounds still have to read it.
    is_open = models.BooleanField(default=True)
    #: The job is cancelled when it cannot be met any more; else it waits for ever.
    cancels = models.BooleanField(default=True)

    class Meta:
        indexes = [models.Index(fields=["id"], condition=Q(is_open=True), name="dependency_open")]


class Explanation(models.Model):
    """Why a job waits, by the newest round in which the answer changed."""

    job = models.OneToOneField(
        "scheduler.Job", on_delete=models.CASCADE, primary_key=True, related_name="explanation"
    )
    reasons = models.JSONField()
    #: Of `reasons`, so that a round can find what changed without reading all of them.
    digest = models.CharField(max_length=16)
    round_number = models.PositiveBigIntegerField()
    decided_at = models.DateTimeField()


class QueueOrder(models.Model):
    """The waiting jobs of a view in the order in which they will be considered: one row a view, so that a job
    leaving the head does not rewrite a row of every job behind it.
    """

    view = models.CharField(max_length=63, primary_key=True)
    jobs = models.JSONField(default=list)
    round_number = models.PositiveBigIntegerField()


class SavedSearch(models.Model):
    """A search of the page of jobs that has a name: its owner's own, or one that a tenant shares."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    #: The tenant whose members see it too; None: only its owner sees it.
    tenant = models.ForeignKey(
        Tenant, null=True, on_delete=models.CASCADE, related_name="saved_searches", db_index=False
    )
    name = models.CharField(max_length=63)
    #: What stands in the page's address, without the question mark.
    search = models.CharField(max_length=2_000)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "name"], condition=Q(tenant=None), name="saved_search_of_owner"
            ),
            models.UniqueConstraint(
                fields=["tenant", "name"],
                condition=Q(tenant__isnull=False),
                name="saved_search_of_tenant",
            ),
        ]


class JobTemplate(models.Model):
    """A specification under a name, from which members of a tenant start."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="job_templates", db_index=False)
    #: None: that user was deleted.
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    name = models.CharField(max_length=63)
    summary = models.CharField(max_length=200, blank=True)
    #: As it was written, not in normal form.
    spec = models.JSONField()
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="job_template_of_tenant")]
