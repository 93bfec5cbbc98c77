"""What operators chose for a virtual cluster besides its policy and its guarantees."""

from django.db import models
from django.db.models import Q

from scheduler.core.model.node_peaks import OVERCOMMIT_NEVER, OVERCOMMIT_PREDICTED, USUAL_MARGIN
from tenants.models import VirtualCluster

#: Six hours: the policy decides on shorter waits, and no job waits for days.
LONGEST_WAIT_SECONDS = 6 * 3_600.0


#: What `Overcommitment.overcommit` can be (`core.model.node_peaks`).
OVERCOMMIT = (OVERCOMMIT_NEVER, OVERCOMMIT_PREDICTED)


class PreemptionLimits(models.Model):
    """How long its attempts run at least, and its jobs wait at most; no row: these defaults."""

    virtual_cluster = models.OneToOneField(
        VirtualCluster, on_delete=models.CASCADE, primary_key=True, related_name="preemption_limits"
    )
    #: Before it may be stopped, moved or resized by a policy.
    min_run_seconds = models.FloatField(default=0.0)
    #: Before an opportunistic one may be stopped for a guarantee.
    reclaim_min_run_seconds = models.FloatField(default=0.0)
    #: Before GPUs are reserved for the job that has waited longest; 0: never.
    longest_wait_seconds = models.FloatField(default=LONGEST_WAIT_SECONDS)


class Overcommitment(models.Model):
    """Whether opportunistic jobs may have what its guaranteed jobs do not use; no row: these defaults."""

    virtual_cluster = models.OneToOneField(
        VirtualCluster, on_delete=models.CASCADE, primary_key=True, related_name="overcommitment"
    )
    overcommit = models.CharField(
        max_length=9, choices=[(each, each) for each in OVERCOMMIT], default=OVERCOMMIT_NEVER
    )
    #: The part of each node that is kept free all the same.
    margin = models.FloatField(default=USUAL_MARGIN)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(overcommit__in=list(OVERCOMMIT)), name="overcommit_known"),
            models.CheckConstraint(condition=Q(margin__gte=0, margin__lt=1), name="margin_is_a_part"),
        ]


class PeakSamples(models.Model):
    """How often on a day (UTC) guaranteed jobs of a virtual cluster were measured on a node that lends what
    they do not use, and how often those of the node used more than was kept for them."""

    virtual_cluster = models.ForeignKey(
        VirtualCluster, on_delete=models.CASCADE, related_name="peak_samples", db_index=False
    )
    day = models.DateField()
    samples = models.PositiveBigIntegerField(default=0)
    exceeded = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["virtual_cluster", "day"], name="one_count_per_vc_and_day"),
        ]
