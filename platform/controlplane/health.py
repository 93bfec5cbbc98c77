"""For load balancers and supervisors; without authentication, and without details that help an attacker."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

import redis
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from scheduler.nodes.services.isolation import unisolated_nodes

ANSWER_SECONDS = 2.0
#: Anyone may ask, so the servers compute one answer in this many seconds at most.
FRESH_SECONDS = 1.0
#: More than a page holds, so that the table grows. It is taken back.
_WRITE = "INSERT INTO controlplane_readiness (filling) SELECT repeat('x', 1900) FROM generate_series(1, 8)"
#: Where vacuum has left free pages these rows need none, and a full disk would stay unseen until all are
#: used. To sort more than memory may hold takes a new file each time.
_LITTLE_MEMORY = "SET LOCAL work_mem = '64kB'"
_SORT = "SELECT md5(n::text) AS hash FROM generate_series(1, 5000) AS n ORDER BY hash OFFSET 4999"


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process is alive: it can answer at all."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """The process can work: database and Redis answer, and both can be written to.

    Beside that, on how many nodes nothing isolates jobs.
    """
    instant = int(time.monotonic() / FRESH_SECONDS)
    parts = _parts(instant)
    ready = set(parts.values()) == {"ok"}
    body: dict[str, object] = {"status": "ok" if ready else "unavailable", "parts": parts}
    if ready and (count := _count_unisolated(instant)):
        # It can work, and operators should know.
        body["warnings"] = {"nodes_without_isolation": count}
    return JsonResponse(body, status=200 if ready else 503)


@lru_cache(maxsize=1)
def _parts(instant: int) -> dict[str, str]:
    """Return the state of each part in this instant."""
    return {
        "database": _state(_ask_database, _write_database),
        "redis": _state(_ask_redis, _write_redis),
    }


def _state(ask: Callable[[], object], write: Callable[[], object]) -> str:
    """Whatever the reason, the answer is "no"; the reason goes to the log of the code that uses the part."""
    if not _works(ask):
        return "unavailable"
    return "ok" if _works(write) else "not writable"


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except Exception:
        return False
    return True


@lru_cache(maxsize=1)
def _count_unisolated(instant: int) -> int:
    try:
        return unisolated_nodes().count()
    except DatabaseError:
        return 0  # There may be no tables yet.


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _write_database() -> None:
    """Fails where the database takes only reads, as a standby does, and where its disk is full."""
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in (_WRITE, _LITTLE_MEMORY, _SORT):
            cursor.execute(statement)
        transaction.set_rollback(True)


def _ask_redis() -> None:
    with _redis() as client:
        client.ping()


def _write_redis() -> None:
    """Fails on a replica, where memory is used up, and where Redis could not save what it holds."""
    with _redis() as client:
        client.set("allot:readiness", "ok", ex=60)


def _redis() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS
    )
