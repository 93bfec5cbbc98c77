"""The tick: what happened becomes notices, and what is due is sent.

It is sent in a thread, beside the worker's own work: a receiver that is slow to answer keeps no round, lease
or forecast waiting for a free process. The thread ends when nothing is due, or with its process; what it had
in hand is then taken up again.
"""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from django.db import OperationalError, connection

from scheduler.models.notifications import Delivery, DeliveryState
from scheduler.notifications.services.audit_forwarding import forward, forwarding_is_due
from scheduler.notifications.services.fan_out import write_notifications
from scheduler.notifications.services.mail import is_mail_configured, mail_is_due, send_due
from scheduler.notifications.services.webhook_queue import deliver_due, deliveries_are_due
from scheduler.wiring.clock import database_now
from tenants.housekeeping import delete_rows

log = logging.getLogger(__name__)

#: Deliveries are listed for this long.
DELIVERIES_KEPT = timedelta(days=30)
_SENDERS = {"mail": send_due, "webhooks": deliver_due, "audit": forward}


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
    delete_rows(ended.filter(created_at__lt=now - DELIVERIES_KEPT))


def start_sender(name: str, send: Callable[[], object] | None = None) -> None:
    """Start a sender, unless one of this name of this process is on the way already.

    `send`: what it does; left out for "mail", "webhooks" and "audit".
    """
    if not any(thread.name == name for thread in threading.enumerate()):
        work = send or _SENDERS[name]
        threading.Thread(target=_work, args=[name, work], name=name, daemon=True).start()


def _work(name: str, send: Callable[[], object]) -> None:
    try:
        _connect()
        send()
    except Exception:
        # The next one takes up what this one left.
        log.exception("the sender of %s broke down", name)
    finally:
        connection.close()


def _connect() -> None:
    """Take a connection, which stays this thread's until it ends.

    The worker closes its pool of connections after each task, which may be this very moment.
    """
    try:
        connection.ensure_connection()
    except OperationalError:
        connection.ensure_connection()
