"""How long output is kept: a number of days after an attempt's end, and a number of bytes.

Output of attempts that have not ended is never removed. What was removed is recorded, and stated wherever the
output would be.
"""

import logging
import math
import time
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet, Sum

from scheduler.core.model.lifecycle import AttemptState
from scheduler.models.attempts import Attempt, AttemptPart
from scheduler.models.logs import LogChunk, LogRemoval, RemovalCause
from scheduler.wiring.clock import database_now

log = logging.getLogger(__name__)

#: A node that was away brings the last output after the end of its attempt.
_LATE = timedelta(hours=1)
#: What is left is removed the next time: other housekeeping has its turn, too.
_MOST_SECONDS = 60.0


def prune_logs() -> int:
    """Remove output that is too old or too much, of the oldest attempts first; return their number."""
    config = settings.CONFIG
    pruning = _Pruning(database_now())
    pruning.remove_older(config.log_days_kept)
    if config.log_bytes_kept_of_tenant:
        for tenant, stored in _bytes_by_tenant():
            ended = pruning.ended().filter(job__tenant=tenant)
            pruning.remove_beyond(
                config.log_bytes_kept_of_tenant, stored, ended, cause=RemovalCause.TENANT_BYTES
            )
    if config.log_bytes_kept:
        stored = sum(stored for _, stored in _bytes_by_tenant())
        pruning.remove_beyond(
            config.log_bytes_kept, stored, pruning.ended(), cause=RemovalCause.PLATFORM_BYTES
        )
    if pruning.attempts:
        log.info("Removed the output of %d attempts, %d bytes.", pruning.attempts, pruning.bytes)
    return pruning.attempts


class _Pruning:
    """One run of housekeeping: what it has removed, and whether its time is over."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.deadline = time.monotonic() + _MOST_SECONDS
        self.attempts = 0
        self.bytes = 0

    def ended(self) -> QuerySet[Attempt]:
        """Attempts of which there is output that may be removed, the first ended first."""
        ended = Attempt.objects.filter(state=AttemptState.ENDED, ended_at__lt=self.now - _LATE)
        stored = ended.annotate(stored=Sum("parts__log_size")).filter(stored__gt=0)
        return stored.order_by("ended_at", "id")

    def remove_older(self, days: float) -> None:
        old = self.ended().filter(ended_at__lt=self.now - timedelta(days=days))
        for attempt in old.iterator():
            if not self.remove(attempt, cause=RemovalCause.AGE, limit=math.ceil(days)):
                return

    def remove_beyond(self, most: int, stored: int, ended: QuerySet[Attempt], *, cause: RemovalCause) -> None:
        if stored <= most:
            return
        for attempt in ended.iterator():
            if stored <= most or not self.remove(attempt, cause=cause, limit=most):
                return
            stored -= attempt.stored  # type: ignore[attr-defined]

    def remove(self, attempt: Attempt, *, cause: RemovalCause, limit: int) -> bool:
        """Remove the output of one attempt; return whether there is time for another."""
        with transaction.atomic():
            # The lock that `logs_append` takes, too.
            parts = list(AttemptPart.objects.select_for_update(no_key=True).filter(attempt=attempt))
            removed = sum(part.log_size for part in parts)
            LogChunk.objects.filter(attempt=attempt).delete()
            AttemptPart.objects.filter(attempt=attempt).update(log_size=0)
            known, is_new = LogRemoval.objects.get_or_create(
                attempt=attempt,
                defaults={"at": self.now, "cause": cause, "limit": limit, "bytes": removed},
            )
            if not is_new:
                # A node was away for longer than the platform waits for, and brought the rest.
                LogRemoval.objects.filter(attempt=attempt).update(bytes=known.bytes + removed)
        self.attempts += 1
        self.bytes += removed
        return time.monotonic() < self.deadline


def _bytes_by_tenant() -> list[tuple[int, int]]:
    """Return the output that is stored of each tenant, by its id."""
    stored = AttemptPart.objects.filter(log_size__gt=0).order_by().values("attempt__job__tenant")
    return list(stored.annotate(bytes=Sum("log_size")).values_list("attempt__job__tenant", "bytes"))
