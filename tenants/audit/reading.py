"""Reading the audit log: which entries a viewer may see, and up to where it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from tenants.audit.receivers import receivers_of
from tenants.audit.sentences import sentence
from tenants.errors import NotAllowed
from tenants.models import AuditEntry, AuditReceiver, Role
from tenants.selectors import Viewer
from tenants.times import iso, restated

#: Entries that a receiver has not got are counted up to here.
MOST_COUNTED = 100_000
#: Entries that are read at once.
PAGE = 500
#: The database's clock may be set back by this much.
_CLOCK_MARGIN = timedelta(seconds=0.5)

# A writer of an entry has a transaction number before the entry has an id, so that no writer is overlooked
# here.
_WRITING_SINCE = """
SELECT min(xact_start) FROM pg_stat_activity
WHERE datname = current_database() AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()
"""


def entries_visible(viewer: Viewer) -> QuerySet[AuditEntry]:
    """The entries that the viewer may see: an operator all, a tenant's admin those of the tenant."""
    if viewer.is_operator:
        return AuditEntry.objects.all()
    tenants = [held.tenant_id for held in viewer.held if held.role == Role.ADMIN]
    if not tenants:
        raise NotAllowed("The audit log is for operators, and for admins of tenants about their own.")
    return AuditEntry.objects.filter(tenant_id__in=tenants)


def complete_until() -> datetime | None:
    """The instant before which no entry is still to come; None: no process writes at all.

    Ids are drawn before transactions commit, in any order. Once all transactions that are under way now began
    after an entry was written, no entry with a lower id than its own is still to come. Ask before reading, in
    a statement of its own.
    """
    with connection.cursor() as cursor:
        cursor.execute(_WRITING_SINCE)
        (since,) = cursor.fetchone()
    return None if since is None else since - _CLOCK_MARGIN


def next_entries(entries: QuerySet[AuditEntry], *, after: int, most: int = PAGE) -> list[AuditEntry]:
    """The oldest entries after an id, none of which has one with a lower id still to come."""
    until = complete_until()
    page = list(entries.filter(id__gt=after).order_by("id")[:most])
    if until is None:
        return page
    for place, entry in enumerate(page):
        if entry.at >= until:
            return page[:place]
    return page


def all_entries(entries: QuerySet[AuditEntry], *, after: int) -> Iterator[list[AuditEntry]]:
    """All complete entries after an id, page by page."""
    while page := next_entries(entries, after=after):
        yield page
        after = page[-1].id


def receivers() -> list[dict[str, Any]]:
    """How far the log was forwarded to each receiver, JSON-ready."""
    newest = AuditEntry.objects.order_by("-id").values_list("id", flat=True).first() or 0
    known = {row.url: row for row in AuditReceiver.objects.all()}
    found = []
    for receiver in receivers_of(settings.CONFIG.audit_forward):
        row = known.get(receiver.url) or AuditReceiver(url=receiver.url)
        behind = AuditEntry.objects.filter(id__gt=row.sent_id, id__lte=newest)[: MOST_COUNTED + 1].count()
        found.append(
            {
                "address": receiver.name,
                "sent_id": row.sent_id,
                "sent_at": row.sent_at,
                "behind": min(behind, MOST_COUNTED),
                "failures": row.failures,
                "failing_since": row.failing_since,
                "problem": row.problem,
            }
        )
    return found


def represented(entry: AuditEntry) -> dict[str, Any]:
    """An entry as the API, exports and receivers see it, JSON-ready."""
    return {
        "id": entry.id,
        "at": iso(entry.at),
        "kind": entry.kind,
        "actor": entry.actor,
        "token": entry.token,
        "address": entry.address,
        "request": entry.request,
        "action": entry.action,
        "outcome": entry.outcome,
        "object": entry.object_kind,
        "object_id": entry.object_id,
        "subject": entry.subject,
        "tenant": entry.tenant or None,
        "sentence": sentence(entry),
        "before": _restated(entry.before),
        "after": _restated(entry.after),
    }


def _restated(row: Any) -> Any:
    return {name: restated(value) for name, value in row.items()} if isinstance(row, dict) else row
