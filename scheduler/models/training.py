"""What the progress lines of a job say of its epochs and batch sizes (`core.perf.training_reports`)."""

from django.db import models

from scheduler.models.jobs import Job


class TrainingProgress(models.Model):
    """The form of `Reported` in rows; `seen` is {batch size: [epochs, {GPU model: [epochs, seconds]}]}."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="+")
    #: The attempt and the line that were counted last, and its time in Unix seconds by its node's clock.
    attempt = models.BigIntegerField()
    sequence = models.PositiveIntegerField()
    at = models.FloatField()
    #: Done so far, and in all (0: not told).
    epoch = models.FloatField()
    epochs = models.FloatField()
    #: 0: not told.
    batch_size = models.BigIntegerField()
    seen = models.JSONField(default=dict)
