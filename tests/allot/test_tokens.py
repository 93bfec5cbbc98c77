"""`allot token`, `allot password` and the scopes of `allot login`, against the real REST API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenants.models import Token
from tests.allot.in_process import signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import make_member, make_tenant, make_user

PASSWORD = "correct-horse-9"


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def test_tokens_are_made_listed_rotated_and_revoked(
    live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = make_member(make_tenant("red"), "ann")
    ann.set_password(PASSWORD)
    ann.save()
    allot = signed_in(monkeypatch, str(live_server.url), make_token(ann, scopes=["read", "manage"]))
    made = allot("token", "create", "nightly", "--scope", "read", "--days", "7")
    assert made.stdout.startswith("alt_")
    assert "for: read" in made.stderr
    key = made.stdout.split("_")[1]
    # More than the token of this machine may do takes the person.
    wider = ("token", "create", "ci", "--scope", "submit", "--password-stdin")
    assert allot(*wider, stdin="wrong\n").exit_code == 1
    assert allot(*wider, stdin=f"{PASSWORD}\n").stdout.startswith("alt_")
    assert Token.objects.get(name="ci").scopes == ["read", "submit"]

    rotated = allot("token", "rotate", key, "--overlap", "2h", "-o", "json")
    new = json.loads(rotated.stdout)["key"]
    rows = allot("token", "list").stdout.splitlines()
    assert rows[0].split() == ["KEY", "NAME", "SCOPES", "USED", "FROM", "EXPIRES"]
    assert f"replaced by {new}" in next(row for row in rows if row.startswith(key))
    assert allot("token", "list", "--all").exit_code == 3
    assert allot("token", "revoke", key, new).stdout == f"{key} revoked\n{new} revoked\n"
    assert not Token.objects.filter(key__in=[key, new]).exists()

    monkeypatch.setenv("ALLOT_TOKEN", make_token(make_user("olga", operator=True)))
    listed = allot("token", "list", "--user", "ann").stdout
    assert "ci" in listed
    assert "olga" not in listed
    assert "olga" in allot("token", "list", "--all").stdout
    assert allot("token", "revoke", Token.objects.get(name="ci").key).exit_code == 0


def test_a_login_may_do_what_the_person_may_and_ends_with_the_password(
    live_server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    make_user("olga", operator=True, password=PASSWORD)
    allot = signed_in(monkeypatch, str(live_server.url), "")
    monkeypatch.delenv("ALLOT_TOKEN")
    login = ("login", str(live_server.url), "-u", "olga", "--password-stdin")
    allot(*login, "--scope", "submit", stdin=f"{PASSWORD}\n")
    assert Token.objects.get().scopes == ["read", "submit"]
    allot(*login, stdin=f"{PASSWORD}\n")
    token = Token.objects.get()
    assert token.scopes == ["read", "submit", "manage", "operate"]
    assert token.expires_at is not None
    make_token(token.user)
    changed = allot("password", "--password-stdin", stdin=f"{PASSWORD}\nquite-another-71\n")
    assert "are revoked" in changed.stderr
    # One is left, which this machine was given for the one that it had.
    assert Token.objects.get().key != token.key
    assert allot("whoami").exit_code == 0
    allot("password", "--keep-tokens", "--password-stdin", stdin=f"quite-another-71\n{PASSWORD}\n")
    assert allot("whoami").exit_code == 0
