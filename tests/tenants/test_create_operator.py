"""The first operator, made before anybody can sign in."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from tenants.models import User

pytestmark = pytest.mark.django_db


def create(*arguments: str) -> dict:
    output = io.StringIO()
    call_command("create_operator", *arguments, stdout=output)
    return json.loads(output.getvalue())


def test_a_random_password_is_printed_once():
    made = create("--username", "olga", "--if-missing", "--print-password")
    user = User.objects.get(username="olga")
    assert user.is_operator
    assert user.check_password(made["password"])
    again = create("--username", "olga", "--if-missing", "--print-password")
    assert again == {"username": "olga", "password": None}
    assert User.objects.count() == 1


def test_without_if_missing_there_may_be_several():
    create("--username", "olga", "--print-password")
    create("--username", "otto", "--print-password")
    with pytest.raises(CommandError, match="already a user"):
        create("--username", "otto", "--print-password")


def test_a_typed_password_is_checked_and_not_printed(monkeypatch):
    typed = iter(["walrus-tin-9-bridge", "walrus-tin-9-bridge", "one", "two", "short", "short"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    assert create("--username", "olga") == {"username": "olga", "password": None}
    assert User.objects.get(username="olga").check_password("walrus-tin-9-bridge")
    with pytest.raises(CommandError, match="differ"):
        create("--username", "otto")
    with pytest.raises(CommandError, match="too short"):
        create("--username", "otto")
    assert not User.objects.filter(username="otto").exists()
