"""Which parts of a request go on to a job, and which of its answer go back: all but ours."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from django.conf import settings

from controlplane.limits import Scope
from tenants.signin import BROWSER_COOKIE
from tenants.tokens import USER_PREFIX

#: The browser's pass to one port of one job (`scheduler.jobs.sessions.services.port_passes`).
COOKIE = "allot_pass"
Headers = list[tuple[bytes, bytes]]

#: Headers of one connection, not of what is sent over it (RFC 9110, 7.6.1).
_OF_THE_CONNECTION = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OF_SOCKETS = b"sec-websocket-"


def our_cookies() -> frozenset[str]:
    return frozenset({COOKIE, BROWSER_COOKIE, settings.SESSION_COOKIE_NAME})


def request_headers(scope: Scope) -> Headers:
    """Return a request's headers as the job sees them: without our cookies, and without our tokens."""
    kept: Headers = []
    for name, value in scope["headers"]:
        if name in _OF_THE_CONNECTION or name.startswith(_OF_SOCKETS):
            continue
        if name == b"cookie":
            if value := b"; ".join(_others(value)):
                kept.append((name, value))
        elif name == b"authorization" and value.lower().startswith(f"bearer {USER_PREFIX}_".encode()):
            continue
        elif name == b"expect":
            continue  # Answered by our server already.
        else:
            kept.append((name, value))
    if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        kept.append((b"transfer-encoding", b"chunked"))
    scheme = "https" if settings.CONFIG.secure else "http"
    return [*kept, (b"x-forwarded-proto", scheme.encode())]


def response_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return an answer's headers as the browser sees them: a job sets no cookie of ours, nor for others."""
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in _OF_THE_CONNECTION
        and not (name.lower() == b"set-cookie" and not _may_be_set(value))
    ]


def is_foreign(scope: Scope) -> bool:
    """Whether another origin's page asks for more than to show this one.

    Our pages and those of other jobs are of the same site as this one, so that browsers send the cookie
    along with what they ask for.
    """
    headers = dict(scope["headers"])
    host, origin = headers.get(b"host", b"").lower(), headers.get(b"origin")
    is_other = origin is not None and urlsplit(origin.lower()).netloc != host
    if scope["type"] == "websocket":
        return is_other or origin is None
    if scope["method"] not in _SAFE:
        return is_other
    is_shown = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site") and not is_shown


def cookie_header(headers: dict[bytes, bytes], name: str) -> str:
    """Return that part of a Cookie header; the rest may be malformed."""
    start = f"{name}=".encode()
    parts = [part.strip() for part in headers.get(b"cookie", b"").split(b";")]
    return next((part.decode("latin-1") for part in parts if part.startswith(start)), "")


def _others(cookies: bytes) -> list[bytes]:
    ours = {name.encode() for name in our_cookies()}
    parts = [part.strip() for part in cookies.split(b";")]
    return [part for part in parts if part and part.split(b"=", 1)[0].strip() not in ours]


def _may_be_set(cookie: bytes) -> bool:
    name, *attributes = cookie.split(b";")
    has_domain = any(one.strip().lower().startswith(b"domain") for one in attributes)
    return not has_domain and name.split(b"=", 1)[0].strip().decode("latin-1") not in our_cookies()
