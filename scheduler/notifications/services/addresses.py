"""To which addresses webhooks may go: not to what only this server can reach.

A name is resolved once, all its addresses are looked at, and the connection is made to one of those that
were: a name that says something else a moment later leads nowhere.
"""

import ipaddress
import socket
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

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
        return ""
    return "" if is_allowed(str(address)) else "is not a public address"


def resolved(host: str, port: int, *, is_trusted: bool = False) -> list[str]:
    """Return the addresses of a host; raise NotPublic when one is not allowed, OSError when there is none."""
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
