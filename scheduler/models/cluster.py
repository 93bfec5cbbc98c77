"""What an operator decides for the cluster as a whole."""

from django.db import models
from django.db.models import Q

from scheduler.core.model.auxiliary import TUNE


class ClusterSettings(models.Model):
    """One row, or none while everything is as it was installed."""

    #: How the spare GPUs are handed out.
    spare_policy = models.CharField(max_length=255, default="fifo")
    spare_policy_parameters = models.JSONField(default=dict)
    spare_placer = models.CharField(max_length=255, default="consolidate")
    spare_placer_parameters = models.JSONField(default=dict)

    #: How CPUs and memory are divided among jobs that leave them to the platform.
    auxiliary = models.CharField(max_length=12, default=TUNE, db_default=TUNE)

    #: The currency of prices, as an ISO 4217 code; empty: cost units without a name.
    currency = models.CharField(max_length=3, default="", db_default="")

    #: The most jobs that policies may preempt in a round; None: any number.
    preemptions_per_round = models.PositiveIntegerField(null=True)
    #: How long a job may not borrow GPUs after it was preempted too early: the first time, and at most.
    backoff_seconds = models.FloatField(default=30.0)
    most_backoff_seconds = models.FloatField(default=600.0)

    #: When a running job without its own `watch.idle_gpus` counts as stuck; None: never.
    idle_gpus_seconds = models.FloatField(null=True)
    idle_gpus_below_percent = models.FloatField(default=5.0)
    #: "warn" or "stop".
    idle_gpus_then = models.CharField(max_length=4, default="warn")

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="cluster_settings_are_one_row")]
