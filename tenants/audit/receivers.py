"""Where the audit log is forwarded to: set by those who run the server, not by an account of the platform."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

#: With the ports that are usual for them.
SCHEMES = {"syslog+udp": 514, "syslog+tcp": 601, "syslog+tls": 6514, "https": 443, "http": 80}
MOST_RECEIVERS = 8
_SECRET_PREFIX = "whsec_"
_SECRET_BYTES = 24


@dataclass(frozen=True, slots=True)
class Receiver:
    """One of the addresses of ALLOT_AUDIT_FORWARD."""

    url: str
    scheme: str
    host: str
    port: int
    #: File of the certificates that a syslog server's must go back to; empty: those of the system.
    authorities: str = ""

    @property
    def name(self) -> str:
        """What may be shown of it: a path may hold a password."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def is_webhook(self) -> bool:
        return self.scheme in ("http", "https")


def receivers_of(text: str) -> Sequence[Receiver]:
    """Read addresses separated by spaces; raise ValueError with what is wrong."""
    found = [_receiver(url) for url in text.split()]
    if len(found) > MOST_RECEIVERS:
        raise ValueError(f"names {len(found)} addresses; there may be {MOST_RECEIVERS}")
    if len({one.url for one in found}) < len(found):
        raise ValueError("names an address twice")
    return found


def key_of(secret: str) -> bytes:
    """Return the key by which webhooks are signed; raise ValueError when the secret is not one."""
    try:
        if not secret.startswith(_SECRET_PREFIX):
            raise ValueError
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except (ValueError, binascii.Error):
        raise ValueError(f'must be "{_SECRET_PREFIX}" and base64') from None
    if len(key) < _SECRET_BYTES:
        raise ValueError(f"needs at least {_SECRET_BYTES} bytes")
    return key


def _receiver(url: str) -> Receiver:
    parts = urlsplit(url)
    expected = "syslog+tls://host:6514, syslog+tcp://host:601, syslog+udp://host:514 or https://host/path"
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError(f"{url[:80]!r} is not an address; it must look like {expected}")
    options = parse_qs(parts.query) if parts.scheme.startswith("syslog") else {}
    if unknown := set(options) - {"ca"}:
        raise ValueError(f"{sorted(unknown)[0]!r} is not an option; the only one is ca=FILE, for syslog+tls")
    authorities = options.get("ca", [""])[0]
    if authorities and (parts.scheme != "syslog+tls" or not Path(authorities).is_file()):
        raise ValueError(f"ca={authorities}: must be a file, and is for syslog+tls")
    return Receiver(url, parts.scheme, parts.hostname, parts.port or SCHEMES[parts.scheme], authorities)
