"""Which WebSockets are let in at all; what is said on them is tested in tests/live."""

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.test import Client

from controlplane.asgi import application
from tests.api.caller import make_token
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import make_user

pytestmark = pytest.mark.django_db(transaction=True)


async def opens(path: str, **headers: str) -> bool:
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "websocket", "path": path, "headers": encoded, "query_string": b"", "subprotocols": []}
    socket = ApplicationCommunicator(application, scope)
    await socket.send_input({"type": "websocket.connect"})
    answer = await socket.receive_output(timeout=PATIENCE_SECONDS)
    if answer["type"] == "websocket.accept":
        answer = await socket.receive_output(timeout=PATIENCE_SECONDS)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(timeout=PATIENCE_SECONDS)
    return answer["type"] == "websocket.send"


def session_cookie() -> str:
    client = Client()
    client.force_login(make_user())
    return f"allot_session={client.cookies['allot_session'].value}"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://localhost:8001"])
async def test_a_page_of_another_origin_is_not_let_in_by_the_cookie(origin):
    cookie = await sync_to_async(session_cookie)()
    assert not await opens("/ws/live", host="localhost:8000", cookie=cookie, origin=origin)


async def test_no_origin_and_no_token_is_not_let_in():
    cookie = await sync_to_async(session_cookie)()
    assert not await opens("/ws/live", host="localhost", cookie=cookie)


async def test_our_own_page_is_let_in_by_the_cookie():
    cookie = await sync_to_async(session_cookie)()
    assert await opens("/ws/live", host="localhost:8000", cookie=cookie, origin="http://localhost:8000")


async def test_our_own_page_without_a_session_is_not():
    assert not await opens("/ws/live", host="localhost:8000", origin="http://localhost:8000")


async def test_a_program_is_let_in_by_its_token():
    token = await sync_to_async(lambda: make_token(make_user()))()
    assert await opens("/ws/live", host="localhost", authorization=f"Bearer {token}")
    assert not await opens("/ws/live", host="localhost", authorization=f"Bearer {token}x")


async def test_other_paths_have_no_socket():
    assert not await opens("/ws/other", host="localhost", origin="http://localhost")
