"""Jobs, their attempts, an attempt's part on each node, and what attempts write."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from scheduler.core.model.lifecycle import JOB_FINAL, AttemptState, JobState, Outcome
from scheduler.models.inventory import Node
from tenants.models import Tenant, VirtualCluster


def _choices(states: type) -> list[tuple[str, str]]:
    return [(state.value, state.value) for state in states]


_FINAL = sorted(JOB_FINAL)


class Job(models.Model):
    """What a user submitted. `spec` is the normalised specification; columns repeat what is queried."""

    # No index of its own, here and below: another one begins with it, and each is written with every row.
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    virtual_cluster = models.ForeignKey(VirtualCluster, on_delete=models.PROTECT, related_name="jobs")
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=63)
    spec = models.JSONField()
    #: What a round needs of the spec, small: {"tasks": [[replicas, gpus, cpus, memory_bytes], ...],
    #: "min_gpus": number or null if not elastic, "topology": [level, required] or null,
    #: "throughput": {gpu model: samples per second}, "estimate_seconds": number or null,
    #: "application": text, "search": text, "skew": number or null, "pinned_cell": text,
    #: "nodes": {"only": names, "avoid": names} or null, "on_reclaim": "preempt", "downgrade" or "",
    #: "deadline_seconds": number from submission or null, "needs_containers": truth}. Until its trial run is
    #: over that of the trial, with "limit_seconds" and, as "after_trial", the job's own.
    shape = models.JSONField()
    labels = models.JSONField(default=dict)

    guaranteed = models.BooleanField(default=True)
    #: Higher wins.
    priority = models.SmallIntegerField(default=0)
    gpus = models.PositiveIntegerField()
    #: Acceptable models, the preferred first; empty means any.
    gpu_models = ArrayField(models.CharField(max_length=63), default=list)
    time_limit_seconds = models.FloatField(null=True)

    state = models.CharField(max_length=10, choices=_choices(JobState), default=JobState.QUEUED)
    held = models.BooleanField(default=False)
    cancelling = models.BooleanField(default=False)
    #: Back-off: no attempt before this.
    eligible_at = models.DateTimeField(null=True)
    attempts_started = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    preemptions = models.PositiveIntegerField(default=0)
    #: How often in a row it was preempted before it had run for long enough (`core.backoff`), and from when
    #: on it may borrow GPUs again.
    short_runs = models.PositiveIntegerField(default=0)
    may_borrow_at = models.DateTimeField(null=True)
    #: What a preemption costs it, by its own attempts (`services.attempts.preemption_cost`); None: not known.
    preemption_cost_seconds = models.FloatField(null=True)
    #: Nodes, by id, on which it is not to be started again: their hardware failed it.
    avoid_nodes = ArrayField(models.BigIntegerField(), default=list)
    #: GPU-seconds received by ended attempts, by GPU model.
    service = models.JSONField(default=dict)
    #: What its progress lines say of its steps (`core.pace.Pace`); None: nothing. Never bumps its version.
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
            models.CheckConstraint(condition=Q(gpus__gt=0), name="job_has_gpus"),
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
            # What is known of the cost of preemptions in a virtual cluster, the latest first.
            models.Index(
                fields=["virtual_cluster", "-id"],
                condition=Q(preemption_cost_seconds__isnull=False),
                name="job_preemption_costs",
            ),
        ]

    @property
    def is_trial_due(self) -> bool:
        """Whether the next attempt is a trial run."""
        return "after_trial" in self.shape


class StopCause(models.TextChoices):
    """Why an attempt was told to stop, or ended without its own doing."""

    NONE = ""
    PREEMPTED = "preempted"
    MIGRATED = "migrated"
    DRAINED = "drained"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time_limit"
    PART_FAILED = "part_failed"
    NODE_LOST = "node_lost"
    GANG_TIMEOUT = "gang_timeout"
    STUCK = "stuck"
    IDLE_GPUS = "idle_gpus"
    #: A trial run had shown what it was for.
    TRIAL_OVER = "trial_over"


class Attempt(models.Model):
    """One execution of a job. Ids are never reused, so they fence reports of the past."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    #: On a few GPUs, to see whether the job works at all, before all of them are taken for it.
    is_trial = models.BooleanField(default=False, db_default=False)
    allocation = models.ForeignKey("scheduler.Allocation", on_delete=models.PROTECT, related_name="attempts")
    state = models.CharField(max_length=8, choices=_choices(AttemptState))
    outcome = models.CharField(max_length=9, choices=_choices(Outcome), blank=True)

    #: Set when all nodes of the gang were ready.
    go = models.BooleanField(default=False)
    master_address = models.CharField(max_length=255, blank=True)
    master_port = models.PositiveIntegerField(null=True)

    stop_cause = models.CharField(max_length=12, choices=StopCause.choices, blank=True)
    stop_message = models.CharField(max_length=500, blank=True)
    preempted_by = ArrayField(models.BigIntegerField(), default=list)
    exit_code = models.IntegerField(null=True)
    category = models.CharField(max_length=20, blank=True)
    #: Its class, where it failed (`core.failures.taxonomy`).
    failure = models.CharField(max_length=40, blank=True)
    #: Which of the site's rules it matched, and what that said then (`core.failures.site_rules`).
    matched_rule = models.JSONField(null=True)
    message = models.CharField(max_length=500, blank=True)
    #: Work that was thrown away when it was stopped before its job was done (`services.attempts.lost_work`).
    lost_seconds = models.FloatField(null=True)

    planned_at = models.DateTimeField()
    starting_at = models.DateTimeField(null=True)
    running_at = models.DateTimeField(null=True)
    stopping_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    #: Facts from progress lines, written with reports; they do not bump the job's version.
    step = models.BigIntegerField(null=True)
    total_steps = models.BigIntegerField(null=True)
    throughput = models.FloatField(null=True)
    #: Time stamp of the progress line at which the last measured window ended (`services.speeds.measuring`).
    measured_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="attempt_numbers_are_unique"),
            # The database's own guard that no job runs twice.
            models.UniqueConstraint(
                fields=["job"],
                condition=Q(state__in=["starting", "running", "stopping"]),
                name="one_live_attempt_per_job",
            ),
            models.UniqueConstraint(
                fields=["job"], condition=Q(state="planned"), name="one_planned_attempt_per_job"
            ),
            models.CheckConstraint(
                condition=(Q(state="ended") & ~Q(outcome="")) | (~Q(state="ended") & Q(outcome="")),
                name="outcome_exactly_when_ended",
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=~Q(state="ended"), name="attempt_unended"),
        ]


class PartState(models.TextChoices):
    """An attempt's part on one node, as the node last reported it."""

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"


class AttemptPart(models.Model):
    """What one node does for an attempt. `replicas` is [{rank, task, gpus: [id], gpu_indexes: [i]}]."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="parts", db_index=False)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="parts")
    state = models.CharField(max_length=8, choices=PartState.choices, default=PartState.WAITING)
    replicas = models.JSONField()
    master_port = models.PositiveIntegerField(null=True)
    exit_code = models.IntegerField(null=True)
    category = models.CharField(max_length=20, blank=True)
    message = models.CharField(max_length=500, blank=True)
    #: Bytes of output stored, of all ranks here.
    log_size = models.PositiveBigIntegerField(default=0, db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "node"], name="one_part_per_node"),
        ]
        indexes = [
            models.Index(fields=["node"], condition=~Q(state="exited"), name="part_unended"),
        ]

    @property
    def succeeded(self) -> bool:
        """Exited with 0 by itself: not because it was stopped, by whomever or whatever."""
        return self.exit_code == 0 and not self.category


class LogChunk(models.Model):
    """Consecutive output of one rank, stored once by its number."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="log_chunks", db_index=False)
    rank = models.PositiveIntegerField()
    sequence = models.PositiveIntegerField()
    at = models.DateTimeField()
    text = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "rank", "sequence"], name="log_chunk_stored_once"),
        ]


class ProgressPoint(models.Model):
    """One progress line of an attempt."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="progress", db_index=False)
    sequence = models.PositiveIntegerField()
    at = models.DateTimeField()
    step = models.BigIntegerField()
    samples = models.FloatField(null=True)
    values = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "sequence"], name="progress_stored_once"),
        ]
