"""How long output is kept: a number of days after an attempt's end, and a number of bytes.

Output of attempts that have not ended is never removed. What was removed is recorded, and stated wherever the
output would be.
"""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet, Sum

from scheduler.core.model.lifecycle import AttemptState
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.logs import LogChunk, LogRemoval, RemovalCause
from scheduler.wiring.clock import database_now
from tenants.housekeeping import in_turn

log = logging.getLogger(__name__)

#: A node that was away brings the last output after the end of its attempt.
_LATE = timedelta(hours=1)


def prune_logs() -> int:
    """Remove output that is too old or too much, of the oldest attempts first; return their number."""
    now = database_now()
    removed = [_remove(removal, now) for removal in in_turn(_removals(now))]
    if removed:
        log.info("Removed the output of %d attempts, %d bytes.", len(removed), sum(removed))
    return len(removed)


@dataclass(frozen=True, slots=True)
class _Removal:
    """The output of an attempt, why it goes, and the limit that it exceeds: days or bytes."""

    attempt: Attempt
    cause: RemovalCause
    limit: int


def _removals(now: datetime) -> Iterator[_Removal]:
    """Yield what has to go; each is removed before the next is looked for."""
    config = settings.CONFIG
    ended = _ended_with_output(now)
    days = config.log_days_kept
    for attempt in ended.filter(ended_at__lt=now - timedelta(days=days)).iterator():
        yield _Removal(attempt, RemovalCause.AGE, math.ceil(days))
    if most := config.log_bytes_kept_of_tenant:
        for tenant, stored in _bytes_by_tenant():
            for attempt in _beyond(most, stored, ended.filter(job__tenant=tenant)):
                yield _Removal(attempt, RemovalCause.TENANT_BYTES, most)
    if most := config.log_bytes_kept:
        for attempt in _beyond(most, sum(stored for _, stored in _bytes_by_tenant()), ended):
            yield _Removal(attempt, RemovalCause.PLATFORM_BYTES, most)


def _ended_with_output(now: datetime) -> QuerySet[Attempt]:
    """Return the attempts of which there is output that may be removed, the first ended first."""
    ended = Attempt.objects.filter(state=AttemptState.ENDED, ended_at__lt=now - _LATE)
    stored = ended.annotate(stored=Sum("parts__log_size")).filter(stored__gt=0)
    return stored.order_by("ended_at", "id")


def _beyond(most: int, stored: int, ended: QuerySet[Attempt]) -> Iterator[Attempt]:
    """Yield attempts until at most `most` bytes of those that are stored would be left."""
    if stored <= most:
        return
    for attempt in ended.iterator():
        yield attempt
        stored -= attempt.stored  # type: ignore[attr-defined]
        if stored <= most:
            return


@transaction.atomic
def _remove(removal: _Removal, now: datetime) -> int:
    """Remove the output of one attempt; return its bytes."""
    attempt = removal.attempt
    # The lock that `logs_append` takes, too.
    parts = list(AttemptPart.objects.select_for_update(no_key=True).filter(attempt=attempt))
    removed = sum(part.log_size for part in parts)
    LogChunk.objects.filter(attempt=attempt).delete()
    AttemptPart.objects.filter(attempt=attempt).update(log_size=0)
    known, is_new = LogRemoval.objects.get_or_create(
        attempt=attempt,
        defaults={"at": now, "cause": removal.cause, "limit": removal.limit, "bytes": removed},
    )
    if not is_new:
        # A node was away for longer than the platform waits for, and brought the rest.
        LogRemoval.objects.filter(attempt=attempt).update(bytes=known.bytes + removed)
    return removed


def _bytes_by_tenant() -> list[tuple[int, int]]:
    """Return the output that is stored of each tenant, by its id."""
    stored = AttemptPart.objects.filter(log_size__gt=0).order_by().values("attempt__job__tenant")
    return list(stored.annotate(bytes=Sum("log_size")).values_list("attempt__job__tenant", "bytes"))
