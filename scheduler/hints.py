"""Ask for an early round. Losing a hint costs at most one beat tick; a thousand of them cost one round."""

from functools import lru_cache

import redis
from celery import current_app
from django.conf import settings
from django.db import transaction

_HINTED = "allot:round-hinted"
_RECENT = "allot:round-recent"
#: A hint whose round never came (a worker was killed) must not silence the next ones for long.
_EXPIRES_MS = 1_000
#: The first hint after a pause is followed at once; under a flood of them, rounds keep this distance and
#: leave the machine to those who cause the flood.
_DISTANCE_MS = 200


@lru_cache(maxsize=1)
def _redis() -> redis.Redis:
    return redis.Redis.from_url(settings.CONFIG.redis_url, socket_timeout=2, socket_connect_timeout=2)


def hint_round() -> None:
    """Once this transaction is committed, let a round start at once unless one is already asked for."""
    # Robust: a Redis that is away must not fail what was committed; the next tick does the work.
    transaction.on_commit(ask_for_round, robust=True)


def ask_for_round() -> None:
    if not _redis().set(_HINTED, 1, nx=True, px=_EXPIRES_MS + _DISTANCE_MS):
        return
    # Negative when there was no round recently.
    wait_ms = _redis().pttl(_RECENT)
    current_app.send_task("scheduler.tasks.run_round", countdown=wait_ms / 1_000 if wait_ms > 0 else None)


def round_begins() -> None:
    """From now on a change may have been missed by the round's snapshot, so it may hint again."""
    _redis().delete(_HINTED)
    _redis().set(_RECENT, 1, px=_DISTANCE_MS)
