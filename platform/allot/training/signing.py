"""Signature version 4, by which S3-compatible stores know who asks.

Source: Amazon S3 API Reference, "Authenticating Requests: Using the Authorization Header (AWS Signature
Version 4)"; the worked examples there are in the tests.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    access_key: str
    secret_key: str
    region: str
    #: Of temporary credentials; empty for lasting ones.
    session_token: str = ""


def quoted_path(path: str) -> str:
    return quote(path, safe="/-_.~")


def quoted_query(query: Mapping[str, str]) -> str:
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


def signed_headers(
    credentials: Credentials,
    *,
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    content_sha256: str,
    at: datetime,
) -> dict[str, str]:
    """Return all headers of the request, `host` among those given; `at` is the time in UTC."""
    stamp = at.strftime("%Y%m%dT%H%M%SZ")
    signed = {name.lower(): value.strip() for name, value in headers.items()}
    signed |= {"x-amz-content-sha256": content_sha256, "x-amz-date": stamp}
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    request = "\n".join((method, quoted_path(path), quoted_query(query), lines, names, content_sha256))
    scope = f"{stamp[:8]}/{credentials.region}/s3/aws4_request"
    text = "\n".join((ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = b"AWS4" + credentials.secret_key.encode()
    for piece in (*scope.split("/"), text):
        key = hmac.digest(key, piece.encode(), "sha256")
    return {
        **signed,
        "authorization": (
            f"{ALGORITHM} Credential={credentials.access_key}/{scope},"
            f"SignedHeaders={names},Signature={key.hex()}"
        ),
    }
