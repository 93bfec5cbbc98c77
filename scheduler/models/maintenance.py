"""Windows in which operators work on nodes."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q


class WindowState(models.TextChoices):
    """`draining`: it has begun, and jobs still leave its nodes; `open`: no job is left there."""

    ANNOUNCED = "announced"
    DRAINING = "draining"
    OPEN = "open"
    OVER = "over"
    CANCELLED = "cancelled"


#: The states in which a window closes its nodes, or will.
ACTIVE = (WindowState.ANNOUNCED, WindowState.DRAINING, WindowState.OPEN)


class MaintenanceWindow(models.Model):
    """Its nodes accept no job from its start to its end, and before that only jobs that will have ended.

    It changes no column of its nodes, so nothing has to be restored: what operators and health checks decide
    about a node meanwhile is independent of it.
    """

    reason = models.CharField(max_length=300)
    #: Names, sorted. No name is ever changed.
    nodes = ArrayField(models.CharField(max_length=63))
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    made_by = models.CharField(max_length=80)
    made_at = models.DateTimeField()
    state = models.CharField(max_length=9, choices=WindowState.choices, default=WindowState.ANNOUNCED)

    class Meta:
        indexes = [
            models.Index(fields=["starts_at"], condition=Q(state__in=ACTIVE), name="window_active"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=WindowState.values), name="window_state_is_known"),
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="window_ends_after_start"),
        ]

    def __str__(self) -> str:
        return f"{self.id}"
