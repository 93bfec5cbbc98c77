"""What nodes and attempts used, how many GPUs each tenant held, and how fragmented the idle ones were."""

from django.db import models

from scheduler.models.attempts import AttemptPart
from scheduler.models.nodes import Node


class Resolution(models.IntegerChoices):
    """Seconds between two rows. The finest rows are the readings themselves, by their own times."""

    READING = 10
    MINUTE = 60
    QUARTER = 900


class Metrics(models.Model):
    """One row for a reading, or for all readings of a bucket of time that begins at `at`.

    There is no row where there was no reading. The form of `values` is in `metrics.selectors.buckets`.
    """

    seconds = models.PositiveSmallIntegerField(choices=Resolution.choices)
    at = models.DateTimeField()
    #: How many readings the row sums up; where there are more by now, it is computed again.
    readings = models.PositiveIntegerField(default=1)
    #: Whether figures of GPUs were made up rather than measured.
    simulated = models.BooleanField()
    values = models.JSONField()

    class Meta:
        abstract = True


class NodeMetrics(Metrics):
    """Metrics of a whole node: {"host": group, "gpus": {index: group}}, in readings also what each attempt
    used: {"parts": {attempt id: {rank: group}}}, and the bytes that each occupied on GPUs: {"occupied":
    {attempt id: {index: figure}}}.
    """

    pk = models.CompositePrimaryKey("node_id", "seconds", "at")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, db_index=False, related_name="metrics")

    class Meta:
        indexes = [models.Index(fields=["seconds", "at", "node"], name="node_metrics_by_time")]


class PartMetrics(Metrics):
    """Metrics of an attempt on one of its nodes: {"gpus": {index: group}, "ranks": {rank: group}}. No
    readings: these are in the node's.
    """

    pk = models.CompositePrimaryKey("part_id", "seconds", "at")
    part = models.ForeignKey(AttemptPart, on_delete=models.CASCADE, db_index=False, related_name="metrics")

    class Meta:
        indexes = [models.Index(fields=["seconds", "at", "part"], name="part_metrics_by_time")]


class NodePeak(models.Model):
    """What the jobs of a node will use at most (`core.model.node_peaks`): of nodes with guaranteed jobs of a
    virtual cluster that lends what they do not use."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="peak")
    cpus = models.FloatField()
    memory_bytes = models.FloatField()
    #: Whose peak that is: ids of allocations.
    allocations = models.JSONField(default=list)
    margin = models.FloatField()
    #: [allocation, CPUs, bytes of memory] of all jobs there, and when that was measured.
    used = models.JSONField(default=list)
    measured_at = models.DateTimeField()


class UsageSample(models.Model):
    """GPUs in use at one instant, and those of each tenant by name; a part of a GPU counts as a part."""

    at = models.DateTimeField(unique=True)
    total = models.PositiveIntegerField()
    held = models.PositiveIntegerField()
    by_tenant = models.JSONField(default=dict)


class FragmentationSample(models.Model):
    """How many of the GPUs idle at one instant were of no use to the jobs that this cluster usually runs."""

    at = models.DateTimeField(unique=True)
    #: In GPUs; a part of a GPU counts as a part.
    idle = models.FloatField()
    fragmented = models.FloatField()
    #: GPUs by what tasks found missing; their sum is `fragmented`.
    causes = models.JSONField(default=dict)
    #: Only in the newest row: {"kinds": [...], "nodes": [...]}, as the API shows them.
    details = models.JSONField(null=True)
