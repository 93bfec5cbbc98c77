"""Secrets of webhooks and what is signed by them, as Standard Webhooks has it (standardwebhooks.com).

A secret is made of a random seed, which is stored, and the server's own key, which is not: whoever reads
the table can sign nothing.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings

from scheduler.notifications.models import Webhook

SECRET_PREFIX = "whsec_"
#: For so long the old secret signs beside the new one.
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
    """Return the headers for whoever knows one of the keys."""
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
