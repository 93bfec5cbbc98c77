"""Who asks: tokens, sessions, and what each may not do."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tenants.models import Role, Token
from tests.api.caller import Caller, caller, is_error, make_token
from tests.scheduler.builders import make_tenant, make_user

pytestmark = pytest.mark.django_db


def test_a_token_signs_in_with_one_query(django_assert_num_queries):
    user = make_user()
    make_tenant("red", members={user: Role.MEMBER})
    make_tenant("blue", members={user: Role.ADMIN})
    ann = caller(user, last_used_at=timezone.now())
    # From now on it is no news from where the token is used.
    ann.get("/session")
    with django_assert_num_queries(1):
        me = ann.get("/session").json()
    assert me["tenants"] == [{"name": "red", "role": "member"}, {"name": "blue", "role": "admin"}]


def test_a_session_signs_in_with_two_queries(django_assert_num_queries):
    user = make_user()
    make_tenant("red", members={user: Role.VIEWER})
    client = Client()
    client.force_login(user)
    client.get("/api/v1/session")  # Keeps the page's token with the session.
    with django_assert_num_queries(2):
        me = client.get("/api/v1/session").json()
    assert me["tenants"] == [{"name": "red", "role": "viewer"}]


def test_use_is_noted_once_a_minute(django_assert_num_queries):
    ann = caller(make_user())
    ann.get("/session")
    with django_assert_num_queries(1):
        ann.get("/session")
    Token.objects.update(last_used_at=timezone.now() - timedelta(seconds=61))
    # One more than in life: here a transaction goes on that was told who asks.
    with django_assert_num_queries(3):
        ann.get("/session")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer nonsense",
        "Bearer alt_000000000000_wrong",
        "Basic YWRtaW46YWRtaW4=",
        "Bearer altn_000000000000_secret",
        "Bearer alt_\0_x",
        "Bearer " + "x" * 5_000,
    ],
)
def test_what_is_no_token_is_refused(header):
    response = Caller().get("/session", headers={"Authorization": header})
    is_error(response, 401, "not_signed_in")
    assert response["WWW-Authenticate"] == "Bearer"


def test_the_secret_counts_not_only_the_key():
    text = make_token(make_user())
    is_error(Caller(text[:-1] + ("a" if text[-1] != "a" else "b")).get("/session"), 401, "not_signed_in")


def test_an_expired_token_says_when_it_ended():
    ann = caller(make_user(), expires_at=timezone.now() - timedelta(hours=1))
    assert "expired at" in is_error(ann.get("/session"), 401, "not_signed_in")["detail"]


def test_an_inactive_user_is_out_at_once_with_token_and_session():
    user = make_user()
    ann, client = caller(user), Client()
    client.force_login(user)
    assert client.get("/api/v1/session").status_code == 200
    user.is_active = False
    user.save()
    is_error(ann.get("/session"), 401, "not_signed_in")
    is_error(client.get("/api/v1/session"), 401, "not_signed_in")


def test_a_read_only_token_reads_and_nothing_else():
    ann = caller(make_user(operator=True), scopes=["read"])
    assert ann.get("/tenants").status_code == 200
    refused = is_error(ann.post("/tenants", {"name": "red"}), 403, "not_allowed")
    assert "the scope operate; this one has: read" in refused["detail"]
    assert ann.get("/tenants").json()["results"] == []


def test_a_session_changes_nothing_without_its_csrf_token():
    user = make_user(operator=True)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    token = client.get("/api/v1/session").json()["csrf_token"]
    create = {"path": "/api/v1/tenants", "data": {"name": "red"}, "content_type": "application/json"}
    is_error(client.post(**create), 403, "not_allowed")
    is_error(client.post(**create, headers={"X-CSRFToken": "wrong"}), 403, "not_allowed")
    ours = {"X-CSRFToken": token}
    is_error(client.post(**create, headers=ours | {"Origin": "https://evil.example"}), 403, "not_allowed")
    assert client.post(**create, headers=ours | {"Origin": "http://testserver"}).status_code == 201


def test_a_token_in_the_header_counts_even_beside_a_session():
    """The header was put there on purpose; a cookie comes along by itself."""
    ann, ben = make_user("ann"), make_user("ben")
    client = Client()
    client.force_login(ann)
    me = client.get("/api/v1/session", headers={"Authorization": f"Bearer {make_token(ben)}"}).json()
    assert me["user"]["username"] == "ben"
