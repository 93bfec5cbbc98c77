"""The users who are, or were, inside a running attempt: by a command beside it, or at one of its ports."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from scheduler.models.attempts import Attempt
from scheduler.models.nodes import Node
from tenants.models import Token


class Session(models.Model):
    """One way into an attempt; its node's agent joins it by opening a socket of its own."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="sessions")
    rank = models.PositiveIntegerField()
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    #: Name or number; empty: it is a command.
    port = models.CharField(max_length=63, blank=True)
    #: As it was asked for, cut; empty: a shell.
    command = models.CharField(max_length=500, blank=True)
    #: Where the server process that holds its user's end is reached (`controlplane.sessions.relay`).
    address = models.CharField(max_length=120)
    opened_at = models.DateTimeField()
    joined_at = models.DateTimeField(null=True)
    #: When the process that holds it last confirmed it: a killed process cannot report the end.
    seen_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    exit_code = models.PositiveSmallIntegerField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["user"], condition=Q(ended_at=None), name="session_open"),
            models.Index(fields=["attempt", "-opened_at"], name="session_by_attempt"),
        ]


class PortPass(models.Model):
    """One browser's right to the pages at a port of one attempt: a single-use ticket, then a cookie.

    It ends with the sign-in that requested it, a session or a token.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+")
    port = models.CharField(max_length=63)
    token = models.ForeignKey(Token, on_delete=models.CASCADE, null=True, related_name="+")
    session_key = models.CharField(max_length=40, blank=True)
    #: The key of the ticket, and once that was exchanged the key of the cookie.
    key = models.CharField(max_length=16, unique=True)
    digest = models.BinaryField(max_length=32)
    is_ticket = models.BooleanField(default=True)
    expires_at = models.DateTimeField()
