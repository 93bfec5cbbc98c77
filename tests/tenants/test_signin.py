"""Signing in: the session that it starts, and the limit on wrong passwords."""

import asyncio
import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import redis
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import connection
from django.test import Client, RequestFactory

from controlplane.handler import Handler
from tenants import signin
from tests.api.caller import is_error
from tests.patience import PATIENCE_SECONDS, until, until_async
from tests.scheduler.builders import make_tenant, make_user

PASSWORD = "walrus-tin-9-bridge"

pytestmark = pytest.mark.django_db


def sign_in(username: str, password: str, client: Client | None = None, address: str = "10.0.0.1"):
    return (client or Client()).post(
        "/api/v1/session",
        {"username": username, "password": password},
        content_type="application/json",
        REMOTE_ADDR=address,
    )


def test_a_session_from_beginning_to_end():
    ann = make_user("ann", password=PASSWORD)
    make_tenant("red", members={ann: "member"})
    client = Client(enforce_csrf_checks=True)
    me = sign_in("ann", PASSWORD, client).json()
    assert me["user"] == {"username": "ann", "email": ""}
    assert me["tenants"] == [{"name": "red", "role": "member"}]
    assert client.cookies["allot_session"]["httponly"]
    assert client.cookies["allot_session"]["samesite"] == "Lax"
    assert client.get("/api/v1/session").json()["user"] == me["user"]
    is_error(client.delete("/api/v1/session"), 403, "not_allowed")
    ours = {"X-CSRFToken": me["csrf_token"]}
    assert client.delete("/api/v1/session", headers=ours).status_code == 204
    is_error(client.get("/api/v1/session"), 401, "not_signed_in")


def test_that_the_tour_was_seen_is_known_in_every_browser():
    make_user("ann", password=PASSWORD)
    first, other = Client(), Client()
    assert sign_in("ann", PASSWORD, first).json()["saw_tour"] is False
    answer = first.put("/api/v1/session/tour", {"seen": True}, content_type="application/json")
    assert answer.status_code == 204
    assert sign_in("ann", PASSWORD, other).json()["saw_tour"] is True
    make_user("ben", password=PASSWORD)
    assert sign_in("ben", PASSWORD).json()["saw_tour"] is False
    is_error(first.put("/api/v1/session/tour", {}, content_type="application/json"), 400, "invalid")


def test_no_page_at_another_port_of_this_host_can_read_what_our_pages_send():
    """Cookies know no ports, and pages of jobs are tenants' code."""
    make_user("ann", password=PASSWORD)
    client = Client(enforce_csrf_checks=True)
    token = sign_in("ann", PASSWORD, client).json()["csrf_token"]
    assert [name for name, cookie in client.cookies.items() if not cookie["httponly"]] == []
    # Nor can such a page bring along a cookie and a header that fit together.
    theirs = Client(enforce_csrf_checks=True)
    sign_in("ann", PASSWORD, theirs)
    for name in ("allot_csrf", "csrftoken"):
        theirs.cookies[name] = token
    is_error(theirs.delete("/api/v1/session", headers={"X-CSRFToken": token}), 403, "not_allowed")


def test_the_session_key_changes_at_sign_in():
    make_user("ann", password=PASSWORD)
    make_user("ben", password=PASSWORD)
    client = Client()
    sign_in("ann", PASSWORD, client)
    before = client.cookies["allot_session"].value
    assert sign_in("ben", PASSWORD, client).json()["user"]["username"] == "ben"
    assert client.cookies["allot_session"].value != before


def test_unknown_names_wrong_passwords_and_inactive_users_look_alike():
    make_user("ann", password=PASSWORD)
    gone = make_user("gone", password=PASSWORD)
    gone.is_active = False
    gone.save()
    answers = [sign_in("ann", "x"), sign_in("nobody", "x"), sign_in("gone", PASSWORD)]
    assert len({answer.content for answer in answers}) == 1
    is_error(answers[0], 401, "not_signed_in")


def test_a_form_of_another_site_can_not_sign_anybody_in():
    """A form sends one of three content types without asking this server first; JSON is none of them."""
    make_user("ann", password=PASSWORD)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        body = json.dumps({"username": "ann", "password": PASSWORD})
        response = Client().generic("POST", "/api/v1/session", body, content_type=kind)
        is_error(response, 415, "unsupported_media_type")


def test_who_guesses_at_a_name_waits_longer_and_longer_and_nobody_else_does():
    make_user("ann", password=PASSWORD)
    make_user("ben", password=PASSWORD)
    for _ in range(signin.FREE_GUESSES):
        assert sign_in("ann", "wrong").status_code == 401
    response = sign_in("ann", PASSWORD)
    is_error(response, 429, "too_many_requests")
    assert 0 < int(response["Retry-After"]) <= signin.LONGEST_WAIT_SECONDS
    # From anywhere else, and as anybody else from there, the right password is right.
    assert sign_in("ann", PASSWORD, address="10.0.0.2").status_code == 200
    assert sign_in("ben", PASSWORD).status_code == 200


def test_waits_grow_up_to_the_longest(frozen):
    make_user("ann", password=PASSWORD)
    waits = [frozen.wait("10.0.0.1", "ann") for _ in range(signin.FREE_GUESSES + 6)]
    assert waits == pytest.approx([0, 0, 0, 0, 0, 0.5, 1, 2, 4, 4, 4], abs=0.4)


@pytest.fixture
def frozen(redis_url):
    """Guesses, each as soon as it may be looked at."""

    class Guesses:
        def __init__(self) -> None:
            self.turn = 0.0

        def wait(self, address: str, name: str) -> float:
            request = RequestFactory().post("/", REMOTE_ADDR=address)
            turn = signin._count(signin._guesser(request, name), 600.0)
            wait, self.turn = turn - self.turn, turn
            return wait

    return Guesses()


def test_fifty_guesses_at_names_that_nobody_has_lock_nobody_out():
    make_user("ann", password=PASSWORD)
    for number in range(signin.ATTACK_FROM_ADDRESS + 5):
        # Now and then it is told to wait a fifth of a second.
        assert sign_in(f"guess-{number}", "wrong").status_code in (401, 429)
    statuses = (sign_in("ann", PASSWORD).status_code for _ in itertools.count())
    assert until(lambda: (status := next(statuses)) != 429 and status, "its turn") == 200


def test_from_an_address_that_attacks_each_name_has_one_free_guess(monkeypatch):
    monkeypatch.setattr(signin, "ATTACK_FROM_ADDRESS", 3)
    monkeypatch.setattr(signin, "FIRST_WAIT_SECONDS", 600.0)
    monkeypatch.setattr(signin, "LONGEST_WAIT_SECONDS", 600.0)
    monkeypatch.setattr(signin, "PACE_SECONDS", 0.0)
    for name in ("a", "b", "c"):
        sign_in(name, "wrong")
    assert [sign_in("d", "wrong").status_code for _ in range(2)] == [401, 429]
    assert sign_in("e", "wrong").status_code == 401


def test_who_is_guessed_at_from_everywhere_signs_in_at_once(monkeypatch):
    monkeypatch.setattr(signin, "FIRST_WAIT_SECONDS", 600.0)
    monkeypatch.setattr(signin, "LONGEST_WAIT_SECONDS", 600.0)
    make_user("ann", password=PASSWORD)
    for number in range(signin.ATTACK_ON_NAME):
        assert sign_in("ann", "wrong", address=f"10.0.1.{number}").status_code == 401
    # By now one guess is free for each address, and his is the right one.
    assert [sign_in("ann", "wrong", address="10.9.9.9").status_code for _ in range(2)] == [401, 429]
    assert sign_in("ann", PASSWORD, address="10.9.9.8").status_code == 200


def test_in_a_browser_that_was_used_before_nobody_elses_guesses_count(monkeypatch):
    """Behind one address there may be a whole house, and somebody in it who guesses."""
    monkeypatch.setattr(signin, "FIRST_WAIT_SECONDS", 600.0)
    monkeypatch.setattr(signin, "LONGEST_WAIT_SECONDS", 600.0)
    for name in ("ann", "eve"):
        make_user(name, password=PASSWORD)
    ann, eve = Client(), Client()
    for name, client in (("ann", ann), ("eve", eve)):
        assert sign_in(name, PASSWORD, client).status_code == 200
        assert client.cookies[signin.BROWSER_COOKIE]["httponly"]
    for _ in range(signin.FREE_GUESSES):
        sign_in("ann", "wrong")
    is_error(sign_in("ann", PASSWORD), 429, "too_many_requests")
    assert sign_in("ann", PASSWORD, ann).status_code == 200
    # His own guesses count, and what stands for him stands for nobody else.
    is_error(sign_in("ann", PASSWORD, eve), 429, "too_many_requests")
    forged = Client()
    forged.cookies[signin.BROWSER_COOKIE] = ann.cookies[signin.BROWSER_COOKIE].value + "x"
    is_error(sign_in("ann", PASSWORD, forged), 429, "too_many_requests")
    for _ in range(signin.FREE_GUESSES):
        assert sign_in("ann", "wrong", ann).status_code == 401
    is_error(sign_in("ann", PASSWORD, ann), 429, "too_many_requests")


@pytest.mark.parametrize(
    ("one", "other"),
    [("2001:db8:1:2::1", "2001:db8:1:2:ffff::7"), ("10.0.0.1", "::ffff:10.0.0.1")],
)
def test_addresses_that_one_guesser_has_count_as_one(one, other, monkeypatch):
    monkeypatch.setattr(signin, "FIRST_WAIT_SECONDS", 600.0)
    monkeypatch.setattr(signin, "LONGEST_WAIT_SECONDS", 600.0)
    for _ in range(signin.FREE_GUESSES):
        sign_in("ann", "wrong", address=one)
    is_error(sign_in("ann", "wrong", address=other), 429, "too_many_requests")
    assert sign_in("ann", "wrong", address="2001:db8:1:3::1").status_code == 401


def test_success_is_not_counted():
    make_user("ann", password=PASSWORD)
    for _ in range(signin.ATTACK_ON_NAME + 1):
        assert sign_in("ann", PASSWORD).status_code == 200
    for _ in range(signin.FREE_GUESSES):
        assert sign_in("ann", "wrong").status_code == 401


def test_no_number_of_guesses_fills_the_memory(monkeypatch):
    monkeypatch.setattr(signin, "MOST_REMEMBERED", 30)
    for number in range(40):
        request = RequestFactory().post("/", REMOTE_ADDR=f"10.1.0.{number}")
        signin._count(signin._guesser(request, f"guess-{number}"), 0.0)
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        keys = list(client.scan_iter("allot:signin:*"))
        assert len(keys) == 31
        assert all(0 < client.ttl(key) <= signin.FORGET_SECONDS for key in keys)


@pytest.mark.django_db(transaction=True)
def test_guesses_sent_all_at_once_are_counted_too(monkeypatch):
    """Each is counted before its password is looked at, in one step that Redis does not divide."""
    monkeypatch.setattr(signin, "FIRST_WAIT_SECONDS", 600.0)
    monkeypatch.setattr(signin, "LONGEST_WAIT_SECONDS", 600.0)
    make_user("ann", password=PASSWORD)
    guesses = signin.FREE_GUESSES * 2

    def guess(_number: int) -> int:
        try:
            return sign_in("ann", "wrong").status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(guesses) as threads:
        statuses = list(threads.map(guess, range(guesses)))
    assert statuses.count(401) == signin.FREE_GUESSES
    assert statuses.count(429) == guesses - signin.FREE_GUESSES


@pytest.mark.django_db(transaction=True)
async def test_the_right_password_gets_in_while_somebody_guesses_from_the_same_address():
    """Whoever has to wait is let wait for his turn; he need not be quicker than the other."""
    await database_sync_to_async(make_user)("ann", password=PASSWORD)
    transport = httpx.ASGITransport(app=Handler(), client=("10.0.0.1", 40_000))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=PATIENCE_SECONDS
    ) as client:

        async def attempt(password: str) -> int:
            said = {"username": "ann", "password": password}
            return (await client.post("/api/v1/session", json=said)).status_code

        answers: list[int] = []

        async def guess() -> None:
            while True:
                answers.append(await attempt("wrong"))

        guessing = asyncio.create_task(guess())
        await until_async(lambda: len(answers) > signin.FREE_GUESSES, "guesses")
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await attempt(PASSWORD) == 200
        guessing.cancel()
        assert set(answers) == {401}


def test_a_new_password_needs_the_current_one_and_guesses_are_limited():
    make_user("ann", password=PASSWORD)
    client = Client()
    sign_in("ann", PASSWORD, client)

    def change(current: str):
        body = {"current": current, "new": "bridge-9-tin-walrus"}
        return client.post("/api/v1/session/password", body, content_type="application/json")

    for _ in range(signin.FREE_GUESSES):
        assert is_error(change("guess"), 400, "invalid")["fields"][0]["field"] == "current"
    is_error(change(PASSWORD), 429, "too_many_requests")


def test_changing_the_password_ends_other_sessions_and_keeps_this_one():
    make_user("ann", password=PASSWORD)
    here, elsewhere = Client(), Client()
    sign_in("ann", PASSWORD, here)
    sign_in("ann", PASSWORD, elsewhere)
    change = {"current": PASSWORD, "new": "bridge-9-tin-walrus"}
    response = here.post("/api/v1/session/password", change, content_type="application/json")
    assert response.status_code == 204
    assert here.get("/api/v1/session").status_code == 200
    is_error(elsewhere.get("/api/v1/session"), 401, "not_signed_in")
