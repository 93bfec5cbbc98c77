"""Forwards the audit log: to each receiver in order and at least once, some entries at a time.

The position of a receiver is written after it has taken entries, so that a process that is killed in between
sends them again. A receiver that does not answer holds up no other. What it has missed is on record, and no
more of it is in memory than one batch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F

from scheduler.notifications.services import syslog
from scheduler.notifications.services.advisory_lock import AUDIT, advisory_lock
from scheduler.notifications.services.delivery import post, signed_headers
from scheduler.wiring.clock import database_now
from tenants.audit.reading import next_entries, represented
from tenants.audit.receivers import Receiver, key_of, receivers_of
from tenants.models import AuditEntry, AuditReceiver
from tenants.times import iso

log = logging.getLogger(__name__)

#: Entries that are sent at once.
BATCH = 100
#: Waits after the first, second... failure in a row; then always the last of them.
WAITS = tuple(timedelta(seconds=seconds) for seconds in (5, 15, 60, 300))


@dataclass(frozen=True, slots=True)
class _Dispatch:
    receiver: Receiver
    row_id: int
    last: int


def forwarding_is_due() -> bool:
    return any(_due(receiver) is not None for receiver in receivers_of(settings.CONFIG.audit_forward))


def forward() -> int:
    """Send what is due until nothing more is; return how many entries were taken, each receiver's counted."""
    with advisory_lock(AUDIT) as is_mine:
        return _forward() if is_mine else 0


def _forward() -> int:
    receivers = receivers_of(settings.CONFIG.audit_forward)
    taken = 0
    sending: dict[Future[str], _Dispatch] = {}
    with ThreadPoolExecutor(max(len(receivers), 1), thread_name_prefix="audit") as pool:
        while True:
            busy = {one.receiver for one in sending.values()}
            for receiver in receivers:
                if receiver not in busy and (row := _due(receiver)) is not None:
                    batch = next_entries(AuditEntry.objects.all(), after=row.sent_id, most=BATCH)
                    if batch:
                        future = pool.submit(
                            _send, receiver, [represented(entry) for entry in batch], database_now()
                        )
                        sending[future] = _Dispatch(receiver, row.id, batch[-1].id)
            if not sending:
                return taken
            done, _ = wait(sending, return_when=FIRST_COMPLETED)
            for future in done:
                one = sending.pop(future)
                taken += _note(one, future.result())


def _due(receiver: Receiver) -> AuditReceiver | None:
    """Return what is known of a receiver, if there is something for it and it is not held back."""
    row, _ = AuditReceiver.objects.get_or_create(url=receiver.url)
    if row.held_until is not None and row.held_until > database_now():
        return None
    return row if AuditEntry.objects.filter(id__gt=row.sent_id).exists() else None


def _send(receiver: Receiver, entries: Sequence[dict[str, Any]], at: datetime) -> str:
    """Runs in a thread of its own, without the database; returns what went wrong, if anything did."""
    try:
        if not receiver.is_webhook:
            syslog.send(receiver, entries)
            return ""
        body = json.dumps({"type": "audit", "timestamp": iso(at), "data": {"entries": entries}})
        key = key_of(settings.CONFIG.audit_forward_secret.get_secret_value())
        name = f"audit-{entries[0]['id']}-{entries[-1]['id']}"
        answer = post(receiver.url, body, signed_headers([key], name, body, at=at), is_trusted=True)
        return "" if answer.is_taken else answer.problem or f"answered {answer.status}"
    except (OSError, ValueError) as error:
        return str(error) or type(error).__name__
    except Exception as error:
        log.exception("the audit log could not be forwarded to %s", receiver.name)
        return type(error).__name__


def _note(one: _Dispatch, problem: str) -> int:
    now = database_now()
    row = AuditReceiver.objects.get(id=one.row_id)
    if not problem:
        count = AuditEntry.objects.filter(id__gt=row.sent_id, id__lte=one.last).count()
        AuditReceiver.objects.filter(id=row.id).update(
            sent_id=one.last, sent_at=now, failures=0, failing_since=None, held_until=None, problem=""
        )
        return count
    if not row.failures:
        log.warning("the audit log cannot be forwarded to %s: %s", one.receiver.name, problem)
    wait_for = WAITS[min(row.failures, len(WAITS) - 1)]
    AuditReceiver.objects.filter(id=row.id).update(
        failures=F("failures") + 1,
        failing_since=row.failing_since or now,
        held_until=now + wait_for,
        problem=problem[:300],
    )
    return 0
