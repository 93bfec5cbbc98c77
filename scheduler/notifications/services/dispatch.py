"""The tick: what happened becomes notices, and what is due sets out."""

from datetime import timedelta

from scheduler.clock import database_now
from scheduler.notifications.models import Delivery, DeliveryState
from scheduler.notifications.services.audit_forwarding import forwarding_is_due
from scheduler.notifications.services.fan_out import write_notifications
from scheduler.notifications.services.mail import is_mail_configured, mail_is_due
from scheduler.notifications.services.sender import start_sender
from scheduler.notifications.services.webhook_queue import deliveries_are_due

#: Deliveries are listed for so long.
DELIVERIES_KEPT = timedelta(days=30)


def dispatch() -> None:
    write_notifications()
    if deliveries_are_due():
        start_sender("webhooks")
    if is_mail_configured() and mail_is_due():
        start_sender("mail")
    if forwarding_is_due():
        start_sender("audit")


def prune_deliveries() -> None:
    """Forget old deliveries; give up those that wait for a webhook that was switched off too long ago."""
    now = database_now()
    late = Delivery.objects.filter(state=DeliveryState.WAITING, until__lt=now, webhook__active=False)
    late.update(state=DeliveryState.GIVEN_UP)
    ended = Delivery.objects.exclude(state=DeliveryState.WAITING)
    ended.filter(created_at__lt=now - DELIVERIES_KEPT).delete()
