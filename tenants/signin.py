"""Checking a password, with a limit on wrong guesses that holds for all processes together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import redis
from django.conf import settings
from django.contrib.auth import authenticate
from django.http import HttpRequest

from tenants.errors import FieldError, Invalid, NotSignedIn, TooManyRequests
from tenants.models import User

WINDOW_SECONDS = 300
#: Wrong guesses in one window, for one username from anywhere and from one address for anyone.
FAILURES_PER_USERNAME = 10
FAILURES_PER_ADDRESS = 50


class Counter(NamedTuple):
    key: str
    limit: int


def sign_in(request: HttpRequest, *, username: str, password: str) -> User:
    """The user with this name and password; starts no session."""
    with _guess(request, username):
        user = authenticate(request, username=username, password=password)
        if not isinstance(user, User):
            raise NotSignedIn("This username and password do not belong together.")
    return user


def confirm_password(request: HttpRequest, *, user: User, password: str) -> None:
    """Raise unless this is the user's password: who found an open browser is not yet the user."""
    with _guess(request, user.username):
        if not user.check_password(password):
            problem = FieldError("current", "is not your password", "the password that you signed in with")
            raise Invalid("current: is not your password", [problem])


@contextmanager
def _guess(request: HttpRequest, username: str) -> Iterator[None]:
    """A guess, counted as wrong unless the block ends well."""
    counters = _counters(username, request.META.get("REMOTE_ADDR", ""))
    # Before the password is looked at: guesses sent all at once are counted too.
    _count(counters)
    yield
    _take_back(counters)


def _counters(username: str, address: str) -> tuple[Counter, ...]:
    # A digest, since the name comes from outside and may be of any length.
    digest = hashlib.sha256(username.casefold().encode()).hexdigest()[:32]
    return (
        Counter(f"allot:signin:username:{digest}", FAILURES_PER_USERNAME),
        Counter(f"allot:signin:address:{address}", FAILURES_PER_ADDRESS),
    )


def _count(counters: tuple[Counter, ...]) -> None:
    with _redis().pipeline(transaction=True) as pipeline:
        for counter in counters:
            pipeline.set(counter.key, 0, ex=WINDOW_SECONDS, nx=True)
            pipeline.incr(counter.key)
            pipeline.ttl(counter.key)
        answers = pipeline.execute()
    for counter, count, seconds_left in zip(counters, answers[1::3], answers[2::3], strict=True):
        if count > counter.limit:
            wait = max(1, seconds_left)
            message = f"Too many wrong passwords. Try again in {wait} seconds."
            raise TooManyRequests(message, retry_after_seconds=wait)


def _take_back(counters: tuple[Counter, ...]) -> None:
    """Success is no guess: many people sign in from one address, and a test signs in often."""
    with _redis().pipeline(transaction=True) as pipeline:
        for counter in counters:
            pipeline.set(counter.key, 0, ex=WINDOW_SECONDS, nx=True)
            pipeline.decr(counter.key)
        pipeline.execute()


@cache
def _redis() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
