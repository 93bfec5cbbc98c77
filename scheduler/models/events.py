"""What happened, appended in the same transaction as the change itself."""

from django.db import models

from tenants.models import Tenant

#: Kinds that may be of interest to users (`services.notices`); the others are never read.
TOLD_KINDS = (
    "attempt.ended",
    "attempt.maintenance",
    "attempt.reserved",
    "attempt.stuck",
    "attempt.trial_failed",
    "budget.reached",
    "job.cancelled",
    "job.failed",
    "job.started",
    "job.succeeded",
    "node.cordoned",
    "node.lost",
    "reservation.changed",
    "webhook.disabled",
)


class Event(models.Model):
    """`subject` is "job", "attempt", "node", "virtual_cluster", "quota"...; ids are kept as plain numbers so
    that history outlives its objects.
    """

    at = models.DateTimeField()
    kind = models.CharField(max_length=40)
    subject = models.CharField(max_length=20)
    subject_id = models.BigIntegerField()
    # No index of its own: `event_by_tenant` begins with it, and each is written with every row.
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    job_id = models.BigIntegerField(null=True)
    node_id = models.BigIntegerField(null=True)
    from_state = models.CharField(max_length=12, blank=True)
    to_state = models.CharField(max_length=12, blank=True)
    #: Username, "round 17", or "node v100-a1".
    actor = models.CharField(max_length=80, blank=True)
    message = models.CharField(max_length=500, blank=True)
    data = models.JSONField(default=dict)
    #: Whether notices of it were written to the users concerned. Stays false where the kind is of no
    #: interest.
    told = models.BooleanField(default=False, db_default=False)

    class Meta:
        indexes = [
            models.Index(
                fields=["job_id", "-id"], condition=models.Q(job_id__isnull=False), name="event_by_job"
            ),
            models.Index(fields=["tenant", "-id"], name="event_by_tenant"),
            models.Index(
                fields=["node_id", "-id"], condition=models.Q(node_id__isnull=False), name="event_by_node"
            ),
            models.Index(
                fields=["id"], condition=models.Q(told=False, kind__in=TOLD_KINDS), name="event_untold"
            ),
        ]
