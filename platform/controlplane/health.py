"""For load balancers and supervisors; no authentication, nothing told that helps an attacker."""

from __future__ import annotations

from collections.abc import Callable

import redis
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

ANSWER_SECONDS = 2.0


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process is alive: it can answer at all."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """The process can work: database and Redis answer."""
    parts = {"database": _works(_ask_database), "redis": _works(_ask_redis)}
    ready = all(parts.values())
    body = {
        "status": "ok" if ready else "unavailable",
        "parts": {name: "ok" if works else "unavailable" for name, works in parts.items()},
    }
    return JsonResponse(body, status=200 if ready else 503)


def _works(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except Exception:
        # Whatever the reason, the answer is "no"; the reason is for the log of who uses the part.
        return False
    return True


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _ask_redis() -> None:
    with redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS
    ) as client:
        client.ping()
