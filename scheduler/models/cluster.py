"""What an operator decides for the cluster as a whole."""

from django.db import models
from django.db.models import Q


class ClusterSettings(models.Model):
    """One row, or none while everything is as it was installed."""

    #: How the spare GPUs are handed out: names, or "name:parameter=value,...".
    spare_policy = models.CharField(max_length=255, default="fifo")
    spare_placer = models.CharField(max_length=255, default="consolidate")

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="cluster_settings_are_one_row")]
