"""Sends what is due beside the worker's own work, in a thread: a receiver that is slow to answer keeps no
round, lease or forecast waiting for a free process.

The thread ends when nothing is due, or with its process; what it had in hand is then taken up again.
"""

import logging
import threading

from django.db import OperationalError, connection

from scheduler.notifications.services.audit_forwarding import forward
from scheduler.notifications.services.mail import send_due
from scheduler.notifications.services.webhook_queue import deliver_due

log = logging.getLogger(__name__)

_SENDERS = {"mail": send_due, "webhooks": deliver_due, "audit": forward}


def start_sender(name: str) -> None:
    """Start the sender "mail", "webhooks" or "audit", unless one of this process is on the way already."""
    if not any(thread.name == name for thread in threading.enumerate()):
        threading.Thread(target=_work, args=[name], name=name, daemon=True).start()


def _work(name: str) -> None:
    try:
        _connect()
        _SENDERS[name]()
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
