"""Nodes that are kept for a tenant from one instant to another."""

from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from tenants.models import Tenant, User, VirtualCluster


class ReservationState(models.TextChoices):
    """The state of a reservation that follows from the time, unless it was cancelled."""

    ANNOUNCED = "announced"
    IN_FORCE = "in_force"
    OVER = "over"
    CANCELLED = "cancelled"


class Reservation(models.Model):
    """Whole nodes that, from its start to its end, only jobs of its tenant that name it can use.

    It has no column for its state, and changes none of its nodes: nothing has to be begun or restored.
    """

    #: Unique among those of the tenant that are not over.
    name = models.CharField(max_length=63)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    #: Null: all users of the tenant, all virtual clusters.
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    virtual_cluster = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, null=True, related_name="+")
    gpu_model = models.CharField(max_length=63)
    #: How many were asked for; its nodes may have more.
    gpus = models.PositiveIntegerField()
    #: Names, sorted. No name is ever changed.
    nodes = ArrayField(models.CharField(max_length=63))
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    note = models.CharField(max_length=300, blank=True)
    made_by = models.CharField(max_length=80)
    made_at = models.DateTimeField()
    cancelled_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["ends_at"], condition=Q(cancelled_at=None), name="reservation_lasting"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")), name="reservation_ends_after_start"
            ),
            models.CheckConstraint(condition=Q(gpus__gt=0), name="reservation_is_positive"),
        ]

    def __str__(self) -> str:
        return self.name

    def state_at(self, now: datetime) -> ReservationState:
        """Return its state at an instant."""
        if self.cancelled_at is not None:
            return ReservationState.CANCELLED
        if now < self.starts_at:
            return ReservationState.ANNOUNCED
        return ReservationState.IN_FORCE if now < self.ends_at else ReservationState.OVER
