"""HTTP by Django, WebSockets by Channels."""

import os

import django
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
# Before anything that imports models.
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402

from controlplane.connections import SocketLimit  # noqa: E402
from controlplane.handler import Handler, is_streamed  # noqa: E402
from controlplane.limits import AsgiApplication, BodyLimit, Receive, Scope, Send  # noqa: E402
from controlplane.live import AgentConsumer, LiveConsumer  # noqa: E402
from controlplane.pulse import Lifespan  # noqa: E402
from controlplane.sessions.consumers import AgentSession, UserSession  # noqa: E402
from controlplane.sessions.origin import SameOrigin  # noqa: E402
from controlplane.sessions.pages import JobPages  # noqa: E402
from controlplane.sockets_away import SocketsAway  # noqa: E402


def live(consumer: AsgiApplication) -> AsgiApplication:
    """A browser signs in by its cookie, which any page may make it send: so its Origin must be ours.
    A program sends a bearer token, which no page can add: it has no Origin to check."""
    by_cookie = SameOrigin(AuthMiddlewareStack(consumer))

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        by_token = any(name == b"authorization" for name, _ in scope["headers"])
        await (consumer if by_token else by_cookie)(scope, receive, send)

    return choose


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a WebSocket on any other path; closing before accepting makes the server answer 403."""
    await receive()
    await send({"type": "websocket.close"})


handler = Handler()
dashboard = ProtocolTypeRouter(
    {
        # Its messages are only read there.
        "http": BodyLimit(
            handler,  # type: ignore[arg-type]
            limit_bytes=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
            is_streamed=is_streamed,
        ),
        "websocket": URLRouter(
            [
                path("ws/live", live(LiveConsumer.as_asgi())),  # type: ignore[arg-type]  # of Channels: an application, not a view
                path("ws/agent", AgentConsumer.as_asgi()),
                path("ws/jobs/<int:job_id>/session", live(UserSession.as_asgi())),  # type: ignore[arg-type]  # of Channels: an application, not a view
                path("ws/agent/sessions/<uuid:session_id>", AgentSession.as_asgi()),
                path("<path:rest>", nothing_here),  # type: ignore[arg-type]  # of Channels: an application, not a view
            ]
        ),
    }
)
application = Lifespan(SocketLimit(SocketsAway(JobPages(dashboard))), handler.agents)
