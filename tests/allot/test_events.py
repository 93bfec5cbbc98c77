"""`allot events --follow` against the real event stream, behind a door that a test can slam."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import uvicorn
from django.utils import timezone

from allot import transport
from allot.client import Client
from allot.errors import NotSignedIn, Unreachable, WrongUse
from allot.feed import messages
from controlplane import event_stream
from controlplane.asgi import application
from controlplane.connections import BoundedProtocol
from scheduler.models import Event
from tenants.models import Token
from tests.allot.conftest import Command
from tests.allot.fake_api import FakeApi
from tests.api.caller import make_token
from tests.patience import PATIENCE_SECONDS, until
from tests.scheduler.builders import make_member, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def write(tenant: Any, message: str, *, kind: str = "job.started", ago: timedelta = timedelta()) -> int:
    at = timezone.now() - ago
    return Event.objects.create(
        at=at, kind=kind, subject="job", subject_id=1, tenant=tenant, message=message
    ).id


class Door:
    """Passes bytes between a client and the server, until a test cuts all of its connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server_port: int) -> None:
        self.loop = loop
        self.server_port = server_port
        self.open: set[asyncio.StreamWriter] = set()
        self.opened = 0
        self.url = ""

    async def start(self) -> asyncio.Server:
        door = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{door.sockets[0].getsockname()[1]}"
        return door

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside, out = await asyncio.open_connection("127.0.0.1", self.server_port)
        self.open |= {writer, out}
        self.opened += 1
        await asyncio.gather(self._copy(reader, out), self._copy(inside, writer), return_exceptions=True)

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while piece := await source.read(65536):
            target.write(piece)
            await target.drain()
        target.close()

    def slam(self) -> None:
        def cut() -> None:
            for writer in self.open:
                writer.transport.abort()
            self.open.clear()

        self.loop.call_soon_threadsafe(cut)


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> Iterator[Door]:
    monkeypatch.setattr(event_stream, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(transport, "FIRST_DELAY_SECONDS", 0.01)
    monkeypatch.setenv("NO_PROXY", "*")
    config = uvicorn.Config(application, port=0, http=BoundedProtocol, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    made: queue.Queue[Door] = queue.Queue()
    ending = threading.Event()

    async def serve() -> None:
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        door = Door(asyncio.get_running_loop(), server.servers[0].sockets[0].getsockname()[1])
        async with await door.start():
            made.put(door)
            await asyncio.to_thread(ending.wait)
        await server.shutdown()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    yield made.get(timeout=PATIENCE_SECONDS)
    ending.set()
    thread.join(PATIENCE_SECONDS)


class Following:
    """A client that follows in a thread of its own; what it hears comes in order."""

    def __init__(self, client: Client, **wanted: Any) -> None:
        self._heard: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._follow, args=(client, wanted), daemon=True)
        self._thread.start()

    def _follow(self, client: Client, wanted: dict[str, Any]) -> None:
        try:
            for event in client.events.follow(**wanted):
                self._heard.put(event["message"])
        except Exception as error:  # the test looks at it
            self._heard.put(error)

    def next(self) -> Any:
        return self._heard.get(timeout=PATIENCE_SECONDS)


@pytest.fixture
def tenant() -> Any:
    return make_tenant("vision")


@pytest.fixture
def token(tenant: Any) -> str:
    return make_token(make_member(tenant, "ann", role="viewer"), scopes=["read"])


def test_what_happens_while_the_connection_is_lost_comes_once_it_is_back(
    door: Door, tenant: Any, token: str
) -> None:
    write(tenant, "long ago", ago=timedelta(days=2))
    write(tenant, "before")
    retries: list[str] = []
    client, hour = Client(door.url, token=token, on_retry=retries.append), timezone.now() - timedelta(hours=1)
    following = Following(client, since=hour, patience_seconds=PATIENCE_SECONDS)
    assert following.next() == "before"
    for turn in range(3):
        door.slam()
        until(lambda turn=turn: len(retries) > turn, "the client to see that the connection is lost")
        for number in range(3):
            write(tenant, f"{turn}.{number}")
        assert [following.next() for _ in range(3)] == [f"{turn}.{number}" for number in range(3)]
    # As often as it was asked again, nothing came twice.
    write(tenant, "last")
    assert following.next() == "last"
    Token.objects.all().delete()
    assert isinstance(following.next(), NotSignedIn)


def test_filters_are_those_of_the_list_and_without_patience_a_lost_connection_ends_it(
    door: Door, tenant: Any, token: str
) -> None:
    hour = timezone.now() - timedelta(hours=1)
    write(tenant, "marker", kind="node.lost")
    following = Following(Client(door.url, token=token), since=hour, kind="node.")
    assert following.next() == "marker"
    write(tenant, "not asked for")
    write(tenant, "asked for", kind="node.ready")
    assert following.next() == "asked for"
    door.slam()
    assert isinstance(following.next(), Unreachable)


def test_the_command_prints_each_event_at_once_and_ends_with_ctrl_c(
    door: Door, tenant: Any, token: str, api: FakeApi, tmp_path: Any
) -> None:
    write(tenant, "first\x1b[2J")
    command = Command(api, tmp_path)
    command.environment |= {"ALLOT_URL": door.url, "ALLOT_TOKEN": token}
    with (
        command.start("events", "--follow", "--since", "1h") as plain,
        command.start("events", "-f", "--since", "1h", "--json") as objects,
    ):
        assert plain.stdout is not None
        assert objects.stdout is not None
        line = plain.stdout.readline()
        assert line.endswith("first␛[2J\n")
        assert "job.started  job 1" in line
        assert json.loads(objects.stdout.readline())["message"] == "first\x1b[2J"
        second = write(tenant, "second")
        assert plain.stdout.readline().endswith("second\n")
        assert json.loads(objects.stdout.readline())["id"] == second
        for process in (plain, objects):
            process.send_signal(2)
            rest, problem = process.communicate(timeout=PATIENCE_SECONDS)
            assert (process.returncode, rest, problem) == (130, "", "")


def test_a_message_that_was_cut_off_is_not_one() -> None:
    lines = [
        "retry: 2000",
        "event: event",
        "id: 7",
        "data: {}",
        "",
        ": heartbeat",
        "id: 9",
        "",
        "event: event",
    ]
    assert list(messages(lines)) == [("event", "7", "{}"), ("", "9", "")]


def test_events_since_then_are_listed(door: Door, tenant: Any, token: str, monkeypatch: Any) -> None:
    from tests.allot.in_process import signed_in

    write(tenant, "long ago", ago=timedelta(days=2))
    recent = write(tenant, "recent")
    allot = signed_in(monkeypatch, door.url, token)
    assert allot("events", "--since", "1h", "-q").stdout == f"{recent}\n"
    refused = allot("events", "--follow", "-o", "yaml")
    assert refused.exit_code == WrongUse.exit_code
    assert "one event a line" in refused.stderr
    assert httpx.get(door.url + "/healthz").is_success
