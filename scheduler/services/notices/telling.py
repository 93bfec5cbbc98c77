"""The tick: what happened becomes notices, and what is due sets out."""

from datetime import timedelta

from scheduler.clock import database_now
from scheduler.models import Delivery
from scheduler.models.notifications import DeliveryState
from scheduler.services.audit.forwarding import forwarding_is_due
from scheduler.services.notices.courier import set_out
from scheduler.services.notices.delivering import deliveries_are_due
from scheduler.services.notices.fan_out import tell
from scheduler.services.notices.mail import is_mail_configured, mail_is_due

#: Deliveries are listed for so long.
DELIVERIES_KEPT = timedelta(days=30)


def tell_and_send() -> None:
    tell()
    if deliveries_are_due():
        set_out("webhooks")
    if is_mail_configured() and mail_is_due():
        set_out("mail")
    if forwarding_is_due():
        set_out("audit")


def prune_deliveries() -> None:
    """Forget old deliveries; give up those that wait for a webhook that was switched off too long ago."""
    now = database_now()
    late = Delivery.objects.filter(state=DeliveryState.WAITING, until__lt=now, webhook__active=False)
    late.update(state=DeliveryState.GIVEN_UP)
    ended = Delivery.objects.exclude(state=DeliveryState.WAITING)
    ended.filter(created_at__lt=now - DELIVERIES_KEPT).delete()
