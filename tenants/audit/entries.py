"""Entries for what changes no row: sign-ins, refusals, and reads of others' things."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from tenants.audit.source import Source, source
from tenants.housekeeping import repeat
from tenants.models import AuditEntry, Outcome, Tenant, Token, User
from tenants.times import iso

log = logging.getLogger(__name__)

#: A user who goes on reading the same, or is refused again and again, makes one entry in this many seconds.
_SAME_READ_SECONDS = 600.0
#: In this many seconds, the database is asked once whether an address used a token before.
_SAME_USE_SECONDS = 86_400.0
_REFUSAL_SECONDS = 60.0
#: Refusals of one caller and kind in that time with entries of their own; those after them are counted.
REFUSALS_TOLD = 20
#: Callers that are distinguished at a time; further ones count as one crowd.
_CALLERS = 1_000


def record(
    action: str,
    *,
    object_kind: str = "",
    object_id: object = "",
    subject: str = "",
    tenant: Tenant | None = None,
    outcome: Outcome = Outcome.DONE,
    before: Any = None,
    after: Any = None,
    by: Source | None = None,
) -> None:
    """Write an entry; in the transaction of the change that it records, if there is one."""
    who = by or source()
    AuditEntry.objects.create(
        kind=who.kind,
        actor=who.actor,
        token=who.token,
        address=who.address or None,
        request=who.request,
        action=action,
        outcome=outcome,
        object_kind=object_kind,
        object_id=str(object_id),
        subject=subject[:160],
        tenant_id=tenant.pk if tenant is not None else None,
        tenant=tenant.name if tenant is not None else "",
        before=before,
        after=after,
    )


class _Recent:
    """Keys that were seen within some seconds; of too many the oldest are forgotten."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: OrderedDict[Any, float] = OrderedDict()
        self._lock = threading.Lock()

    def is_new(self, key: object) -> bool:
        now = time.monotonic()
        with self._lock:
            seen = self._seen.get(key)
            if seen is not None and now - seen < self._seconds:
                return False
            self._seen[key] = now
            self._seen.move_to_end(key)
            while len(self._seen) > 10 * _CALLERS:
                self._seen.popitem(last=False)
            return True


_READS = _Recent(_SAME_READ_SECONDS)
_TOKEN_USES = _Recent(_SAME_USE_SECONDS)

_FIRST_USE = """
INSERT INTO tenants_auditentry (kind, actor, token, address, request, action, object_kind, object_id, subject)
VALUES ('token', %s, %s, %s, %s, 'token.first-use', 'token', %s, %s)
ON CONFLICT (object_id, address) WHERE action = 'token.first-use' DO NOTHING
"""


def record_read(action: str, *, object_kind: str, object_id: object, subject: str, tenant: Tenant) -> None:
    """Record who read something that not all users may read; following a log makes one entry."""
    who = source()
    if _READS.is_new((action, who.actor, who.address, object_kind, str(object_id))):
        record(action, object_kind=object_kind, object_id=object_id, subject=subject, tenant=tenant)


def record_token_use(token: Token) -> None:
    """Write down the first use of a token from an address, which can reveal a stolen one."""
    who = source()
    if not who.address or not _TOKEN_USES.is_new((token.pk, who.address)):
        return
    with connection.cursor() as cursor:
        subject = f"{token.key} of {token.user.username}"
        cursor.execute(
            _FIRST_USE, [who.actor, token.key, who.address, who.request, str(token.pk), subject[:160]]
        )


class _Refusals:
    """How often which caller was refused what in the present minute."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], int] = {}
        self._until = 0.0
        self._lock = threading.Lock()

    def counted(self, key: tuple[str, ...]) -> tuple[bool, dict[tuple[str, ...], int]]:
        """Count one; return whether it gets an entry, and what was left out in a minute that is over."""
        now, untold = time.monotonic(), {}
        with self._lock:
            if now >= self._until:
                untold = {
                    one: count - REFUSALS_TOLD for one, count in self._counts.items() if count > REFUSALS_TOLD
                }
                self._counts, self._until = {}, now + _REFUSAL_SECONDS
            if key not in self._counts and len(self._counts) >= _CALLERS:
                key = ("crowd", "many callers", "", "", "")
            self._counts[key] = self._counts.get(key, 0) + 1
            return self._counts[key] <= REFUSALS_TOLD, untold


_REFUSALS = _Refusals()


def record_refusal(status: int, *, message: str = "", path: str = "", tried: str = "") -> None:
    """Write down that a request was refused: some of each caller's a minute, the others as a number.

    `path` is what was asked for, where the request's route has names in it. `tried` is the name with which
    the caller tried to sign in.
    """
    who = source()
    action = "user.sign-in" if tried else "request.refuse"
    is_recorded, untold = _REFUSALS.counted((who.kind, who.actor, who.address, who.request, action))
    try:
        for (kind, actor, address, request, left), count in untold.items():
            by = Source(kind=kind[:8], actor=actor, address=address, request=request)
            record(left, outcome=Outcome.REFUSED, after={"more_like_this": count}, by=by)
        if is_recorded:
            about = _account(tried) if tried else {}
            after: dict[str, Any] = {"status": status, "message": message[:300]}
            if path:
                after["path"] = path[:300]
            record(action, outcome=Outcome.REFUSED, after=after, **about)
    except DatabaseError:
        # The refusal stands and is answered all the same.
        log.exception("a refusal could not be written to the audit log")


def _account(tried: str) -> dict[str, Any]:
    # A name that no user has may be a password in the wrong field.
    user = User.objects.filter(username=tried).first()
    return {
        "object_kind": "user",
        "object_id": user.pk if user else "",
        "subject": user.username if user else "",
    }


_PRUNED_AT_ONCE = 5_000


def prune_audit_log() -> int:
    """Remove what is older than ALLOT_AUDIT_DAYS_KEPT, with an entry that says so; return how many."""
    until = timezone.now() - timedelta(days=settings.CONFIG.audit_days_kept)
    pruned = repeat(lambda: _prune_some(until))
    if pruned:
        record("audit.prune", object_kind="the audit log", after={"removed": pruned, "before": iso(until)})
    return pruned


def _prune_some(until: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT audit_prune(%s, %s)", [until, _PRUNED_AT_ONCE])
        (pruned,) = cursor.fetchone()
    return int(pruned)
