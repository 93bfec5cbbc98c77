"""Where requests are worked on, and for how long."""

import asyncio
import io
import threading
from collections.abc import AsyncIterator

import httpx
import pytest
from django.core.signals import request_finished, request_started
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from controlplane.handler import Handler

pytestmark = pytest.mark.urls(__name__)

PIECE = b"piece of a file"
PAGE = bytes(range(256)) * 8_192 + b"end"
ended: list[str] = []


def thread(request: HttpRequest) -> HttpResponse:
    return HttpResponse(threading.current_thread().name)


async def pieces() -> AsyncIterator[bytes]:
    try:
        while True:
            yield PIECE
            await asyncio.sleep(0)
    finally:
        ended.append("file")


def endless(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(pieces())


def script(request: HttpRequest) -> FileResponse:
    return FileResponse(io.BytesIO(bytes(3 * Handler.chunk_size)))


def page(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(iter([PAGE, b"", PAGE[:5]]))


urlpatterns = [
    path("thread", thread),
    path("endless", endless),
    path("script", script),
    path("page", page),
]


@pytest.fixture
def seen():
    """Threads in which requests began and ended."""
    threads = []

    def note(**_):
        threads.append(threading.current_thread().name)

    for signal in (request_started, request_finished):
        signal.connect(note)
    yield threads
    for signal in (request_started, request_finished):
        signal.disconnect(note)


async def test_a_request_begins_and_ends_in_the_thread_of_its_view_which_serves_others_too(seen, settings):
    settings.REQUEST_THREADS = 1
    transport = httpx.ASGITransport(app=Handler())
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answers = await asyncio.gather(*(client.get("/thread") for _ in range(3)))
    assert [answer.text for answer in answers] == ["request_0"] * 3
    assert seen == ["request_0"] * 6


async def sent_for(address: str, incoming: list[dict]) -> list[dict]:
    """What is sent in answer to a request, and to what comes after it."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return incoming.pop(0) if incoming else await asyncio.Future()

    scope = {"type": "http", "method": "GET", "path": address, "headers": [(b"host", b"localhost")]}
    await Handler()(scope | {"query_string": b""}, receive, send)
    return sent


async def test_a_file_is_made_for_no_longer_than_somebody_reads_it(seen):
    ended.clear()
    sent = await sent_for("/endless", [{"type": "http.request", "body": b""}, {"type": "http.disconnect"}])
    assert sent[1]["body"] == PIECE
    assert ended == ["file"]
    assert len(seen) == 2


async def test_a_file_goes_out_in_large_pieces(seen):
    _, *pieces = await sent_for("/script", [{"type": "http.request", "body": b""}])
    sizes = [len(piece["body"]) for piece in pieces if piece.get("body")]
    assert sizes == [Handler.chunk_size] * 3


async def test_a_page_of_a_file_is_handed_to_the_connection_bit_by_bit(seen):
    """Or all of it would lie there, and be sent to a slow reader whose right to it ended long ago."""
    _, *pieces = await sent_for("/page", [{"type": "http.request", "body": b""}])
    bodies = [piece.get("body", b"") for piece in pieces]
    assert b"".join(bodies) == PAGE + PAGE[:5]
    assert max(map(len, bodies)) == Handler.chunk_size
