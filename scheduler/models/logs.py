"""What was removed of what attempts wrote. The output itself is `LogChunk`, beside attempts."""

from django.db import models

from scheduler.models.jobs import Attempt


class RemovalCause(models.TextChoices):
    """Which limit of the retention the output was removed for."""

    AGE = "age"
    PLATFORM_BYTES = "platform_bytes"
    TENANT_BYTES = "tenant_bytes"


class LogRemoval(models.Model):
    """That the output of an attempt was kept, and is no longer."""

    attempt = models.OneToOneField(
        Attempt, on_delete=models.CASCADE, primary_key=True, related_name="log_removal"
    )
    at = models.DateTimeField()
    cause = models.CharField(max_length=16, choices=RemovalCause.choices)
    #: The limit as it was then: days, or bytes.
    limit = models.PositiveBigIntegerField()
    #: What was removed.
    bytes = models.PositiveBigIntegerField()
