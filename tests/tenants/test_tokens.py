"""API tokens: how long they last, what they may be used for, who ends them, and what takes more than one."""

from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from tenants.models import Role, Token, User
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import make_member, make_tenant, make_user

pytestmark = pytest.mark.django_db

PASSWORD = "correct-horse-9"


@pytest.fixture
def ann() -> Caller:
    return caller(make_user("ann", password=PASSWORD))


@pytest.fixture
def operator() -> Caller:
    return caller(make_user("olga", operator=True, password=PASSWORD))


def in_days(when: str) -> float:
    return (datetime.fromisoformat(when) - timezone.now()) / timedelta(days=1)


def keys(answer) -> list[str]:
    return [one["key"] for one in answer.json()["results"]]


class TestHowLongTheyLast:
    def test_they_expire_unless_the_installation_lets_them_not(self, ann, settings):
        assert 89.9 < in_days(ann.post("/tokens", {"name": "usual"}).json()["expires_at"]) < 90
        assert ann.get("/tokens/terms").json() == {
            "default_days": 90,
            "most_days": 365,
            "may_never_expire": False,
        }
        is_error(ann.post("/tokens", {"name": "for ever", "expires_in_days": None}), 400, "invalid")
        settings.CONFIG = settings.CONFIG.model_copy(update={"tokens_may_never_expire": True})
        made = ann.post("/tokens", {"name": "for ever", "expires_in_days": None}).json()
        assert made["expires_at"] is None
        assert Caller(made["token"]).get("/session").status_code == 200

    def test_one_made_by_a_token_ends_with_it_unless_the_password_is_given(self):
        short = caller(make_user(password=PASSWORD), expires_at=timezone.now() + timedelta(days=3))
        assert in_days(short.post("/tokens", {"name": "x"}).json()["expires_at"]) < 3
        made = short.post("/tokens", {"name": "x", "your_password": PASSWORD})
        assert in_days(made.json()["expires_at"]) > 80

    def test_of_expired_ones_only_so_many_are_kept(self, ann):
        user = ann.client, Token.objects.get().user
        old = timezone.now() - timedelta(days=1)
        for number in range(60):
            Token.objects.create(user=user[1], name="old", key=f"k{number}", digest=b"x", expires_at=old)
        assert ann.post("/tokens", {"name": "new"}).status_code == 201
        assert Token.objects.filter(name="old").count() == 50


class TestScopes:
    def test_without_a_word_they_read_and_submit(self, ann):
        assert ann.post("/tokens", {"name": "x"}).json()["scopes"] == ["read", "submit"]
        assert ann.post("/tokens", {"name": "x", "scopes": ["manage"]}).json()["scopes"] == ["read", "manage"]

    def test_no_token_makes_a_wider_one_without_the_password(self):
        user = make_user(password=PASSWORD)
        narrow = caller(user, scopes=["read", "manage"])
        wider = {"name": "x", "scopes": ["submit"]}
        refused = is_error(narrow.post("/tokens", wider), 403, "not_allowed")
        assert refused["fields"][0]["field"] == "your_password"
        wrong = narrow.post("/tokens", wider | {"your_password": "wrong"})
        assert is_error(wrong, 400, "invalid")["fields"][0]["field"] == "your_password"
        assert narrow.post("/tokens", wider | {"your_password": PASSWORD}).json()["scopes"] == [
            "read",
            "submit",
        ]

    def test_guesses_at_the_password_are_limited_as_at_the_door(self):
        narrow = caller(make_user(password=PASSWORD), scopes=["read", "manage"])
        body = {"name": "x", "scopes": ["submit"], "your_password": "wrong"}
        answers = {narrow.post("/tokens", body).status_code for _ in range(12)}
        assert answers == {400, 429}

    def test_operate_is_for_operators(self, ann, operator):
        is_error(ann.post("/tokens", {"name": "x", "scopes": ["operate"]}), 403, "not_allowed")
        assert operator.post("/tokens", {"name": "x", "scopes": ["operate"]}).status_code == 201

    def test_an_operator_without_that_scope_is_a_member_like_others(self):
        """A token for a script that submits must not cancel the jobs of every tenant."""
        make_tenant("red")
        submits = caller(make_user(operator=True), scopes=["read", "submit"])
        assert submits.get("/tenants/red").status_code == 200
        job = {"name": "x", "tenant": "red", "command": ["true"], "resources": {"gpu": 1}}
        is_error(submits.post("/jobs", job), 404, "not_found")


class TestWhatTakesThePassword:
    def test_a_token_alone_makes_no_operator(self, operator):
        ann = {"username": "ann", "is_operator": True}
        assert "your_password" in is_error(operator.post("/users", ann), 403, "not_allowed")["detail"]
        assert operator.post("/users", ann | {"your_password": PASSWORD}).status_code == 201
        make_user("ben")
        is_error(operator.patch("/users/ben", {"is_operator": True}), 403, "not_allowed")
        made = operator.patch("/users/ben", {"is_operator": True, "your_password": PASSWORD})
        assert made.json()["is_operator"]

    def test_a_token_alone_resets_no_password(self, operator):
        make_user("ben")
        new = {"password": "quite-another-71"}
        is_error(operator.patch("/users/ben", new), 403, "not_allowed")
        assert operator.patch("/users/ben", new | {"your_password": PASSWORD}).status_code == 200

    def test_who_signed_in_by_password_gave_it_already(self, operator):
        client = Client()
        client.force_login(make_user(operator=True))
        body = {"username": "ann", "is_operator": True}
        assert client.post("/api/v1/users", body, content_type="application/json").status_code == 201

    def test_nobody_makes_tokens_for_others(self, operator):
        refused = is_error(operator.post("/tokens", {"name": "x", "user": "ann"}), 400, "invalid")
        assert refused["fields"][0]["field"] == "user"


class TestRotation:
    def test_both_work_for_the_overlap_and_then_the_new_one_alone(self, ann):
        old = ann.post("/tokens", {"name": "nightly", "expires_in_days": 30, "scopes": ["submit"]}).json()
        new = ann.post(f"/tokens/{old['key']}/rotate", {"overlap_seconds": 600}).json()
        assert (new["name"], new["scopes"]) == ("nightly", ["read", "submit"])
        assert 29.9 < in_days(new["expires_at"]) < 30.1
        listed = {one["key"]: one for one in ann.get("/tokens").json()["results"]}[old["key"]]
        assert listed["replaced_by"] == new["key"]
        assert 590 < in_days(listed["expires_at"]) * 86_400 < 600
        for token in (old, new):
            assert Caller(token["token"]).get("/session").status_code == 200
        Token.objects.filter(key=old["key"]).update(expires_at=timezone.now())
        is_error(Caller(old["token"]).get("/session"), 401, "not_signed_in")
        assert Caller(new["token"]).get("/session").status_code == 200
        is_error(ann.post(f"/tokens/{old['key']}/rotate", {}), 409, "conflict")

    def test_a_token_renews_its_secret_itself_but_not_its_life(self, ann):
        made = ann.post("/tokens", {"name": "ci", "scopes": ["submit"], "expires_in_days": 5}).json()
        itself = Caller(made["token"])
        new = itself.post(f"/tokens/{made['key']}/rotate", {"overlap_seconds": 0}).json()
        assert new["expires_at"] == made["expires_at"]
        is_error(itself.get("/session"), 401, "not_signed_in")

    def test_without_manage_it_touches_no_other_token(self, ann):
        made = ann.post("/tokens", {"name": "ci", "scopes": ["submit"]}).json()
        other = ann.post("/tokens", {"name": "other"}).json()
        narrow = Caller(made["token"])
        is_error(narrow.post(f"/tokens/{other['key']}/rotate", {}), 403, "not_allowed")
        is_error(narrow.delete(f"/tokens/{other['key']}"), 403, "not_allowed")
        assert narrow.delete(f"/tokens/{made['key']}").status_code == 204
        is_error(narrow.get("/session"), 401, "not_signed_in")


class TestPasswords:
    @pytest.mark.parametrize("kept", [False, True])
    def test_tokens_end_with_the_password_unless_they_are_kept(self, ann, kept):
        body = {"current": PASSWORD, "new": "quite-another-71", **({"end_tokens": False} if kept else {})}
        assert ann.post("/session/password", body).status_code == 204
        assert ann.get("/session").status_code == (200 if kept else 401)

    @pytest.mark.parametrize("kept", [False, True])
    def test_so_they_do_when_an_operator_resets_it(self, ann, operator, kept):
        body = {"password": "quite-another-71", "your_password": PASSWORD, "end_tokens": not kept}
        assert operator.patch("/users/ann", body).status_code == 200
        assert ann.get("/session").status_code == (200 if kept else 401)
        assert operator.get("/session").status_code == 200


class TestOperators:
    def test_they_see_everybodys_and_revoke_them(self, ann, operator):
        made = ann.post("/tokens", {"name": "laptop"}).json()
        everybodys = keys(operator.get("/tokens?everybody=true"))
        assert made["key"] in everybodys
        assert len(everybodys) == 3
        assert made["key"] not in keys(operator.get("/tokens"))
        anns = operator.get("/tokens?everybody=true&user=ann&page_size=1").json()
        assert [one["user"] for one in anns["results"]] == ["ann"]
        assert operator.get(anns["next"]).json()["results"][0]["user"] == "ann"
        assert operator.delete(f"/tokens/{made['key']}").status_code == 204
        is_error(Caller(made["token"]).get("/session"), 401, "not_signed_in")

    def test_others_see_their_own_alone(self, ann, operator):
        for query in ("everybody=true", "user=olga", "everybody=true&user=ann"):
            is_error(ann.get(f"/tokens?{query}"), 403, "not_allowed")
        assert len(keys(ann.get("/tokens?user=ann"))) == 1
        boss = caller(make_member(make_tenant(), role=Role.ADMIN))
        is_error(boss.get("/tokens?user=ann"), 403, "not_allowed")


def test_first_and_last_use_are_shown_with_where_from(ann):
    made = ann.post("/tokens", {"name": "laptop"}).json()
    laptop = Caller(made["token"])
    laptop.get("/session")
    hour_ago = timezone.now() - timedelta(hours=1)
    Token.objects.filter(key=made["key"]).update(first_used_at=hour_ago, last_used_at=hour_ago)
    laptop.client.defaults["REMOTE_ADDR"] = "2001:db8::7"
    laptop.get("/session")
    used = {one["key"]: one for one in ann.get("/tokens").json()["results"]}[made["key"]]
    assert (used["first_used_from"], used["last_used_from"]) == ("127.0.0.1", "2001:db8::7")
    assert used["first_used_at"] < used["last_used_at"]
    Token.objects.filter(key=made["key"]).update(last_used_at=hour_ago)
    laptop.client.defaults["REMOTE_ADDR"] = "what a proxy made up"
    assert laptop.get("/session").status_code == 200
    assert Token.objects.get(key=made["key"]).last_used_from is None


@pytest.mark.parametrize("kept", [False, True])
def test_the_command_that_resets_a_password_ends_tokens_unless_they_are_kept(ann, kept):
    told = StringIO()
    call_command("reset_password", "ann", *(["--keep-tokens"] if kept else []), stdout=told)
    assert User.objects.get(username="ann").check_password(told.getvalue().strip())
    assert ann.get("/session").status_code == (200 if kept else 401)
