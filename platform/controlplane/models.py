"""What the API remembers of itself."""

from django.conf import settings
from django.db import models


class IdempotentAnswer(models.Model):
    """The answer to a POST that carried an Idempotency-Key, written in the transaction of its effect.

    `fingerprint` is a digest of method, path and body: the same key with another one is a mistake.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    fingerprint = models.BinaryField(max_length=32)
    #: What its user was allowed then, as `Viewer.rights` writes it.
    rights = models.JSONField(default=list)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.BinaryField(null=True)
    #: The address of what was made; empty: nothing was made.
    location = models.CharField(max_length=500, blank=True, db_default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "key"], name="one_answer_per_key"),
        ]
        indexes = [models.Index(fields=["created_at"], name="idempotent_by_age")]


class Readiness(models.Model):
    """Always empty: whether a row can be written is what `GET /readyz` tries."""

    filling = models.TextField()
