"""Invitations: nobody is made a member against his will, and no admin learns who has an account."""

from datetime import timedelta

import pytest
from django.core import mail
from django.test import Client
from django.utils import timezone

from tenants.models import Invitation, Membership, Role, User
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import make_member, make_tenant, make_user

pytestmark = pytest.mark.django_db

PASSWORD = "correct-horse-9"


@pytest.fixture
def red():
    return make_tenant("red")


@pytest.fixture
def ann(red) -> Caller:
    return caller(make_member(red, "ann", role=Role.ADMIN))


def secret_of(link: str) -> str:
    return link.partition("#")[2]


def invited(by: Caller, **body) -> str:
    return secret_of(by.post("/tenants/red/invitations", {"role": "member", **body}).json()["link"])


def roles() -> dict[str, str]:
    return dict(Membership.objects.values_list("user__username", "role"))


def test_an_admin_learns_by_no_answer_who_exists(ann):
    make_user("ben").email = "ben@example.org"
    User.objects.filter(username="ben").update(email="ben@example.org")
    answers = [ann.put(f"/tenants/red/members/{name}", {"role": "viewer"}) for name in ("ben", "nobody")]
    told = [is_error(answer, 404, "not_found")["detail"] for answer in answers]
    assert told[0].replace("ben", "nobody") == told[1]
    invitations = [
        ann.post("/tenants/red/invitations", {"role": "viewer", "email": f"{name}@example.org"})
        for name in ("ben", "nobody")
    ]
    assert [answer.status_code for answer in invitations] == [201, 201]
    differing = {"key", "link", "created_at", "expires_at", "email"}
    bodies = [{k: v for k, v in answer.json().items() if k not in differing} for answer in invitations]
    assert bodies[0] == bodies[1]
    assert roles() == {"ann": "admin"}


def test_operators_still_add_whom_they_know(red):
    make_user("ben")
    operator = caller(make_user(operator=True))
    assert operator.put("/tenants/red/members/ben", {"role": "viewer"}).status_code == 201


def test_who_has_an_account_accepts_once(ann):
    secret, ben = invited(ann), caller(make_user("ben"))
    offer = Caller().post("/invitations/look", {"invitation": secret}).json()
    assert (offer["tenant"], offer["role"], offer["invited_by"]) == ("red", "member", "ann")
    assert ben.post("/invitations/accept", {"invitation": secret}).json() == {"name": "red", "role": "member"}
    assert roles()["ben"] == "member"
    late = caller(make_user("late"))
    is_error(late.post("/invitations/accept", {"invitation": secret}), 404, "not_found")
    assert ann.get("/tenants/red/invitations").json()["results"] == []


def test_who_has_none_makes_one_and_is_signed_in(ann):
    body = {"invitation": invited(ann), "username": "zoe", "password": PASSWORD}
    browser = Client()
    joined = browser.post("/api/v1/invitations/join", body, content_type="application/json")
    assert joined.status_code == 201
    assert joined.json()["tenants"] == [{"name": "red", "role": "member"}]
    assert browser.get("/api/v1/session").json()["user"] == {"username": "zoe", "email": ""}
    assert not User.objects.get(username="zoe").is_operator


def test_one_that_was_refused_remains_good(ann):
    secret = invited(ann)
    short = {"invitation": secret, "username": "zoe", "password": "short"}
    is_error(Caller().post("/invitations/join", short), 400, "invalid")
    assert not User.objects.filter(username="zoe").exists()
    is_error(ann.post("/invitations/accept", {"invitation": secret}), 409, "conflict")
    assert Caller().post("/invitations/join", short | {"password": PASSWORD}).status_code == 201


def test_few_user_names_can_be_tried_with_one(ann):
    make_user("taken")
    body = {"invitation": invited(ann), "username": "taken", "password": PASSWORD}
    for _ in range(10):
        assert is_error(Caller().post("/invitations/join", body), 409, "conflict")["fields"]
    refused = is_error(Caller().post("/invitations/join", body | {"username": "free"}), 409, "conflict")
    assert "Too many user names" in refused["detail"]


def test_a_higher_role_is_taken_and_a_lower_one_is_not(ann, red):
    ben = make_member(red, "ben", role=Role.VIEWER)
    assert caller(ben).post("/invitations/accept", {"invitation": invited(ann)}).status_code == 200
    lower = invited(ann, role="viewer")
    is_error(caller(ben).post("/invitations/accept", {"invitation": lower}), 409, "conflict")
    assert roles()["ben"] == "member"


@pytest.mark.parametrize("end", ["revoked", "expired", "demoted", "forged"])
def test_it_ends_by_revocation_by_time_and_with_the_rights_of_who_made_it(ann, red, end):
    secret = invited(ann)
    if end == "revoked":
        [listed] = ann.get("/tenants/red/invitations").json()["results"]
        assert secret.split("_")[2] not in str(listed)
        assert ann.delete(f"/tenants/red/invitations/{listed['key']}").status_code == 204
    elif end == "expired":
        Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif end == "demoted":
        Membership.objects.filter(user__username="ann").update(role=Role.MEMBER)
    else:
        secret = secret[:-1] + ("a" if secret[-1] != "a" else "b")
    for path in ("look", "accept"):
        answer = caller(make_user()).post(f"/invitations/{path}", {"invitation": secret})
        is_error(answer, 404, "not_found")


def test_it_goes_by_mail_where_mail_is_sent_and_then_nobody_else_sees_the_link(ann, settings):
    settings.EMAIL_HOST = "mail.example.org"
    made = ann.post("/tenants/red/invitations", {"role": "viewer", "email": "zoe@example.org"}).json()
    assert (made["mailed"], made["link"]) == (True, None)
    [sent] = mail.outbox
    assert sent.to == ["zoe@example.org"]
    [link] = [line for line in sent.body.splitlines() if line.startswith("http")]
    body = {"invitation": secret_of(link), "username": "zoe", "password": PASSWORD}
    assert Caller().post("/invitations/join", body).json()["user"]["email"] == "zoe@example.org"


def test_not_more_than_so_many_a_day(ann, red):
    boss = User.objects.get(username="ann")
    tomorrow = timezone.now() + timedelta(days=1)
    Invitation.objects.bulk_create(
        Invitation(tenant=red, role="viewer", key=f"k{n}", digest=b"x", invited_by=boss, expires_at=tomorrow)
        for n in range(100)
    )
    is_error(ann.post("/tenants/red/invitations", {"role": "viewer"}), 429, "too_many_requests")
