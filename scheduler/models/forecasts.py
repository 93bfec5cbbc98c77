"""What was predicted: forecasts of waiting jobs by round, and answers to what-if questions."""

from uuid import uuid4

from django.conf import settings
from django.db import models


class Forecast(models.Model):
    """When each waiting job will start, as predicted from the facts right after a round."""

    round_number = models.PositiveBigIntegerField(primary_key=True)
    made_at = models.DateTimeField()
    took_seconds = models.FloatField()
    #: "if jobs run as long as ...": goes with every prediction.
    assumption = models.CharField(max_length=300)
    #: {job id: [position, starts_at, earliest, latest, why not]}, instants in Unix seconds.
    predictions = models.JSONField(default=dict)


class WhatIfState(models.TextChoices):
    """A question waits for its turn, is worked on, or has an answer of one kind or the other."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class WhatIf(models.Model):
    """A question about changed jobs or a changed cluster, and later its answer."""

    id = models.UUIDField(primary_key=True, default=uuid4)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    asked_at = models.DateTimeField()
    #: Checked already: see `scheduler.rounds.questions`.
    question = models.JSONField()
    state = models.CharField(max_length=7, choices=WhatIfState.choices, default=WhatIfState.WAITING)
    #: The answer for all tenants; each reader sees only the part about their own.
    answer = models.JSONField(null=True)
    #: Why there is none: a sentence, and the fields that are wrong.
    problem = models.TextField(blank=True)
    fields = models.JSONField(default=list)

    class Meta:
        indexes = [models.Index(fields=["asked_at"], name="what_if_by_age")]
