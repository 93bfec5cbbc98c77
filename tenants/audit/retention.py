"""How long entries of the audit log are kept: their only end."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.utils import timezone

from tenants.audit.entries import record

_AT_ONCE = 5_000
_MOST = 200_000


def prune_audit_log() -> int:
    """Remove what is older than ALLOT_AUDIT_DAYS_KEPT, with an entry that says so; return how many."""
    until = timezone.now() - timedelta(days=settings.CONFIG.audit_days_kept)
    pruned = 0
    while pruned < _MOST and (gone := _prune_some(until)):
        pruned += gone
    if pruned:
        record(
            "audit.prune", object_kind="the audit log", after={"removed": pruned, "before": until.isoformat()}
        )
    return pruned


def _prune_some(until: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT audit_prune(%s, %s)", [until, _AT_ONCE])
        (pruned,) = cursor.fetchone()
    return int(pruned)
