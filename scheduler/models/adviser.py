"""Results of simulations of the past: which jobs wait longer here than in a private cluster, which cells each
virtual cluster should get, and what elasticity saved.
"""

from uuid import uuid4

from django.conf import settings
from django.db import models

from tenants.models import VirtualCluster


class WorkState(models.TextChoices):
    """A request waits for its turn, is worked on, or ended with or without an answer."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class AnomalyReport(models.Model):
    """The newest comparison of a virtual cluster with its private cluster."""

    virtual_cluster = models.OneToOneField(
        VirtualCluster, on_delete=models.CASCADE, primary_key=True, related_name="anomaly_report"
    )
    state = models.CharField(max_length=7, choices=WorkState.choices, default=WorkState.WAITING)
    #: When it was last asked for.
    asked_at = models.DateTimeField()
    hours = models.FloatField()
    #: Why it failed: a sentence.
    problem = models.TextField(blank=True)
    #: When `found` was made; it stays until a newer question is answered.
    made_at = models.DateTimeField(null=True)
    since = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    #: Names of all tenants; each reader sees only the names of their own.
    found = models.JSONField(null=True)


class Advice(models.Model):
    """A question about the assignment of cells, and later its answer."""

    number = models.BigAutoField(primary_key=True)
    id = models.UUIDField(default=uuid4, unique=True)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    asked_at = models.DateTimeField()
    #: Checked already: see `scheduler.forecasts.adviser.services.advice`.
    question = models.JSONField()
    state = models.CharField(max_length=7, choices=WorkState.choices, default=WorkState.WAITING)
    #: Why there is no answer: a sentence, and the fields that are wrong.
    problem = models.TextField(blank=True)
    fields = models.JSONField(default=list)
    made_at = models.DateTimeField(null=True)
    answer = models.JSONField(null=True)
    specification = models.JSONField(null=True)
    #: The version of the cells that were in force.
    based_on_version = models.PositiveBigIntegerField(default=0)
    applied_at = models.DateTimeField(null=True)


class ElasticitySavings(models.Model):
    """A question about what elasticity saved in the last days, and later its answer."""

    number = models.BigAutoField(primary_key=True)
    id = models.UUIDField(default=uuid4, unique=True)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    asked_at = models.DateTimeField()
    #: The days of submissions that are simulated.
    days = models.FloatField()
    state = models.CharField(max_length=7, choices=WorkState.choices, default=WorkState.WAITING)
    #: Why there is no answer: a sentence.
    problem = models.TextField(blank=True)
    made_at = models.DateTimeField(null=True)
    #: See `scheduler.forecasts.adviser.services.elasticity`.
    answer = models.JSONField(null=True)
