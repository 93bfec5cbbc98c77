"""What the health checks of the nodes say now; what they said before is in the events."""

from django.db import models

from scheduler.models.inventory import Node


class Verdict(models.TextChoices):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class NodeCheck(models.Model):
    """One check of one node, as its agent reported it last."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="checks")
    name = models.CharField(max_length=60)
    verdict = models.CharField(max_length=7, choices=Verdict.choices)
    message = models.CharField(max_length=300, blank=True)
    #: The index of the one device that it is about; null: the whole node.
    gpu = models.PositiveSmallIntegerField(null=True)
    #: When the verdict became what it is.
    since = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "name"], name="one_check_per_name"),
            models.CheckConstraint(condition=models.Q(verdict__in=Verdict.values), name="verdict_is_known"),
        ]
