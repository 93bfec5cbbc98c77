"""How long attempts of a virtual cluster run at least, and its jobs wait at most."""

from django.db import models

from tenants.models import VirtualCluster

#: Six hours: a policy rules what is waited for less, and nobody waits for days.
LONGEST_WAIT_SECONDS = 6 * 3_600.0


class PreemptionLimits(models.Model):
    """What an operator chose for a virtual cluster; no row: what stands here."""

    virtual_cluster = models.OneToOneField(
        VirtualCluster, on_delete=models.CASCADE, primary_key=True, related_name="preemption_limits"
    )
    #: Before it may be stopped, moved or resized by a policy.
    min_run_seconds = models.FloatField(default=0.0)
    #: Before an opportunistic one may be stopped for a guarantee.
    reclaim_min_run_seconds = models.FloatField(default=0.0)
    #: Before GPUs are reserved for the job that has waited longest; 0: never.
    longest_wait_seconds = models.FloatField(default=LONGEST_WAIT_SECONDS)
