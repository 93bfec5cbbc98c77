"""One request to a webhook, or to another receiver: to an address that was checked, signed as Standard
Webhooks has it (standardwebhooks.com), with no redirects, within a time and a size.

Webhooks may not go to addresses that only this server should reach. A name is resolved once, all its
addresses are checked, and the connection is made to one of those that were: a name that resolves to another
address a moment later leads nowhere.

A secret is made of a random seed, which is stored, and the server's own key, which is not. So anyone who
reads the table can sign nothing.
"""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

import httpx
from django.conf import settings

from scheduler.models.notifications import Webhook
from tenants.errors import FieldError, Invalid

MOST_CHARACTERS = 500
_SCHEMES = {"https": 443, "http": 80}
#: They carry an IPv4 address inside, which a gateway may go to: NAT64, 6to4, Teredo.
_CARRIERS = [
    ipaddress.ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")
]


class NotPublic(OSError):
    """The name leads to an address that webhooks may not go to."""


def checked_url(url: str) -> str:
    """Return the URL; raise Invalid when nothing may ever be sent there."""
    problem = _problem(url)
    if problem:
        expected = "https://host/path" + (" (or http://)" if may_be_private() else "")
        raise Invalid(f"url: {problem}", [FieldError("url", problem, expected)])
    return url


def may_be_private() -> bool:
    return settings.CONFIG.webhook_private_addresses


def parts_of(url: str) -> tuple[SplitResult, str, int]:
    """Return a checked URL's parts, its host and its port."""
    parts = urlsplit(url)
    return parts, parts.hostname or "", parts.port or _SCHEMES[parts.scheme]


def _problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in _SCHEMES or not host:
        return "is not a URL of https"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "has characters that must be escaped"
    if parts.scheme == "http" and not may_be_private():
        return "is not encrypted"
    if parts.username is not None or parts.password is not None:
        return "holds a password: the signature says who sends"
    if parts.fragment or port == 0:
        return "is not a URL of https"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "" if _is_name(host) else "has a host that is not a name: a part of it is empty or too long"
    return "" if is_allowed(str(address)) else "is not a public address"


def _is_name(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def resolved(host: str, port: int, *, is_trusted: bool = False) -> list[str]:
    """Return the addresses of a host; raise NotPublic when one is not allowed, OSError when there is none."""
    if not _is_name(host):
        # Else it is a UnicodeError, which is no OSError.
        raise OSError(f"{host} is not a name")
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if not is_trusted and not is_allowed(address):
            raise NotPublic(f"{host} is at {address}, which is not a public address")
    return addresses


def is_allowed(text: str) -> bool:
    if may_be_private():
        return True
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif any(address in carrier for carrier in _CARRIERS):
            return False
    return address.is_global and not address.is_multicast


SECRET_PREFIX = "whsec_"
#: The old secret signs beside the new one for this long.
OVERLAP = timedelta(days=1)


def new_seed() -> bytes:
    return secrets.token_bytes(32)


def secret_text(seed: bytes) -> str:
    """Return the secret as it is shown to people, once."""
    return SECRET_PREFIX + base64.b64encode(_key(seed)).decode()


def headers(webhook: Webhook, message: str, body: str, *, at: datetime) -> dict[str, str]:
    """Return the headers by which the receiver knows who sent this, and when."""
    seeds = [bytes(webhook.seed)]
    if webhook.old_seed and webhook.old_seed_ends_at and at < webhook.old_seed_ends_at:
        seeds.append(bytes(webhook.old_seed))
    return signed_headers([_key(seed) for seed in seeds], message, body, at=at)


def signed_headers(keys: Sequence[bytes], message: str, body: str, *, at: datetime) -> dict[str, str]:
    """Return the headers for a receiver that knows one of the keys."""
    seconds = str(int(at.timestamp()))
    signed = f"{message}.{seconds}.{body}".encode()
    return {
        "webhook-id": message,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{_signature(key, signed)}" for key in keys),
    }


def _signature(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def _key(seed: bytes) -> bytes:
    return hmac.digest(settings.SECRET_KEY.encode(), b"webhook" + seed, hashlib.sha256)


#: For all of it: name, connection, request and answer.
TIMEOUT_SECONDS = 5.0
REPLY_BYTES = 500
#: The most addresses of a name that are tried.
_ADDRESSES_TRIED = 2
#: The most names that are looked up at the same time.
LOOKUPS_MOST = 64
_LOOKUPS = threading.BoundedSemaphore(LOOKUPS_MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a try ended: with a status, or with why there is none."""

    status: int | None = None
    reply: str = ""
    problem: str = ""
    seconds: float

    @property
    def is_taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def post(url: str, body: str, headers: Mapping[str, str], *, is_trusted: bool = False) -> Answer:
    """Send it; the answer reports whatever goes wrong. A trusted URL may lead anywhere."""
    began = time.monotonic()
    status, reply, problem = None, "", ""
    try:
        _, host, port = parts_of(url)
        addresses = _looked_up(host, port, is_trusted=is_trusted).result(TIMEOUT_SECONDS)
        # Its deadline holds however slowly the other side dribbles; httpx's own are for single steps.
        left_seconds = TIMEOUT_SECONDS - (time.monotonic() - began)
        status, reply = asyncio.run(_within(left_seconds, _post(url, body, headers, addresses)))
    except TimeoutError:
        problem = f"no whole answer within {TIMEOUT_SECONDS:g} s"
    except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
        problem = str(error) or type(error).__name__
    return Answer(status=status, reply=reply, problem=problem[:300], seconds=time.monotonic() - began)


def _looked_up(host: str, port: int, *, is_trusted: bool) -> Future[list[str]]:
    """Return what will be the addresses of a host, as `resolved` finds them.

    A name server that never answers holds a thread of its own: an event loop would wait for its threads when
    it ends, and a process for those of a pool. Raises OSError when there are too many such threads.
    """
    if not _LOOKUPS.acquire(blocking=False):
        raise OSError(f"{host} was not looked up: name servers do not answer for {LOOKUPS_MOST} other names")
    found = Future[list[str]]()

    def look_up() -> None:
        try:
            found.set_result(resolved(host, port, is_trusted=is_trusted))
        except Exception as error:
            found.set_exception(error)
        finally:
            _LOOKUPS.release()

    threading.Thread(target=look_up, name=f"look-up of {host}", daemon=True).start()
    return found


async def _within(seconds: float, answer: Awaitable[tuple[int, str]]) -> tuple[int, str]:
    async with asyncio.timeout(seconds):
        return await answer


async def _post(url: str, body: str, headers: Mapping[str, str], addresses: Sequence[str]) -> tuple[int, str]:
    parts, host, port = parts_of(url)
    sent = {
        **headers,
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "User-Agent": "Allotment",
        "Accept-Encoding": "identity",
    }
    async with httpx.AsyncClient(
        verify=_certificates(), trust_env=False, follow_redirects=False, timeout=TIMEOUT_SECONDS
    ) as client:
        for place, address in enumerate(addresses[:_ADDRESSES_TRIED], start=1):
            where = httpx.URL(url).copy_with(host=address, port=port)
            # The certificate must be that of the name, not of the address.
            extensions = {"sni_hostname": host} if parts.scheme == "https" else {}
            try:
                async with client.stream(
                    "POST", where, content=body.encode(), headers=sent, extensions=extensions
                ) as answer:
                    return answer.status_code, await _beginning(answer)
            except httpx.ConnectError:
                if place == min(len(addresses), _ADDRESSES_TRIED):
                    raise
    raise OSError(f"{host} has no address")


async def _beginning(answer: httpx.Response) -> str:
    read = b""
    async for chunk in answer.aiter_raw():
        read += chunk
        if len(read) >= REPLY_BYTES:
            break
    return read[:REPLY_BYTES].decode(errors="replace").replace("\0", "")


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context()
