"""The two WebSockets: pages that watch, and node agents that wait to be woken.

A page gets what its viewer may see when it connects. When the viewer's rights change, the stream ends within
ten seconds. If the viewer has any left, the page connects again and gets what the viewer may see then.
Whatever is lost on the way is refetched by REST: nothing here keeps state for a page.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings

from controlplane import open_streams, rights
from controlplane.audited import by_viewer
from controlplane.by_identity import ByIdentity
from controlplane.lanes import in_agents_thread
from scheduler.models.nodes import Node
from scheduler.nodes.services.managing import node_of_token
from scheduler.telemetry.logs.services.reading import may_watch
from scheduler.virtual_clusters.ledger.selectors import Sight
from scheduler.virtual_clusters.representations import virtual_cluster_seen
from scheduler.wiring import stream
from tenants.selectors import Viewer

#: Tells a page that the server was restarted, so that it refetches at once.
SERVER = uuid4().hex
_SIGHT_SECONDS = 60.0
_MESSAGE_BYTES = 4_096
_WATCHED_JOBS = 16

#: Close codes, in the range that RFC 6455 leaves to applications.
RIGHTS_CHANGED, NOT_SIGNED_IN, TOO_LARGE, TOO_MANY = 4001, 4401, 4413, 4429
#: This many messages may come at once before the others wait for their second.
_MESSAGES_AT_ONCE = 40
#: What pages get as it was sent, without a look into the database.
PASSED_ON = frozenset(
    {"live.objects", "live.queues", "live.progress", "live.log", "live.samples", "live.usage"}
)


class Pace:
    """How fast one socket may send: some messages at once, then a number a second."""

    def __init__(self, now: float) -> None:
        self._left = float(_MESSAGES_AT_ONCE)
        self._at = now

    def wait_seconds(self, now: float) -> float:
        """Count a message; return how long it has to wait."""
        rate = settings.CONFIG.socket_messages_per_second
        self._left = min(_MESSAGES_AT_ONCE, self._left + (now - self._at) * rate) - 1
        self._at = now
        return max(0.0, -self._left / rate)


def _text_of(event: Mapping[str, Any]) -> str:
    return json.dumps({**event, "type": event["type"].removeprefix("live.")})


#: Messages as JSON, written once for all pages, which get the same objects.
_texts = ByIdentity(_text_of)


class LiveConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """A page's stream of whole objects: those of its viewer's tenants, or everything for an operator."""

    right: rights.Right | None = None
    ending: asyncio.Task[None] | None = None
    has_ended = False
    counted: int | None = None

    async def connect(self) -> None:
        self.pace = Pace(time.monotonic())
        self.joined: set[str] = set()
        self.watched: set[int] = set()
        await self.accept()
        self.right = await rights.hold_of_scope(self.scope)
        if self.right is None or self.right.viewer is None:
            await self.close(NOT_SIGNED_IN)
            return
        self.viewer = self.right.viewer
        if not open_streams.take(self.viewer.user.id):
            await self.close(TOO_MANY)
            return
        self.counted = self.viewer.user.id
        await self._look_around()
        self.joined = _groups_of(self.viewer) | _wanted(self.scope)
        for group in self.joined:
            await self.channel_layer.group_add(group, self.channel_name)
        await self.send_json({"type": "hello", "version": 1, "server": SERVER})
        self.ending = asyncio.create_task(self._end_with(self.right))

    async def __call__(self, *application: Any) -> None:
        """Serve the socket; give back what it holds however it ends, an error of Redis included."""
        try:
            await super().__call__(*application)
        finally:
            self._give_back()

    async def disconnect(self, code: int) -> None:
        self._give_back()
        await self._leave_groups()

    def _give_back(self) -> None:
        if self.ending is not None:
            self.ending.cancel()
        if self.right is not None:
            self.right.release()
            self.right = None
        if self.counted is not None:
            open_streams.give_back(self.counted)
            self.counted = None

    async def _end_with(self, right: rights.Right) -> None:
        viewer = await right.changed()
        # First: a page that does not read what it is sent does not read the end of it either.
        self.has_ended = True
        await self._leave_groups()
        await self.close(NOT_SIGNED_IN if viewer is None else RIGHTS_CHANGED)

    async def _look_around(self) -> None:
        """See which tenants there are whose names are to be hidden."""
        self.looked_at = time.monotonic()
        self.sight = await database_sync_to_async(Sight.of)(self.viewer)

    async def _leave_groups(self) -> None:
        for group in self.joined | {stream.log_group(job) for job in self.watched}:
            await self.channel_layer.group_discard(group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **_: Any) -> None:
        if bytes_data is not None or len(text_data or "") > _MESSAGE_BYTES:
            await self.close(TOO_LARGE)
            return
        # Meanwhile nothing more is read from this socket.
        if seconds := self.pace.wait_seconds(time.monotonic()):
            await asyncio.sleep(seconds)
        try:
            content = await self.decode_json(text_data or "")
        except ValueError:
            content = None
        if isinstance(content, dict) and not self.has_ended:
            await self.receive_json(content)

    async def receive_json(self, content: dict[str, Any], **_: Any) -> None:
        match content:
            case {"type": "ping"}:
                await self.send_json({"type": "pong"})
            case {"type": "watch_log", "job": int(job)} if len(self.watched) < _WATCHED_JOBS:
                watches = by_viewer(self.scope, self.viewer, may_watch)
                if await database_sync_to_async(watches)(self.viewer, job) and not self.has_ended:
                    self.watched.add(job)
                    await self.channel_layer.group_add(stream.log_group(job), self.channel_name)
            case {"type": "unwatch_log", "job": int(job)} if job in self.watched:
                self.watched.discard(job)
                await self.channel_layer.group_discard(stream.log_group(job), self.channel_name)

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Handle a message; what only passes through asks nothing of Channels.

        That looks after the connections to the database first, in one thread for all sockets.
        """
        if message["type"] in PASSED_ON:
            await self._pass_on(message)
        else:
            await super().dispatch(message)

    async def _pass_on(self, event: dict[str, Any]) -> None:
        if any([each["kind"] == "virtual_cluster" for each in event.get("objects", ())]):
            await self._forward({**event, "objects": [self._seen(each) for each in event["objects"]]})
        elif not self.has_ended:
            await self.send(_texts.of(event))

    def _seen(self, each: dict[str, Any]) -> dict[str, Any]:
        if each["kind"] != "virtual_cluster":
            return each
        return {**each, "data": virtual_cluster_seen(each["data"], self.viewer)}

    async def live_ledger(self, event: dict[str, Any]) -> None:
        if time.monotonic() - self.looked_at > _SIGHT_SECONDS:
            await self._look_around()
        owners = {int(job): tenant for job, tenant in event["owners"].items()}
        lines = [self.sight.line(line, owners) for line in event["lines"]]
        await self._forward({"type": "live.ledger", "lines": lines})

    async def _forward(self, event: dict[str, Any]) -> None:
        if not self.has_ended:
            await self.send_json({**event, "type": event["type"].removeprefix("live.")})


class AgentConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """A node agent's socket: it gets "wake", and the sessions that users ask for (`sessions.consumers`)."""

    async def connect(self) -> None:
        self.group: str | None = None
        headers = dict(self.scope["headers"])
        token = headers.get(b"authorization", b"").decode("latin-1").removeprefix("Bearer ")
        node: Node | None = await in_agents_thread(node_of_token, token)
        if node is None:
            await self.close(NOT_SIGNED_IN)
            return
        self.group = stream.node_group(node.id)
        await self.channel_layer.group_add(self.group, self.channel_name)
        await self.accept()

    async def disconnect(self, code: int) -> None:
        if self.group is not None:
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def receive(self, **_: Any) -> None:
        """An agent has nothing to say here; whatever comes is ignored."""

    async def agent_wake(self, event: dict[str, Any]) -> None:
        await self.send_json({"type": "wake"})

    async def agent_session(self, event: dict[str, Any]) -> None:
        await self.send_json({"type": "session", "session": event["session"]})


def _groups_of(viewer: Viewer) -> set[str]:
    if viewer.is_operator:
        # Everything goes to the operators' group; a tenant's as well would come twice.
        return {stream.EVERYONE, stream.OPERATORS}
    return {stream.EVERYONE} | {stream.tenant_group(name) for name in viewer.tenant_names}


def _wanted(scope: Mapping[str, Any]) -> set[str]:
    """Return the groups that a client can do without: `?samples=no`, as the dashboard asks.

    Each node sends samples every few seconds: more messages than all changes together.
    """
    query = parse_qs(scope["query_string"].decode("latin-1"))
    return set() if query.get("samples") == ["no"] else {stream.SAMPLES}
