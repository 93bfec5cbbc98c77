"""Pages of jobs in a browser's place: tickets, cookies, origins, and what gets through."""

import sys
from urllib.parse import urlsplit

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from controlplane.sessions import pages
from scheduler.jobs.services.control import job_cancel
from scheduler.models import PortPass, Session
from tenants.models import Token
from tests.sessions.conftest import Site

#: A program such as a notebook: it says what it was asked, and echoes on a WebSocket.
PROGRAM = """
import asyncio, json, os, uvicorn
async def application(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept", "subprotocol": (scope["subprotocols"] or [None])[0]})
        while (message := await receive())["type"] == "websocket.receive":
            kept = {name: value for name, value in message.items() if name != "type"}
            await send({"type": "websocket.send", **kept})
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"): break
    told = {"method": scope["method"], "path": scope["path"], "query": scope["query_string"].decode(),
            "bytes": len(body), "headers": [[n.decode(), v.decode()] for n, v in scope["headers"]]}
    if scope["path"].endswith("/large"):
        told = "x" * 3_000_000
    headers = [(b"content-type", b"application/json"), (b"set-cookie", b"theirs=1; Path=/"),
               (b"set-cookie", b"allot_session=stolen"), (b"set-cookie", b"a=b; Domain=localhost")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(told).encode()})
uvicorn.run(application, port=int(os.environ["ALLOT_PORT_NOTEBOOK"]), log_level="error", lifespan="off")
"""


async def address(site: Site, token: str) -> str:
    """What the API says for a browser."""
    async with httpx.AsyncClient() as client:
        answer = await client.post(
            f"{site.url}/api/v1/jobs/{site.job.id}/ports/notebook/open",
            headers={"Authorization": f"Bearer {token}"},
        )
    assert answer.status_code == 200, answer.text
    return answer.json()["url"]


async def test_a_page_is_shown_to_who_may_see_it_and_to_nobody_else(site: Site, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "RECHECK_SECONDS", 0.05)
    command = [sys.executable, "-c", PROGRAM]
    await sync_to_async(site.set_up)(tmp_path, command, "notebook")
    await site.start()
    token = await site.token(site.ada)
    url = await address(site, token)
    path = f"/job/{site.job.id}/notebook/"
    assert url.startswith(f"http://127.0.0.1:{site.proxy_port}{path}?allot_ticket=altp_")
    base = f"http://127.0.0.1:{site.proxy_port}"

    async with httpx.AsyncClient(base_url=base) as browser:
        assert (await browser.get(path)).status_code == 403
        arrived = await browser.get(url)
        assert (arrived.status_code, arrived.headers["location"]) == (303, path)
        cookie = arrived.headers["set-cookie"]
        assert f"Path={path}" in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        # For once: it is of no use to who finds the address in a history.
        async with httpx.AsyncClient() as other:
            assert (await other.get(url)).status_code == 403

        # Until the program listens, it is said so.
        while (answer := await browser.get(f"{path}lab?x=1&y=%2F")).status_code == 502:
            assert "listens" in answer.text
        mine = {**dict(browser.cookies), "allot_session": "s", "theirs": "1"}
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in mine.items())}
        answer = await browser.get(
            f"{path}lab?x=1&y=%2F", headers={**headers, "Authorization": f"Bearer {token}"}
        )
        told = answer.json()
        assert (told["path"], told["query"]) == (f"{path}lab", "x=1&y=%2F")
        seen = {name: value for name, value in told["headers"]}
        assert seen["cookie"] == "theirs=1"
        assert "authorization" not in seen
        assert seen["host"] == f"127.0.0.1:{site.proxy_port}"
        assert answer.headers.get_list("set-cookie") == ["theirs=1; Path=/"]
        assert len((await browser.get(f"{path}large", headers=headers)).content) == 3_000_002
        posted = await browser.post(
            f"{path}save", content=b"n" * 500_000, headers={**headers, "Origin": base}
        )
        assert posted.json()["bytes"] == 500_000

        # Pages of other origins, the dashboard's and other jobs' among them, may not use the cookie.
        for foreign in ({"Origin": site.url}, {"Origin": "null"}):
            assert (await browser.post(f"{path}save", headers={**headers, **foreign})).status_code == 403
        same_site = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
        assert (await browser.get(path, headers={**headers, **same_site})).status_code == 403
        shown = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert (await browser.get(path, headers={**headers, **shown})).status_code == 200
        # Nor is anything of ours at this origin, or anything of theirs at ours.
        assert (await browser.get("/api/v1/session")).status_code == 404
        assert "Allotment" in (await browser.get(f"{site.url}{path}")).text

        socket_url = f"ws://127.0.0.1:{site.proxy_port}{path}kernel?id=3"
        with pytest.raises(InvalidStatus):
            await connect(socket_url, additional_headers=headers, origin=site.url, proxy=None)
        # A notebook's page is not ours, although the browser would send our cookie along.
        with pytest.raises(InvalidStatus):
            await connect(f"ws://127.0.0.1:{site.port}/ws/live", origin=base, proxy=None)
        async with connect(
            socket_url, additional_headers=headers, origin=base, subprotocols=["v1.kernel"], proxy=None
        ) as line:
            assert line.subprotocol == "v1.kernel"
            for message in ("text é", b"\x00\xff", "x" * 200_000):
                await line.send(message)
                assert await line.recv() == message
            # What the pass rests on is taken away.
            await Token.objects.all().adelete()
            await line.wait_closed()
        assert (await browser.get(path, headers=headers)).status_code == 403
    assert not await PortPass.objects.aexists()
    await site.until(lambda: not Session.objects.filter(ended_at=None).exists())

    # With a host name of their own, each port of each job is an origin of its own.
    monkeypatch.setattr(settings.CONFIG, "proxy_host", "*.pages.localhost")
    url = urlsplit(await address(site, await site.token(site.ada)))
    assert url.hostname == f"job-{site.job.id}-notebook.pages.localhost"
    async with httpx.AsyncClient(base_url=base) as browser:
        asked = f"{url.path}?{url.query}"
        assert (await browser.get(asked)).status_code == 404
        assert (await browser.get(asked, headers={"Host": url.netloc})).status_code == 303

    await sync_to_async(job_cancel)(job_id=site.job.id, actor="test")
