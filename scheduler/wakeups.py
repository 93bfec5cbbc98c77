"""Ask for an early round. Losing a hint costs at most one beat tick; a thousand of them cost one round."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import redis
from celery import current_app
from django.conf import settings

from tenants.after_commit import after_commit

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


#: Forecasts keep this distance at least, and ten times what the last one took: they are worth little of the
#: machine's time.
_FORECAST_HINTED = "allot:forecast-hinted"
_FORECAST_RECENT = "allot:forecast-recent"
_FORECAST_DISTANCE_SECONDS = 3.0
_FORECAST_PART = 10.0
#: One forecast or what-if at a time, so that rounds always find a worker free. Outlives its holder's limit.
_FORECASTING = "allot:forecasting"
_FORECASTING_MS = 75_000


#: The instant at which a round is to start because a plan waits for it.
_DUE = "allot:round-due"
#: Such rounds keep this many times the distance that one takes: on a large cluster, where somebody's instant
#: is always near, the ticks are enough.
_ROUND_PART = 10.0
#: Accounting for fairness, likewise.
_ACCOUNT_HINTED = "allot:account-hinted"
_ACCOUNT_RECENT = "allot:account-recent"
_ACCOUNT_DISTANCE_SECONDS = 2.0


def request_round_on_commit() -> None:
    """Once this transaction is committed, let a round start at once unless one is already asked for."""
    after_commit(request_round)


def request_round() -> None:
    if not _redis().set(_HINTED, 1, nx=True, px=_EXPIRES_MS + _DISTANCE_MS):
        return
    # Negative when there was no round recently.
    wait_ms = _redis().pttl(_RECENT)
    current_app.send_task("scheduler.tasks.run_round", countdown=wait_ms / 1_000 if wait_ms > 0 else None)


def request_round_at(instant: float, *, now: float, took_seconds: float) -> None:
    """Let a round start at an instant that a plan waits for, unless a tick comes first; it took so long.

    Without it what a policy does at an instant would be up to a tick late. One such round is due at a time,
    the earliest.
    """
    instant = max(instant, now + max(_DISTANCE_MS / 1_000, _ROUND_PART * took_seconds))
    wait_seconds = instant - now
    due = _redis().get(_DUE)
    if wait_seconds >= settings.CONFIG.round_seconds or (due is not None and float(due) <= instant):
        return
    _redis().set(_DUE, instant, px=int(wait_seconds * 1_000))
    current_app.send_task("scheduler.tasks.run_round", countdown=wait_seconds)


def round_begins() -> None:
    """From now on a change may have been missed by the round's snapshot, so it may hint again."""
    _redis().delete(_HINTED)
    _redis().set(_RECENT, 1, px=_DISTANCE_MS)


def request_forecast() -> None:
    """Let the waiting jobs' starts be foreseen soon; a thousand such wishes cost one forecast."""
    wait_ms = max(0, _redis().pttl(_FORECAST_RECENT))
    if _redis().set(_FORECAST_HINTED, 1, nx=True, px=wait_ms + 10_000):
        current_app.send_task("scheduler.tasks.forecast", countdown=wait_ms / 1_000 if wait_ms else None)


def forecast_begins() -> None:
    """From now on a round may have been missed by the forecast's snapshot, so it may hint again."""
    _redis().set(_FORECAST_RECENT, 1, px=int(_FORECAST_DISTANCE_SECONDS * 1_000))
    _redis().delete(_FORECAST_HINTED)


def forecast_took(seconds: float) -> None:
    """Keep the next forecast at a distance in proportion to what this one cost."""
    distance = max(_FORECAST_DISTANCE_SECONDS, _FORECAST_PART * seconds)
    _redis().set(_FORECAST_RECENT, 1, px=int(distance * 1_000))


def request_account() -> None:
    """Let the newest rounds be accounted for soon; a thousand such wishes cost one account."""
    wait_ms = max(0, _redis().pttl(_ACCOUNT_RECENT))
    if _redis().set(_ACCOUNT_HINTED, 1, nx=True, px=wait_ms + 10_000):
        name = "scheduler.tasks.account_for_rounds"
        current_app.send_task(name, countdown=wait_ms / 1_000 if wait_ms else None)


def account_begins() -> None:
    """From now on a round may have been missed by the account, so it may hint again."""
    _redis().set(_ACCOUNT_RECENT, 1, px=int(_ACCOUNT_DISTANCE_SECONDS * 1_000))
    _redis().delete(_ACCOUNT_HINTED)


def account_took(seconds: float) -> None:
    """Keep the next account at a distance in proportion to what this one cost."""
    distance = max(_ACCOUNT_DISTANCE_SECONDS, _FORECAST_PART * seconds)
    _redis().set(_ACCOUNT_RECENT, 1, px=int(distance * 1_000))


@contextmanager
def forecasting(*, most_ms: int = _FORECASTING_MS) -> Iterator[bool]:
    """Hold the right to simulate, for at most so long; False when somebody else has it."""
    mine = secrets.token_hex(8)
    is_mine = bool(_redis().set(_FORECASTING, mine, nx=True, px=most_ms))
    try:
        yield is_mine
    finally:
        if is_mine and _redis().get(_FORECASTING) == mine.encode():
            _redis().delete(_FORECASTING)


def request_answer(question: str, *, after_seconds: float | None = None) -> None:
    """Have a what-if question answered."""
    current_app.send_task("scheduler.tasks.answer_what_if", args=[question], countdown=after_seconds)


def request_comparison(virtual_cluster: str, *, after_seconds: float | None = None) -> None:
    """Have a virtual cluster compared with its private cluster."""
    name = "scheduler.tasks.compare_with_private"
    current_app.send_task(name, args=[virtual_cluster], countdown=after_seconds)


def request_advice(advice: str, *, after_seconds: float | None = None) -> None:
    """Have it worked out which cells each virtual cluster should get."""
    current_app.send_task("scheduler.tasks.advise", args=[advice], countdown=after_seconds)


def request_elasticity_savings(question: str, *, after_seconds: float | None = None) -> None:
    """Have it worked out what elasticity saved."""
    name = "scheduler.tasks.work_out_elasticity_savings"
    current_app.send_task(name, args=[question], countdown=after_seconds)
