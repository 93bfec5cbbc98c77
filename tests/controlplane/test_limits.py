"""What is refused before it is read, at the ASGI application that a server runs."""

from collections.abc import AsyncIterator

import httpx
import pytest
from django.conf import settings

from controlplane.asgi import application

LIMIT_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def in_chunks(total_bytes: int) -> AsyncIterator[bytes]:
    for _ in range(total_bytes // 1000):
        yield b" " * 1000


def is_too_large(response: httpx.Response) -> None:
    assert response.status_code == 413
    assert set(response.json()) == {"type", "title", "status", "detail", "code", "fields"}
    assert response.json()["code"] == "too_large"


async def test_a_long_body_is_refused_by_its_declared_length(client):
    is_too_large(await client.post("/api/v1/jobs", content=b" " * (LIMIT_BYTES + 1)))


async def test_a_long_body_of_unknown_length_is_refused_too(client):
    response = await client.post("/api/v1/jobs", content=in_chunks(LIMIT_BYTES + 1000))
    assert "content-length" not in response.request.headers
    is_too_large(response)


async def test_a_long_body_is_not_read_to_its_end():
    sent = []

    async def endless():
        sent.append(1)
        return {"type": "http.request", "body": b" " * 100_000, "more_body": True}

    async def send(message):
        sent.append(message)

    await application({"type": "http", "headers": []}, endless, send)
    assert sent[-2]["status"] == 413
    assert sent.count(1) == LIMIT_BYTES // 100_000 + 1


async def test_a_length_that_lies_is_found_out(client):
    response = await client.post(
        "/api/v1/jobs", content=in_chunks(LIMIT_BYTES + 1000), headers={"Content-Length": "10"}
    )
    is_too_large(response)


@pytest.mark.django_db(transaction=True)
async def test_a_body_at_the_limit_is_read(client, redis_url):
    body = b'{"username": "x", "password": "y"}'
    body += b" " * (LIMIT_BYTES - len(body))
    for content in (body, in_whole_chunks(body)):
        response = await client.post(
            "/api/v1/session", content=content, headers={"Content-Type": "application/json"}
        )
        assert (response.status_code, response.json()["code"]) == (401, "not_signed_in"), response.text


async def in_whole_chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]
