"""Rounds, what policies remember from one to the next, and the fence."""

from django.db import models
from django.db.models import Q


class Leadership(models.Model):
    """One row. `number` is the current round: its name and its fence."""

    number = models.PositiveBigIntegerField(default=0)
    #: While this is in the future, a round is being decided and no other may start.
    expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="leadership_is_one_row")]


class RoundState(models.TextChoices):
    APPLIED = "applied"
    FENCED = "fenced"
    FAILED = "failed"


class Round(models.Model):
    """A record from which the round can be decided again, bit for bit."""

    number = models.PositiveBigIntegerField(primary_key=True)
    started_at = models.DateTimeField()
    state = models.CharField(max_length=7, choices=RoundState.choices)
    snapshot_seconds = models.FloatField(default=0)
    decide_seconds = models.FloatField(default=0)
    apply_seconds = models.FloatField(default=0)
    started = models.PositiveIntegerField(default=0)
    kept = models.PositiveIntegerField(default=0)
    stopped = models.PositiveIntegerField(default=0)
    #: The stopped jobs that go on elsewhere.
    moved = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    dropped = models.JSONField(default=list)
    degraded = models.JSONField(default=dict)
    error = models.TextField(blank=True)
    #: Compressed, by `core.model.codec`. Null when the round failed before there was one.
    snapshot = models.BinaryField(null=True)
    plan = models.BinaryField(null=True)


class PolicyMemory(models.Model):
    """What the policy of a view remembered; JSON, may be lost without harm."""

    view = models.CharField(max_length=63, primary_key=True)
    memory = models.JSONField(default=dict)


class ViewComputing(models.Model):
    """How long the computations of a view's policy take, and whether it is taking too long.

    A row for each view whose policy computes outside the round's own process.
    """

    view = models.CharField(max_length=63, primary_key=True)
    #: Computations begun, those of them that took too long or broke down, and seconds in the newest round.
    computations = models.PositiveBigIntegerField(default=0)
    overruns = models.PositiveBigIntegerField(default=0)
    last_seconds = models.FloatField(default=0)
    #: Since when a cheap policy decides in its place; null: it decides itself.
    since = models.DateTimeField(null=True)
    message = models.TextField(blank=True)
    #: Consecutive attempts that took too long, and the number of coming rounds without an attempt.
    failures = models.PositiveIntegerField(default=0)
    rounds_to_skip = models.PositiveIntegerField(default=0)
    #: Name and parameters of the policy that this is about: another one is tried at once.
    policy = models.JSONField(default=list)
