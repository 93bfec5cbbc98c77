"""The client as a script uses it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from allot.client import Client
from allot.errors import Busy, NotFound, Refused, Unreachable, WrongUse
from tests.allot.fake_api import TOKEN, Answer, FakeApi, ended, running
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def client(api: FakeApi, pauses: list[float]) -> Iterator[Client]:
    with Client(api.url, token=TOKEN, sleep=pauses.append) as client:
        yield client


def test_submit_watch_and_read(client: Client, api: FakeApi) -> None:
    from allot.following import Output, follow_log, watch

    job = client.submit({"name": "train", "gpus": 2, "command": ["python", "train.py"]})
    api.timeline[job["id"]] = [running(), ended()]
    api.logs[job["id"], 1, 0] = ["done\n"]
    api.complete.add((job["id"], 1, 0))
    assert [seen["state"] for seen in watch(client, [job["id"]])] == ["running", "succeeded"]
    pieces = follow_log(client, job["id"])
    assert [piece.text for piece in pieces if isinstance(piece, Output)] == ["done\n"]


def test_the_same_key_is_the_same_job(client: Client, api: FakeApi) -> None:
    first = client.submit({"name": "a"}, idempotency_key="k")
    assert client.submit({"name": "a"}, idempotency_key="k")["id"] == first["id"]
    assert len(api.jobs) == 1


def test_errors_carry_what_the_server_said(client: Client) -> None:
    with pytest.raises(Refused) as caught:
        client.submit_many([{"name": "a"}, {}])
    assert (caught.value.status, caught.value.code) == (400, "invalid")
    assert caught.value.fields[0].field == "jobs.1.name"
    with pytest.raises(NotFound):
        client.job(99)


def test_retries_wait_longer_each_time_and_end(api: FakeApi, client: Client, pauses: list[float]) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    client._transport._clock, client._transport.sleep = lambda: now[0], sleep
    api.busy_answers = 1000
    with pytest.raises(Busy):
        client.submit({"name": "a"})
    # The next one, of 6.25 seconds at most, would have ended after its patience.
    assert 20 - 6.25 < sum(pauses) <= 20
    assert pauses[0] < 0.4 < pauses[2] < pauses[-1] <= 6.25
    assert not api.jobs


def test_what_can_not_be_sent_is_said_before_anything_is_asked(api: FakeApi, client: Client) -> None:
    with pytest.raises(WrongUse, match="a number is infinite or not a number"):
        client.submit({"name": "a", "skew": float("nan")})
    assert not api.jobs


def test_retry_after_is_obeyed(client: Client, api: FakeApi, pauses: list[float]) -> None:
    api.refuse = Answer(429, {"code": "too_many_requests", "detail": "Slowly."}, {"Retry-After": "7"})
    sleep = client._transport.sleep

    def relent(seconds: float) -> None:
        api.refuse = None
        sleep(seconds)

    client._transport.sleep = relent
    assert client.submit({"name": "a"})["id"] == 1
    assert pauses == [7.0]


def test_reads_do_not_wait_unless_asked_to(pauses: list[float]) -> None:
    with Client("http://127.0.0.1:1", sleep=pauses.append) as client, pytest.raises(Unreachable):
        client.nodes()
    assert pauses == []


def test_a_request_that_is_still_under_way_is_asked_for_again(client: Client, api: FakeApi) -> None:
    api.refuse = Answer(409, {"code": "conflict", "detail": "Still under way."}, {"Retry-After": "1"})

    def finish(seconds: float) -> None:
        api.refuse = None

    client._transport.sleep = finish
    assert client.submit({"name": "a"})["id"] == 1


LIMIT = {"Retry-After": "2", "RateLimit-Policy": '"heavy-requests-of-user";q=2;qu="concurrent-requests"'}


def answers_only(client: Client, headers: dict[str, str]) -> None:
    content = {"code": "too_many_requests", "detail": "You have 2 under way."}
    refused = httpx.MockTransport(lambda request: httpx.Response(429, json=content, headers=headers))
    client._transport._http = httpx.Client(base_url="http://server", transport=refused)


def test_whose_turn_it_is_not_waits_as_told_for_reads_and_downloads_too(
    client: Client, pauses: list[float], tmp_path: Path
) -> None:
    answers_only(client, LIMIT)
    for ask in (client.nodes, lambda: client.logs.download(1, tmp_path)):
        pauses.clear()
        with pytest.raises(Busy, match="You have 2 under way"):
            ask()
        assert len(pauses) == 3
        assert all(2.0 <= pause <= 2.5 for pause in pauses)


def test_a_refusal_that_is_about_no_turn_is_not_waited_for(client: Client, pauses: list[float]) -> None:
    answers_only(client, {"Retry-After": "2"})
    with pytest.raises(Busy):
        client.nodes()
    assert pauses == []


@pytest.fixture
def broken() -> Iterator[str]:
    """The address of a server that breaks off in the middle of every file."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x" * 500)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(PATIENCE_SECONDS)


def test_a_download_that_breaks_off_leaves_the_folder_as_it_was(broken: str, tmp_path: Path) -> None:
    (tmp_path / "model.pt.part").write_text("my own")
    (tmp_path / "model.pt").write_text("the earlier one")
    with Client(broken, token=TOKEN) as client, pytest.raises(Unreachable):
        client.artefacts.download(1, "model.pt", tmp_path / "model.pt")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "model.pt.part": "my own",
        "model.pt": "the earlier one",
    }
