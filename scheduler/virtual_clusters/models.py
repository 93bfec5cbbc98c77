"""How long attempts of a virtual cluster run at least before others may have their GPUs."""

from django.db import models

from tenants.models import VirtualCluster


class Restraint(models.Model):
    """What an operator chose for a virtual cluster; no row: anybody may be displaced at once."""

    virtual_cluster = models.OneToOneField(
        VirtualCluster, on_delete=models.CASCADE, primary_key=True, related_name="restraint"
    )
    #: Before it may be stopped, moved or resized by a policy.
    min_run_seconds = models.FloatField(default=0.0)
    #: Before an opportunistic one may be stopped for a guarantee.
    reclaim_min_run_seconds = models.FloatField(default=0.0)
