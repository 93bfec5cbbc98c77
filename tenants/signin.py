"""Checking a password, and making users who guess wait: for all processes together, never at others' cost.

Wrong guesses are counted by guesser: the browser, where it shows that this user has signed in with it before,
and otherwise the address together with the name. After some free guesses each has to wait for its turn,
longer and longer. When many guess from an address, or at a name, a newcomer there has one free guess. So a
user who knows the password waits only for guesses at the same name from the same address, and not even for
these in a browser that the user has used before.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import redis
from django.conf import settings
from django.contrib.auth import authenticate
from django.core import signing
from django.http import HttpRequest, HttpResponseBase

from tenants.errors import FieldError, Invalid, NotSignedIn, TooManyRequests
from tenants.models import User
from tenants.selectors import Viewer

#: Wrong guesses after which each more waits: usually, and where there is an attack.
FREE_GUESSES, FREE_GUESSES_UNDER_ATTACK = 5, 1
#: The first wait; each is twice as long as the one before, up to the longest.
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 4.0
#: Wrong guesses from one address at any name, and at one name from anywhere, that are an attack.
ATTACK_FROM_ADDRESS, ATTACK_ON_NAME = 50, 20
#: The time between two checks of passwords from one address: they cost processor time.
PACE_SECONDS = 0.2
#: A client that would have to wait longer for its turn is answered to come again.
LONGEST_TURN_SECONDS = 12.0
#: Wrong guesses are forgotten this long after the last one, and the oldest when there are too many to
#: remember.
FORGET_SECONDS = 900
MOST_REMEMBERED = 50_000

#: In the scope of an ASGI request: when it will be its turn, for code that can let it wait; and that it is
#: now.
TURN_AFTER_SECONDS, ITS_TURN = "allot.turn_after_seconds", "allot.its_turn"

#: Shows that a user has signed in with this browser before; it opens nothing.
BROWSER_COOKIE = "allot_browser"
_BROWSER_SECONDS = 400 * 86_400
_COOKIE_PATH = "/api/v1/session"
_PREFIX = "allot:signin:"
_ALL = f"{_PREFIX}all"


class Guesser(NamedTuple):
    """Keys of what is counted: by guesser; for a stranger also from the address, and at the name."""

    own: str
    address: str = ""
    name: str = ""


def sign_in(request: HttpRequest, *, username: str, password: str) -> User:
    """The user with this name and password; starts no session."""
    with _guess(request, _guesser(request, username)):
        user = authenticate(request, username=username, password=password)
        if not isinstance(user, User):
            # One sentence for all, so that a guess does not show which accounts there are.
            raise NotSignedIn(
                "This username and password do not belong together, or the account was deactivated."
            )
    return user


def confirm_password(request: HttpRequest, *, user: User, password: str, field: str = "current") -> None:
    """Raise unless this is the user's password: a person who found an open browser need not be the user."""
    with _guess(request, Guesser(_key("confirm", user.username, _network(request)))):
        if not user.check_password(password):
            problem = FieldError(field, "is not your password", "the password that you signed in with")
            raise Invalid(f"{field}: is not your password", [problem])


def with_password(request: HttpRequest, viewer: Viewer, password: str | None) -> Viewer:
    """The viewer, known to be the person whose password came in the field `your_password`, if it did."""
    if password is None:
        return viewer
    confirm_password(request, user=viewer.user, password=password, field="your_password")
    return replace(viewer, gave_password=True)


def remember_browser(request: HttpRequest, response: HttpResponseBase, user: User) -> None:
    """Keep others' guesses at this user's name from delaying this browser, from now on."""
    if not _browser(request, user.username):
        response.set_cookie(
            BROWSER_COOKIE,
            _signer().sign(f"{_key(user.username)}.{secrets.token_hex(8)}"),
            max_age=_BROWSER_SECONDS,
            path=_COOKIE_PATH,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )


@contextmanager
def _guess(request: HttpRequest, guesser: Guesser) -> Iterator[None]:
    """A guess, counted as wrong unless the block ends well."""
    scope = getattr(request, "scope", {})
    if ITS_TURN not in scope:
        # Before the password is checked: guesses sent all at once are counted too.
        most_seconds = LONGEST_TURN_SECONDS if scope else 0.0
        turn_seconds = _count(guesser, most_seconds)
        if turn_seconds > most_seconds:
            wait = math.ceil(turn_seconds - most_seconds)
            message = f"Too many wrong passwords. Try again in {wait} seconds."
            raise TooManyRequests(message, retry_after_seconds=wait)
        if turn_seconds > 0:
            scope[TURN_AFTER_SECONDS] = turn_seconds
            raise TooManyRequests(retry_after_seconds=math.ceil(turn_seconds))
    yield
    _take_back(guesser)


def _guesser(request: HttpRequest, username: str) -> Guesser:
    if browser := _browser(request, username):
        return Guesser(_key("browser", browser))
    network = _network(request)
    return Guesser(_key("pair", username, network), _key("address", network), _key("name", username))


def _browser(request: HttpRequest, username: str) -> str:
    """Return what names the browser, if this user has signed in with it before."""
    try:
        said = _signer().unsign(request.COOKIES.get(BROWSER_COOKIE, ""), max_age=_BROWSER_SECONDS)
    except signing.BadSignature:
        return ""
    return said if said.partition(".")[0] == _key(username) else ""


def _signer() -> signing.TimestampSigner:
    return signing.TimestampSigner(salt="allot.browser")


def _network(request: HttpRequest) -> str:
    """Return what distinguishes one guesser from others: an IPv6 guesser has a whole network of addresses."""
    text: str = request.META.get("REMOTE_ADDR", "")
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


def _key(*parts: str) -> str:
    # A digest, since names come from outside and may be of any length.
    return hashlib.sha256("\n".join(parts).casefold().encode()).hexdigest()[:32]


#: Returns in how many seconds it is the guess's turn. Counts it, unless that is more than the most it may be.
_COUNT = """
local own, address, name = KEYS[1], KEYS[2], KEYS[3]
local free, free_under_attack, first, longest = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local many_from_address, many_on_name, pace = ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0
local most_seconds, forget, most_remembered = ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0
local all, prefix = ARGV[11], ARGV[12]
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000

local function known(key, field)
    return tonumber(redis.call('HGET', prefix .. key, field)) or 0
end
local turn = math.max(now, known(own, 'next'))
local is_attacked = false
if address ~= '' then
    local many = known(address, 'wrong') >= many_from_address
    is_attacked = many or known(name, 'wrong') >= many_on_name
    if many then turn = math.max(turn, known(address, 'next')) else pace = 0 end
else
    pace = 0
end
if turn - now > most_seconds then return tostring(turn - now) end

local wrong = known(own, 'wrong') + 1
local beyond = wrong - (is_attacked and free_under_attack or free)
local wait = 0
if beyond >= 0 then wait = math.min(longest, first * 2 ^ math.min(beyond, 30)) end
redis.call('HSET', prefix .. own, 'next', string.format('%.6f', turn + wait))
if pace > 0 then redis.call('HSET', prefix .. address, 'next', string.format('%.6f', turn + pace)) end
for _, key in ipairs({own, address, name}) do
    if key ~= '' then
        redis.call('HINCRBY', prefix .. key, 'wrong', 1)
        redis.call('EXPIRE', prefix .. key, forget)
        redis.call('ZADD', all, now, key)
    end
end
redis.call('ZREMRANGEBYSCORE', all, '-inf', now - forget)
local beyond_most = redis.call('ZCARD', all) - most_remembered
if beyond_most > 0 then
    local oldest = redis.call('ZPOPMIN', all, beyond_most)
    for index = 1, #oldest, 2 do redis.call('DEL', prefix .. oldest[index]) end
end
redis.call('EXPIRE', all, forget)
return tostring(turn - now)
"""


def _count(guesser: Guesser, most_seconds: float) -> float:
    """Return in how many seconds it is the guess's turn; it is counted unless that is more than the most."""
    limits: list[float] = [FREE_GUESSES, FREE_GUESSES_UNDER_ATTACK, FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS]
    attacks: list[float] = [ATTACK_FROM_ADDRESS, ATTACK_ON_NAME, PACE_SECONDS]
    memory: list[float | str] = [most_seconds, FORGET_SECONDS, MOST_REMEMBERED, _ALL, _PREFIX]
    return float(_redis().eval(_COUNT, len(guesser), *guesser, *limits, *attacks, *memory))


def _take_back(guesser: Guesser) -> None:
    """A success does not count as a guess: many people sign in from one address, and a test signs
    in often.
    """
    with _redis().pipeline(transaction=True) as pipeline:
        # The user's own wrong guesses before are forgiven.
        pipeline.delete(_PREFIX + guesser.own)
        for key in filter(None, guesser[1:]):
            pipeline.hincrby(_PREFIX + key, "wrong", -1)
            pipeline.expire(_PREFIX + key, FORGET_SECONDS)
        pipeline.execute()


@cache
def _redis() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
