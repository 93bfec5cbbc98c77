"""Which page opens a WebSocket: only one of ours may use the browser's cookie.

The names that we go by do not say enough: pages of jobs come from another port of the same host, and a
browser's cookies know no ports. So the origin must be the very host and port that was asked.
"""

from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from controlplane.limits import AsgiApplication, Receive, Scope, Send


class SameOrigin:
    """Refuses a WebSocket whose Origin is not the host and port in its Host header, or is not ours."""

    def __init__(self, application: AsgiApplication) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_same_origin(dict(scope["headers"])):
            await self.application(scope, receive, send)
            return
        await receive()
        # Closing before accepting makes the server answer 403.
        await send({"type": "websocket.close"})


def is_same_origin(headers: dict[bytes, bytes]) -> bool:
    """Whether a page of the host that it asks opened this; a request that names no origin does not count."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    origin = headers.get(b"origin")
    if origin is None or not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        return False
    parts = urlsplit(origin.decode("latin-1").lower())
    default = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    return bool(default) and parts.netloc.removesuffix(default) == host.removesuffix(default)
