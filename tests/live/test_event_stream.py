"""Events by Server-Sent Events: real sockets at a real server, with real PostgreSQL and Redis."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from controlplane import connections, event_stream, open_streams
from controlplane.asgi import application
from controlplane.connections import BoundedProtocol
from controlplane.event_stream import ENDS
from scheduler.models import Event
from scheduler.models.selectors.events import Settling, last_given_out, settle
from tenants.models import Membership, Token
from tests.api.caller import make_token
from tests.live.described import check
from tests.patience import PATIENCE_SECONDS, until_async
from tests.scheduler.builders import make_member, make_tenant, make_user

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/api/v1/events/stream"


class Said(NamedTuple):
    """One message of a stream; a heartbeat is a comment and an id."""

    name: str
    id: str
    data: Any
    comment: str = ""


def parsed(block: str) -> Said:
    fields: dict[str, str] = {}
    for line in block.splitlines():
        name, _, value = line.partition(":")
        fields[name or "comment"] = value.removeprefix(" ")
    data = json.loads(fields["data"]) if "data" in fields else None
    return Said(fields.get("event", ""), fields.get("id", ""), data, fields.get("comment", ""))


class Stream:
    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._messages = self._read()

    async def _read(self) -> AsyncIterator[Said]:
        text = ""
        async for piece in self.answer.aiter_text():
            *blocks, text = (text + piece).split("\n\n")
            for block in blocks:
                yield parsed(block)

    async def next(self) -> Said:
        async with asyncio.timeout(PATIENCE_SECONDS):
            said = await anext(self._messages)
        if said.name:
            check(f"stream_{said.name}", said.data)
        return said

    async def ended(self) -> bool:
        """Whether nothing follows, and the answer was completed."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await anext(self._messages, None) is None


class Site:
    def __init__(self, server: uvicorn.Server) -> None:
        self.server = server
        self.port = server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    @contextlib.asynccontextmanager
    async def follow(self, token: str, *, after: int | None = None, query: str = "") -> AsyncIterator[Stream]:
        """A stream, past its greeting."""
        headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=PATIENCE_SECONDS) as client,
            client.stream("GET", PATH + query, headers=headers) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            stream = Stream(answer)
            assert (await stream.next()).name == "hello"
            yield stream

    async def get(self, token: str = "", headers: dict[str, str] | None = None) -> httpx.Response:
        by = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(base_url=self.url) as client:
            return await client.get(PATH, headers=by | (headers or {}))


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(event_stream, "LOOK_SECONDS", 0.02)
    config = uvicorn.Config(application, port=0, http=BoundedProtocol, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    yield Site(server)
    await server.shutdown()


@sync_to_async
def world() -> tuple[Any, Any, str, str]:
    """Two tenants, the token of a viewer of the first, and that of an operator."""
    vision, speech = make_tenant("vision"), make_tenant("speech")
    member = make_member(vision, "ann", role="viewer")
    return vision, speech, make_token(member, scopes=["read"]), make_token(make_user(operator=True))


def write(tenant: Any = None, kind: str = "job.started", message: str = "") -> int:
    return Event.objects.create(
        at=timezone.now(), kind=kind, subject="job", subject_id=1, tenant=tenant, message=message
    ).id


async def test_a_member_hears_of_his_tenants_events_as_they_are_written_and_an_operator_of_all(site):
    vision, speech, member, operator = await world()
    async with site.follow(member) as page, site.follow(operator) as console:
        assert page.answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        theirs = await sync_to_async(write)(speech)
        ours = await sync_to_async(write)(vision, message="line\nbreak, ü")
        heard = await page.next()
        assert (heard.name, heard.id) == ("event", str(ours))
        assert heard.data["message"] == "line\nbreak, ü"
        assert [(await console.next()).data["id"] for _ in range(2)] == [theirs, ours]


async def test_what_is_told_is_what_the_list_tells(site):
    vision, _, member, _ = await world()
    async with site.follow(member) as page:
        await sync_to_async(write)(vision)
        heard = (await page.next()).data
    async with httpx.AsyncClient(base_url=site.url) as client:
        listed = await client.get("/api/v1/events", headers={"Authorization": f"Bearer {member}"})
    assert listed.json()["results"] == [heard]


async def test_filters_are_those_of_the_list(site):
    vision, _, member, _ = await world()
    async with site.follow(member, query="?kind=node.") as page:
        await sync_to_async(write)(vision)
        wanted = await sync_to_async(write)(None, kind="node.lost")
        assert (await page.next()).data["id"] == wanted


async def test_a_stream_goes_on_after_the_last_event_that_was_heard(site, monkeypatch):
    monkeypatch.setattr(event_stream, "IDS_AT_ONCE", 2)
    vision, speech, member, _ = await world()
    first = await sync_to_async(write)(vision)
    for _ in range(5):
        await sync_to_async(write)(speech)
    later = [await sync_to_async(write)(vision) for _ in range(3)]
    async with site.follow(member, after=first) as page:
        assert [(await page.next()).data["id"] for _ in later] == later


async def test_an_event_whose_transaction_ends_later_than_that_of_a_higher_id_is_not_lost(site):
    vision, _, member, _ = await world()
    written, may_end = threading.Event(), threading.Event()
    ids = []

    def slow() -> None:
        try:
            with transaction.atomic():
                ids.append(write(vision))
                written.set()
                assert may_end.wait(PATIENCE_SECONDS)
        finally:
            connection.close()

    async with site.follow(member) as page:
        writer = threading.Thread(target=slow)
        writer.start()
        assert await asyncio.to_thread(written.wait, PATIENCE_SECONDS)
        higher = await sync_to_async(write)(vision)
        assert higher > ids[0]
        # Looks that saw the higher one, and the transaction of the lower one still there.
        state = await sync_to_async(settle)(Settling())
        assert state.writers
        assert state.settled is None
        may_end.set()
        assert [(await page.next()).data["id"] for _ in range(2)] == [ids[0], higher]
        await asyncio.to_thread(writer.join)


async def test_events_are_settled_though_somebody_is_always_writing():
    """Those who began later are not waited for."""
    first = Settling(settled=3, given_out=8, writers=frozenset({"1/7"}))
    ends = threading.Event()
    begun = threading.Event()

    def later() -> None:
        try:
            with transaction.atomic():
                write()
                begun.set()
                assert ends.wait(PATIENCE_SECONDS)
        finally:
            connection.close()

    writer = threading.Thread(target=later)
    writer.start()
    assert await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
    state = await sync_to_async(settle)(first)
    assert state.settled == 8
    assert state.given_out == await sync_to_async(last_given_out)()
    ends.set()
    await asyncio.to_thread(writer.join)


async def test_silence_is_broken_by_heartbeats_from_which_one_goes_on(site, monkeypatch):
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.05)
    _, speech, member, _ = await world()
    async with site.follow(member) as page:
        hidden = await sync_to_async(write)(speech)

        async def has_passed() -> bool:
            beat = await page.next()
            assert (beat.name, beat.comment) == ("", "heartbeat")
            return beat.id == str(hidden)

        await until_async(has_passed, "a heartbeat after the event that is another tenant's")


@pytest.mark.parametrize(
    ("take", "code"),
    [
        (lambda: Token.objects.filter(user__username="ann").delete(), "not_signed_in"),
        (lambda: Membership.objects.filter(user__username="ann").delete(), "rights_changed"),
    ],
)
async def test_a_stream_ends_with_the_rights_of_its_reader(site, monkeypatch, take, code):
    monkeypatch.setattr("controlplane.rights.RECHECK_SECONDS", 0.05)
    vision, _, member, _ = await world()
    async with site.follow(member) as page:
        await sync_to_async(take)()
        end = await page.next()
        assert (end.name, end.data) == ("end", {"code": code, "message": ENDS[code]})
        await sync_to_async(write)(vision)
        assert await page.ended()


async def test_a_stream_ends_when_the_database_does_not_answer(site, monkeypatch):
    _, _, member, _ = await world()
    async with site.follow(member) as page:

        async def away(_: Settling) -> Settling:
            raise OperationalError("it is away")

        monkeypatch.setattr(event_stream, "_settle", away)
        assert (await page.next()).data["code"] == "unavailable"
        assert await page.ended()


async def test_a_stop_of_the_server_ends_all_streams(site):
    _, _, member, operator = await world()
    async with site.follow(member) as page, site.follow(operator) as console:
        stopping = asyncio.create_task(site.server.shutdown())
        for stream in (page, console):
            assert (await stream.next()).data["code"] == "stopping"
            assert await stream.ended()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await stopping


async def test_streams_count_together_with_sockets_and_one_that_is_left_counts_no_longer(site, monkeypatch):
    monkeypatch.setattr(settings.CONFIG, "sockets_per_user", 2)
    _, _, member, operator = await world()
    user_id = (await Token.objects.aget(user__username="ann")).user_id
    assert open_streams.take(user_id)
    async with site.follow(member):
        answer = await site.get(member)
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
        assert answer.headers["RateLimit-Policy"] == '"streams-of-user";q=2;qu="concurrent-requests"'
        assert int(answer.headers["Retry-After"]) > 0
        # Others have their own.
        async with site.follow(operator):
            pass

    async def is_left() -> bool:
        return open_streams.count_of(user_id) == 1

    await until_async(is_left, "the stream to be given back")
    open_streams.give_back(user_id)


async def test_open_streams_take_no_turn_of_other_requests(site):
    """Half of the threads are the most that one caller may have at once."""
    _, _, member, _ = await world()
    async with contextlib.AsyncExitStack() as opened:
        for _ in range(settings.REQUEST_THREADS):
            await opened.enter_async_context(site.follow(member))
        async with httpx.AsyncClient(base_url=site.url) as client:
            headers = {"Authorization": f"Bearer {member}"}
            assert (await client.get("/api/v1/events", headers=headers)).status_code == 200


async def test_a_reader_that_takes_nothing_is_dropped(site, monkeypatch):
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(connections, "TAKE_SECONDS", 0.2)
    vision, _, member, _ = await world()

    @sync_to_async
    def write_much() -> None:
        """More than the buffers of both ends hold."""
        data = {"words": "x" * 100_000}
        Event.objects.bulk_create(
            Event(at=timezone.now(), kind="k", subject="job", subject_id=1, tenant=vision, data=data)
            for _ in range(200)
        )

    await write_much()
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=1_024)
    headers = f"Host: localhost\r\nAuthorization: Bearer {member}\r\nLast-Event-ID: 0\r\n"
    writer.write(f"GET {PATH} HTTP/1.1\r\n{headers}\r\n".encode())
    user_id = (await Token.objects.aget(user__username="ann")).user_id

    async def is_open() -> bool:
        return open_streams.count_of(user_id) == 1

    async def is_dropped() -> bool:
        return open_streams.count_of(user_id) == 0

    await until_async(is_open, "the stream to begin")
    await until_async(is_dropped, "the stream to be dropped")
    async with asyncio.timeout(PATIENCE_SECONDS):
        taken = await reader.read()
    # Broken off, not completed: whoever reads on knows that there is more.
    assert taken.startswith(b"HTTP/1.1 200")
    assert not taken.endswith(b"0\r\n\r\n")
    writer.close()


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "9" * 19, "", "999999999999"])
async def test_an_id_that_is_none_is_refused(site, given):
    _, _, member, _ = await world()
    answer = await site.get(member, {"Last-Event-ID": given, "Accept": "text/event-stream"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["fields"][0]["field"] == "Last-Event-ID"


async def test_who_may_not_read_is_refused_before_the_stream_begins(site):
    _, _, member, _ = await world()
    assert (await site.get()).status_code == 401
    assert (await site.get(f"{member}x")).status_code == 401
    revoked = await sync_to_async(lambda: make_token(make_user("bob")))()
    await Token.objects.filter(user__username="bob").adelete()
    answer = await site.get(revoked)
    assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in")


async def test_a_stranger_hears_nothing_of_a_tenant(site):
    vision, _, _, _ = await world()
    stranger = await sync_to_async(lambda: make_token(make_user("eve")))()
    async with site.follow(stranger) as page:
        await sync_to_async(write)(vision)
        node = await sync_to_async(write)(None, kind="node.lost")
        assert (await page.next()).data["id"] == node
