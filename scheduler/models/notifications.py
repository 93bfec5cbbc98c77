"""Which events each user and webhook gets, and what is still to be sent: by e-mail, and to webhooks.

The events themselves are the outbox (`Event.told`): nothing is lost between a change and its notices.
"""

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from tenants.models import Tenant


class JobNotices(models.TextChoices):
    """The events of a user's own jobs that are sent to the user by e-mail."""

    ALL = "all", "All: start, end, failure, preemption"
    FAILURES = "failures", "Failures, and jobs that seem stuck"
    NONE = "none", "None, except where a job asks for it"


class NotificationSettings(models.Model):
    """What one user wants by e-mail; made when first needed."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="notifications"
    )
    jobs = models.CharField(max_length=8, choices=JobNotices.choices, default=JobNotices.FAILURES)
    #: Events of the tenants that the user administers: budgets, webhooks that were switched off.
    tenants = models.BooleanField(default=True)
    #: Events of the whole cluster, for operators: nodes lost and cordoned.
    cluster = models.BooleanField(default=True)
    #: No mail before this: one a minute, and back-off after a failure.
    mail_not_before = models.DateTimeField(null=True)
    #: Mails in a row that could not be sent, and why the last one could not.
    mail_failures = models.PositiveIntegerField(default=0)
    mail_problem = models.CharField(max_length=300, blank=True)
    #: When a change of address was last to be confirmed: one mail a minute, to any address.
    confirmation_asked_at = models.DateTimeField(null=True)


class ReportPeriod(models.TextChoices):
    """The period that one usage report covers, by UTC."""

    WEEK = "week", "Weekly: from Monday to Monday"
    MONTH = "month", "Monthly: from the first to the first"


class UsageSubscription(models.Model):
    """Mails one user the use of a tenant, or of the cluster (`tenant` null), each time a period is over."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+")
    period = models.CharField(max_length=5, choices=ReportPeriod.choices)
    #: What ended before was reported; the next report begins here.
    reported_until = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "tenant"], nulls_distinct=False, name="usage_subscription_once"
            ),
        ]


class EmailNotice(models.Model):
    """One paragraph of a mail that is to be sent; deleted once it was."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()
    subject = models.CharField(max_length=200)
    text = models.TextField()
    #: The mail that it is in; a mail that may have been sent is sent again as it was.
    mail = models.UUIDField(null=True)


class Webhook(models.Model):
    """An address that is sent a tenant's events, or all (`tenant` null: the operators')."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+")
    url = models.CharField(max_length=500)
    title = models.CharField(max_length=120, blank=True)
    topics = ArrayField(models.CharField(max_length=32))
    active = models.BooleanField(default=True)
    #: The secret is made of this and the server's key (`notifications.services.delivery`).
    seed = models.BinaryField(max_length=32)
    #: The previous seed, whose secret also signs until an instant.
    old_seed = models.BinaryField(max_length=32, null=True)
    old_seed_ends_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=80)

    #: The process that sends to it has until then to record the result; then another may send.
    taken_until = models.DateTimeField(null=True)
    #: Back-off of the receiver as a whole.
    held_until = models.DateTimeField(null=True)
    #: Tries in a row that failed, and since when.
    failures = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True)
    #: Why it was switched off, when the platform did that.
    problem = models.CharField(max_length=300, blank=True)


class DeliveryState(models.TextChoices):
    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class Delivery(models.Model):
    """One message to one webhook, with how the last try ended."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    #: Goes out as `webhook-id`, the same with each try: the receiver knows a repetition by it.
    message = models.UUIDField(default=uuid.uuid4)
    topic = models.CharField(max_length=32)
    body = models.TextField()
    created_at = models.DateTimeField()
    state = models.CharField(max_length=9, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    #: Tried until then, when it fails.
    until = models.DateTimeField()
    next_at = models.DateTimeField()
    tries = models.PositiveIntegerField(default=0)
    tried_at = models.DateTimeField(null=True)
    seconds = models.FloatField(null=True)
    status = models.PositiveIntegerField(null=True)
    #: First bytes of the answer's body; empty where there was none.
    reply = models.CharField(max_length=500, blank=True)
    #: Why there was no answer.
    problem = models.CharField(max_length=300, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["webhook", "id"], condition=Q(state="waiting"), name="delivery_waiting"),
            models.Index(fields=["webhook", "-id"], name="delivery_by_webhook"),
        ]
