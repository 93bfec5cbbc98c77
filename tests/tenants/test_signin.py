"""Signing in: the session that it starts, and the limit on wrong passwords."""

import json
import threading

import pytest
from django.db import connection
from django.test import Client

from tenants import signin
from tests.api.caller import is_error
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


def test_wrong_passwords_for_one_name_are_limited_from_everywhere():
    make_user("ann", password=PASSWORD)
    for number in range(signin.FAILURES_PER_USERNAME):
        assert sign_in("ann", "wrong", address=f"10.0.0.{number}").status_code == 401
    response = sign_in("ann", PASSWORD, address="10.9.9.9")
    is_error(response, 429, "too_many_requests")
    assert 0 < int(response["Retry-After"]) <= signin.WINDOW_SECONDS
    make_user("ben", password=PASSWORD)
    assert sign_in("ben", PASSWORD, address="10.9.9.9").status_code == 200


def test_wrong_passwords_from_one_address_are_limited_for_everyone(monkeypatch):
    monkeypatch.setattr(signin, "FAILURES_PER_ADDRESS", 5)
    make_user("ann", password=PASSWORD)
    for number in range(5):
        assert sign_in(f"guess-{number}", "wrong").status_code == 401
    is_error(sign_in("ann", PASSWORD), 429, "too_many_requests")
    assert sign_in("ann", PASSWORD, address="10.0.0.2").status_code == 200


def test_success_is_not_counted():
    make_user("ann", password=PASSWORD)
    for _ in range(signin.FAILURES_PER_USERNAME * 2):
        assert sign_in("ann", PASSWORD).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_guesses_sent_all_at_once_are_counted_too():
    """Each is counted before its password is looked at, in one step that Redis does not divide."""
    make_user("ann", password=PASSWORD)
    guesses = signin.FAILURES_PER_USERNAME * 3
    start, statuses = threading.Barrier(guesses), []

    def guess() -> None:
        try:
            start.wait(20)
            statuses.append(sign_in("ann", "wrong").status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=guess) for _ in range(guesses)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert statuses.count(401) == signin.FAILURES_PER_USERNAME
    assert statuses.count(429) == guesses - signin.FAILURES_PER_USERNAME


def test_a_new_password_needs_the_current_one_and_guesses_are_limited():
    make_user("ann", password=PASSWORD)
    client = Client()
    sign_in("ann", PASSWORD, client)

    def change(current: str):
        body = {"current": current, "new": "bridge-9-tin-walrus"}
        return client.post("/api/v1/session/password", body, content_type="application/json")

    for _ in range(signin.FAILURES_PER_USERNAME):
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
