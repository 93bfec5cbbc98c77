"""Secrets that the platform hands out once and afterwards knows only by a keyed hash."""

import hashlib
import hmac
import secrets
from typing import NamedTuple

from django.conf import settings

#: Cheap to recognise in a log or a repository, so that leaked tokens can be searched for.
USER_PREFIX = "alt"
NODE_PREFIX = "altn"
INVITATION_PREFIX = "alti"


class NewSecret(NamedTuple):
    """`text` is shown once; `key` finds the row again; `digest` is all that is stored of the secret."""

    text: str
    key: str
    digest: bytes


def new_secret(prefix: str) -> NewSecret:
    key, secret = secrets.token_hex(6), secrets.token_urlsafe(32).replace("_", "-")
    return NewSecret(f"{prefix}_{key}_{secret}", key, digest_of(secret))


def digest_of(secret: str) -> bytes:
    # The secret has 256 random bits, so a fast keyed hash is as good as a slow one; the key keeps a
    # stolen table from being used to check guesses.
    return hmac.digest(settings.SECRET_KEY.encode(), secret.encode(), hashlib.sha256)


def split(text: str, prefix: str) -> tuple[str, str] | None:
    """Return (key, secret) of a well-formed token with this prefix, else None."""
    if len(text) > 200 or not (text.isascii() and text.isprintable()):
        return None
    parts = text.split("_")
    if len(parts) != 3 or parts[0] != prefix or not parts[1] or not parts[2]:
        return None
    return parts[1], parts[2]


def matches(secret: str, digest: bytes | memoryview) -> bool:
    return hmac.compare_digest(digest_of(secret), bytes(digest))
