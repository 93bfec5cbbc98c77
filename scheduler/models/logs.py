"""Output of jobs, piece by piece, and which parts of it were removed."""

from django.db import models

from scheduler.models.attempts import Attempt


class LogChunk(models.Model):
    """Consecutive output of one rank, stored once by its number."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="log_chunks", db_index=False)
    rank = models.PositiveIntegerField()
    sequence = models.PositiveIntegerField()
    at = models.DateTimeField()
    #: As it is shown and searched: bytes that are not UTF-8, and zero bytes, are replaced.
    text = models.TextField()
    #: The bytes themselves where the text does not represent them.
    raw = models.BinaryField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "rank", "sequence"], name="log_chunk_stored_once"),
        ]


class RemovalCause(models.TextChoices):
    """The retention limit for which the output was deleted."""

    AGE = "age"
    PLATFORM_BYTES = "platform_bytes"
    TENANT_BYTES = "tenant_bytes"


class LogRemoval(models.Model):
    """A record that the output of an attempt was removed."""

    attempt = models.OneToOneField(
        Attempt, on_delete=models.CASCADE, primary_key=True, related_name="log_removal"
    )
    at = models.DateTimeField()
    cause = models.CharField(max_length=16, choices=RemovalCause.choices)
    #: The limit as it was then: days, or bytes.
    limit = models.PositiveBigIntegerField()
    #: What was removed.
    bytes = models.PositiveBigIntegerField()
