"""What tenants of virtual clusters were entitled to and received, and where sharing cost one something.

Virtual clusters and tenants are kept by name, so that history outlives them.
"""

from django.db import models
from django.db.models import F, Q


class FairnessProgress(models.Model):
    """One row: the newest round that has been accounted for."""

    round_number = models.PositiveBigIntegerField(default=0)
    #: Its instant, by the facts of the round; null: there was none.
    at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="fairness_progress_is_one_row")]


class FairnessState(models.Model):
    """A virtual cluster's tenants as of the newest round that was accounted for."""

    virtual_cluster = models.CharField(max_length=63, primary_key=True)
    at = models.DateTimeField()
    round_number = models.PositiveBigIntegerField()
    policy = models.CharField(max_length=63)
    #: A list, one object a tenant; see `scheduler.forecasts.fairness.services`.
    tenants = models.JSONField(default=list)
    #: What the next account goes on from; may be lost without harm.
    memory = models.JSONField(default=dict)


class FairnessSample(models.Model):
    """A minute of a tenant in a virtual cluster: sums over the seconds in which it had or wanted GPUs."""

    virtual_cluster = models.CharField(max_length=63)
    tenant = models.CharField(max_length=63)
    #: Begin of the minute.
    at = models.DateTimeField()
    #: How much of it was accounted for.
    seconds = models.FloatField()
    own_gpu_seconds = models.FloatField(default=0)
    demand_gpu_seconds = models.FloatField(default=0)
    entitled_gpu_seconds = models.FloatField(default=0)
    received_gpu_seconds = models.FloatField(default=0)
    borrowed_gpu_seconds = models.FloatField(default=0)
    lent_gpu_seconds = models.FloatField(default=0)
    traded_gpu_seconds = models.FloatField(default=0)
    #: What its jobs did here, and what they would have done on its own part alone, in seconds of a GPU of
    #: each job's best model.
    here_gpu_seconds = models.FloatField(default=0)
    alone_gpu_seconds = models.FloatField(default=0)
    #: What its guaranteed jobs demanded by their own sizes, and how much of that they had.
    tier_demand_gpu_seconds = models.FloatField(default=0, db_default=0)
    useful_gpu_seconds = models.FloatField(default=0, db_default=0)
    #: Received by GPU model.
    received = models.JSONField(default=dict)
    #: The worst of the minute; null: nothing is known of when its jobs end.
    rho_worst = models.FloatField(null=True)
    #: The latest mean of its apps.
    rho_mean = models.FloatField(null=True)
    #: The latest value.
    envy = models.FloatField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["virtual_cluster", "tenant", "at"], name="one_sample_per_minute"),
        ]
        indexes = [models.Index(fields=["at"], name="sample_by_age")]


class FairnessViolation(models.Model):
    """A time in which a tenant's jobs did less here than they would have done on its own part alone."""

    virtual_cluster = models.CharField(max_length=63)
    tenant = models.CharField(max_length=63)
    began_at = models.DateTimeField()
    #: Null: it goes on.
    ended_at = models.DateTimeField(null=True)
    #: The lowest ratio of what its jobs did to what they would have done alone.
    worst = models.FloatField()
    #: What they would have done in addition alone, in seconds of a GPU of their best model.
    lost_gpu_seconds = models.FloatField(default=0)
    #: The cause that cost most, and its description.
    cause = models.CharField(max_length=40)
    message = models.TextField()
    #: What each cause cost, in the same seconds.
    causes = models.JSONField(default=dict)
    #: The round in which it was noticed.
    round_number = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["virtual_cluster", "tenant"],
                condition=Q(ended_at__isnull=True),
                name="one_open_violation",
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("began_at")),
                name="violation_ends_after_it_began",
            ),
        ]
        indexes = [
            models.Index(fields=["virtual_cluster", "-id"], name="violation_by_vc"),
            models.Index(fields=["tenant", "-id"], name="violation_by_tenant"),
            models.Index(fields=["ended_at"], name="violation_by_end"),
        ]
