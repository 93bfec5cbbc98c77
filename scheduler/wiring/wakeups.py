"""Ask for an early round. Losing a hint costs at most one beat tick; a thousand of them cost one round."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import redis
from celery import current_app
from django.conf import settings

from tenants.after_commit import once_after_commit

#: The instant at which a round is to start because a plan waits for it.
_DUE = "allot:round-due"
#: Such rounds keep this many times the distance that one takes: on a large cluster, where some instant is
#: always near, the ticks are enough.
_ROUND_PART = 10.0
#: Forecasts and accounts keep this many times the distance that one takes: they are worth little of the
#: machine's time.
_COST_PART = 10.0
#: One forecast or what-if at a time, so that rounds always find a worker free. Outlives its holder's limit.
_FORECASTING = "allot:forecasting"
_FORECASTING_MS = 75_000


@lru_cache(maxsize=1)
def _redis() -> redis.Redis:
    return redis.Redis.from_url(settings.CONFIG.redis_url, socket_timeout=2, socket_connect_timeout=2)


@dataclass(slots=True, kw_only=True)
class Debounce:
    """Runs a task soon after it is requested: once for a thousand requests, and at a distance.

    The first request after a pause starts it at once. Under a flood of requests, runs leave the machine to
    those who cause the flood.
    """

    task: str
    #: Two keys in Redis begin with it, one for a request that waits, one for a run that began lately.
    key: str
    #: From the beginning of a run to that of the next one.
    distance_ms: int
    #: A request whose run never came (a worker was killed) must not silence the next ones for longer.
    patience_ms: int

    def request(self) -> None:
        """Let the task run, unless a run is already requested."""
        if not _redis().set(self._hinted, 1, nx=True, px=self.distance_ms + self.patience_ms):
            return
        # Negative when there was no run lately.
        wait_ms = _redis().pttl(self._recent)
        if wait_ms > self.distance_ms:
            _redis().pexpire(self._hinted, wait_ms + self.patience_ms)
        current_app.send_task(self.task, countdown=wait_ms / 1_000 if wait_ms > 0 else None)

    def begins(self) -> None:
        """From now on a change may have been missed by the run's snapshot, so it may request the next one."""
        _redis().set(self._recent, 1, px=self.distance_ms)
        _redis().delete(self._hinted)

    def took(self, seconds: float) -> None:
        """Keep the next run at a distance in proportion to what this one cost."""
        _redis().set(self._recent, 1, px=max(self.distance_ms, int(_COST_PART * seconds * 1_000)))

    @property
    def _hinted(self) -> str:
        return f"{self.key}-hinted"

    @property
    def _recent(self) -> str:
        return f"{self.key}-recent"


ROUND = Debounce(task="scheduler.tasks.run_round", key="allot:round", distance_ms=200, patience_ms=1_000)
FORECAST = Debounce(
    task="scheduler.tasks.forecast", key="allot:forecast", distance_ms=3_000, patience_ms=10_000
)
ACCOUNT = Debounce(
    task="scheduler.tasks.account_for_rounds", key="allot:account", distance_ms=2_000, patience_ms=10_000
)

request_round = ROUND.request
#: Ask for a forecast of the waiting jobs' starts soon.
request_forecast = FORECAST.request
#: Let the newest rounds be accounted for soon.
request_account = ACCOUNT.request


def request_round_on_commit() -> None:
    """Once this transaction is committed, let a round start at once unless one is already asked for."""
    once_after_commit(request_round)


def request_round_at(instant: float, *, now: float, took_seconds: float) -> None:
    """Start a round at an instant that a plan waits for, unless a tick comes first; the last one took
    `took_seconds`.

    Without it what a policy does at an instant would be up to a tick late. One such round is due at a time,
    the earliest.
    """
    instant = max(instant, now + max(ROUND.distance_ms / 1_000, _ROUND_PART * took_seconds))
    wait_seconds = instant - now
    due = _redis().get(_DUE)
    if wait_seconds >= settings.CONFIG.round_seconds or (due is not None and float(due) <= instant):
        return
    _redis().set(_DUE, instant, px=int(wait_seconds * 1_000))
    current_app.send_task("scheduler.tasks.run_round", countdown=wait_seconds)


@contextmanager
def forecasting(*, most_ms: int = _FORECASTING_MS) -> Iterator[bool]:
    """Hold the right to simulate, for `most_ms` at most; False when another process has it."""
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
