"""Attempts, an attempt's part on each node, the GPUs that they hold, and their progress."""

from enum import StrEnum

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import BigIntegerField, Case, F, Q, Sum, Value, When

from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.model.lifecycle import AttemptState, HoldPhase, Outcome, PartState, StopCause
from scheduler.models.jobs import Job, choices_of
from scheduler.models.nodes import Gpu, Node
from tenants.models import VirtualCluster


def _labelled(states: type[StrEnum]) -> list[tuple[str, str]]:
    return [(state.value, state.name.replace("_", " ").title()) for state in states]


class Attempt(models.Model):
    """One execution of a job. Ids are never reused, so they fence reports of the past."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    #: A trial on a few GPUs: whether the job works at all, before it gets all of them.
    is_trial = models.BooleanField(default=False, db_default=False)
    allocation = models.ForeignKey("scheduler.Allocation", on_delete=models.PROTECT, related_name="attempts")
    state = models.CharField(max_length=8, choices=choices_of(AttemptState))
    outcome = models.CharField(max_length=9, choices=choices_of(Outcome), blank=True)

    #: Set when all nodes of the gang were ready.
    go = models.BooleanField(default=False)
    master_address = models.CharField(max_length=255, blank=True)
    master_port = models.PositiveIntegerField(null=True)

    stop_cause = models.CharField(max_length=12, choices=_labelled(StopCause), blank=True)
    stop_message = models.CharField(max_length=500, blank=True)
    preempted_by = ArrayField(models.BigIntegerField(), default=list)
    exit_code = models.IntegerField(null=True)
    #: Name of the signal that ended the replica that failed first; "": none did, or it is not known.
    signal = models.CharField(max_length=20, blank=True, default="", db_default="")
    category = models.CharField(max_length=20, blank=True)
    #: Its class, where it failed (`core.failures.taxonomy`).
    failure = models.CharField(max_length=40, blank=True)
    #: Which of the site's rules it matched, and the rule's text at that time (`core.failures.site_rules`).
    matched_rule = models.JSONField(null=True)
    message = models.CharField(max_length=500, blank=True)
    #: The CPUs and memory that it has now, where its job leaves them to the platform: as
    #: `core.model.auxiliary.AuxiliaryShare`, each replica as [CPUs, bytes]. None: it states what it needs.
    auxiliary = models.JSONField(null=True)
    #: Work that was thrown away when it was stopped before its job was done (`services.preemption_cost`).
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
    #: When the last measured window ended, by its progress line (`throughputs.services.measuring`).
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
            models.Index(fields=["-ended_at", "-id"], condition=Q(outcome="failed"), name="attempt_failed"),
            models.Index(fields=["failure", "job"], condition=~Q(failure=""), name="attempt_by_failure"),
        ]


class AttemptPart(models.Model):
    """What one node does for an attempt. `replicas` is [{rank, task, gpus: [id], gpu_indexes: [i]}], with
    `part` (0 to 1) where it has less than one whole GPU.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="parts", db_index=False)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="parts")
    state = models.CharField(max_length=8, choices=_labelled(PartState), default=PartState.WAITING)
    replicas = models.JSONField()
    master_port = models.PositiveIntegerField(null=True)
    exit_code = models.IntegerField(null=True)
    signal = models.CharField(max_length=20, blank=True, default="", db_default="")
    category = models.CharField(max_length=20, blank=True)
    message = models.CharField(max_length=500, blank=True)
    #: How the node holds its replicas to their parts of GPUs; "": they have none, or nothing is known yet.
    enforcement = models.CharField(max_length=14, blank=True, default="", db_default="")
    #: Whether it waits in the queue of the scheduler that runs its node, and when it last left that queue.
    is_queued = models.BooleanField(default=False, db_default=False)
    left_queue_at = models.DateTimeField(null=True)
    #: Bytes of output stored, of all ranks here.
    log_size = models.PositiveBigIntegerField(default=0, db_default=0)
    #: What its replicas take of the node, as the round counted it; 0 in parts from before migration 0047.
    cpus = models.FloatField(default=0, db_default=0)
    memory_bytes = models.PositiveBigIntegerField(default=0, db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "node"], name="one_part_per_node"),
        ]
        indexes = [
            models.Index(fields=["node"], condition=~Q(state="exited"), name="part_unended"),
        ]

    @property
    def succeeded(self) -> bool:
        """Whether it exited with 0 of its own accord, not because it was stopped."""
        return self.exit_code == 0 and not self.category


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
        indexes = [
            # Each report asks for the lines since a time: by sequence that would be a walk over all of them.
            models.Index(fields=["attempt", "at"], name="progress_by_time"),
        ]


class ProgressThinning(models.Model):
    """One row: the job with the latest end whose progress lines were thinned (`services.retention`)."""

    #: Null: there was none.
    ended_at = models.DateTimeField(null=True)
    #: Its id: several jobs may end at one instant.
    job_id = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="progress_thinning_is_one_row")]


class Allocation(models.Model):
    """The GPUs of one grant. `replicas` lists GPU ids by task, then replica."""

    round_number = models.PositiveBigIntegerField()
    view = models.CharField(max_length=63)
    virtual_cluster = models.ForeignKey(VirtualCluster, on_delete=models.PROTECT, related_name="allocations")
    guaranteed = models.BooleanField()
    gpu_model = models.CharField(max_length=63)
    replicas = models.JSONField()
    #: By replica: the id of its node. Null where every replica has GPUs, which determine it.
    nodes = models.JSONField(null=True)
    phase = models.CharField(max_length=8, choices=[(p.value, p.value) for p in HoldPhase])
    created_at = models.DateTimeField()
    held_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)
    #: Its jobs take turns of this many seconds, the others frozen in place; None: they run at the same time.
    slice_seconds = models.FloatField(null=True)
    #: GPUs of its last replicas that are beyond what its virtual cluster is guaranteed.
    opportunistic_gpus = models.PositiveIntegerField(default=0, db_default=0)

    @property
    def gpu_count(self) -> int:
        return sum(map(len, self.replicas))

    @property
    def gpu_amount(self) -> float:
        """GPUs that it has or had, where a part of a GPU counts as a part."""
        return (self.gpus.aggregate(sum=Sum("request"))["sum"] or 0) / WHOLE_GPU

    class Meta:
        indexes = [
            models.Index(fields=["id"], condition=~Q(phase="released"), name="allocation_active"),
        ]


# The key of the constraints: 0 for whole GPUs, so that there is only one; a part has its own.
_ENTRY = Case(When(request=WHOLE_GPU, then=Value(0)), default=F("allocation"), output_field=BigIntegerField())


class AllocatedGpu(models.Model):
    """One GPU of an allocation, or a part of it. Two partial indexes and a trigger (migration 0034) are the
    last guard of the whole platform: a GPU has at most one holder and at most one planned successor, or
    several with parts that it has room for, whatever the code above believes."""

    # No index of its own: the constraint's begins with it, and each is written with every row.
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="gpus", db_index=False)
    gpu = models.ForeignKey(Gpu, on_delete=models.PROTECT, related_name="allocations")
    phase = models.CharField(max_length=8, choices=[(p.value, p.value) for p in HoldPhase])
    #: A gang may leave its nodes one after another.
    released_at = models.DateTimeField(null=True)
    #: As in `GpuPart`; `WHOLE_GPU`: all of the GPU.
    request = models.PositiveSmallIntegerField(default=WHOLE_GPU, db_default=WHOLE_GPU)
    limit = models.PositiveSmallIntegerField(default=WHOLE_GPU, db_default=WHOLE_GPU)
    memory_bytes = models.PositiveBigIntegerField(default=0, db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(F("gpu"), _ENTRY, condition=Q(phase="held"), name="one_holder_per_gpu"),
            models.UniqueConstraint(
                F("gpu"), _ENTRY, condition=Q(phase="planned"), name="one_successor_per_gpu"
            ),
            models.CheckConstraint(
                condition=Q(request__gte=1, request__lte=F("limit"), limit__lte=WHOLE_GPU),
                name="part_is_of_one_gpu",
            ),
            models.UniqueConstraint(fields=["allocation", "gpu"], name="gpu_once_per_allocation"),
            models.CheckConstraint(condition=Q(phase__in=list(HoldPhase)), name="hold_phase_is_known"),
        ]


class TrainingProgress(models.Model):
    """A `TrainingReport` in a row; `seen` is {batch size: [epochs, {GPU model: [epochs, seconds]}]}."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="+")
    #: The attempt and the line that were counted last, and its time in Unix seconds by its node's clock.
    attempt = models.BigIntegerField()
    sequence = models.PositiveIntegerField()
    at = models.FloatField()
    #: Done so far, and in all (0: not reported).
    epoch = models.FloatField()
    epochs = models.FloatField()
    #: 0: not reported.
    batch_size = models.BigIntegerField()
    seen = models.JSONField(default=dict)


class JobScaling(models.Model):
    """A `GoodputReport` in a row, and what was fitted to it. Rows of `times` and `fitted_times` are
    [GPU model, nodes, replicas, local batch, accumulation, gradient seconds, iteration seconds, iterations].
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="+")
    #: The attempt and the line that were counted last.
    attempt = models.BigIntegerField()
    sequence = models.PositiveIntegerField()
    #: [initial batch, largest, least and most of one gradient of a replica].
    limits = models.JSONField()
    #: [size, local batch, accumulation, learning-rate factor] that it has now.
    batch = models.JSONField()
    #: [squared norm, variance] of the gradient at the initial batch; null: not reported.
    noise = models.JSONField(null=True)
    times = models.JSONField(default=list)
    most_replicas = models.PositiveIntegerField(default=0)
    #: By GPU model: [the seven parameters, the model that they are projected from or ""].
    parameters = models.JSONField(default=dict)
    #: What they were fitted to, and when; null: never.
    fitted_times = models.JSONField(default=list)
    fitted_at = models.DateTimeField(null=True)
    #: The times have changed enough that a new fit would differ.
    is_fit_due = models.BooleanField(default=False)

    class Meta:
        indexes = [
            models.Index(fields=["job"], condition=Q(is_fit_due=True), name="job_scaling_due"),
        ]


class InputPool(models.Model):
    """The input workers of one attempt: where its ranks wait for them, and how many there should be.

    Attempts whose pools name the same stream share them.
    """

    attempt = models.OneToOneField(
        Attempt, on_delete=models.CASCADE, primary_key=True, related_name="input_pool"
    )
    #: By rank, HOST:PORT.
    trainers = models.JSONField(default=dict)
    #: What identifies the stream that it follows with other jobs of its search (`stream_of`); "": its workers
    #: are its own.
    stream = models.CharField(max_length=64, blank=True, default="")
    #: There may still be workers.
    is_open = models.BooleanField(default=True)
    #: The number that there should be now.
    desired = models.PositiveIntegerField()
    #: The number that its newest progress line asks for, within its job's bounds, and since when; 0: it is
    #: done with them.
    requested = models.PositiveIntegerField()
    requested_since = models.DateTimeField()
    #: By that line: how many are connected, and for what part of the time its trainer waited; None: no line.
    connected = models.PositiveIntegerField(null=True)
    stall = models.FloatField(null=True)
    #: Batches of the stream that its trainer went without, by that line; None: no line, or no stream.
    skipped = models.PositiveBigIntegerField(null=True)
    #: Why there are fewer than desired and no more are started; "": they are.
    problem = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        indexes = [
            models.Index(fields=["attempt"], condition=Q(is_open=True), name="input_pool_open"),
            models.Index(fields=["stream"], condition=~Q(stream=""), name="input_pool_stream"),
        ]


class JobProfile(models.Model):
    """A `ProfileReport` in a row: what a job made of GPUs that it had alone (`core.perf.profiles`)."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="+")
    #: The attempt and the line that were counted last, and when the last minute began, in Unix seconds.
    attempt = models.BigIntegerField(default=0)
    sequence = models.PositiveIntegerField(default=0)
    minute_at = models.FloatField(default=0)
    #: The fields of `core.model.training.Profile`.
    profile = models.JSONField(default=dict)
