"""A POST repeated with the same Idempotency-Key is done once."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from controlplane import idempotency
from controlplane.models import IdempotentAnswer
from tenants import services
from tenants.models import Membership, Role, Tenant, Token
from tests.api.caller import Caller, caller, is_error, make_token
from tests.patience import PATIENCE_SECONDS, until
from tests.scheduler.builders import make_tenant, make_user

KEY = {"Idempotency-Key": "0b0e9a5c"}


@pytest.mark.django_db
def test_the_same_request_again_is_answered_again():
    operator = caller(make_user(operator=True))
    first = operator.post("/tenants", {"name": "red"}, headers=KEY)
    again = operator.post("/tenants", {"name": "red"}, headers=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.headers["Location"] == again.headers["Location"] == "/api/v1/tenants/red"
    assert Tenant.objects.count() == 1


@pytest.mark.django_db
def test_the_same_key_for_something_else_is_a_mistake():
    operator = caller(make_user(operator=True))
    operator.post("/tenants", {"name": "red"}, headers=KEY)
    is_error(operator.post("/tenants", {"name": "blue"}, headers=KEY), 422, "idempotency_mismatch")
    is_error(operator.post("/tokens", {"name": "red"}, headers=KEY), 422, "idempotency_mismatch")
    assert [tenant.name for tenant in Tenant.objects.all()] == ["red"]


@pytest.mark.django_db
def test_an_answer_is_not_given_again_to_who_is_allowed_less():
    user = make_user()
    tenant = make_tenant("red", members={user: Role.ADMIN})
    path, body = "/tenants/red/invitations", {"email": "ben@example.org", "role": "member"}
    assert caller(user).post(path, body, headers=KEY).status_code == 201
    assert caller(user).post(path, body, headers=KEY).headers["Idempotency-Replayed"] == "true"
    reader = caller(user, scopes=["read"])
    is_error(reader.post(path, body, headers=KEY), 403, "not_allowed")
    held = Membership.objects.filter(user=user)
    held.update(role=Role.MEMBER)
    is_error(caller(user).post(path, body, headers=KEY), 403, "not_allowed")
    held.delete()
    is_error(caller(user).post(path, body, headers=KEY), 403, "not_allowed")
    Membership.objects.create(user=user, tenant=tenant, role=Role.ADMIN)
    # More rights than then harm nothing: who makes a tenant is its admin afterwards.
    make_tenant("blue", members={user: Role.VIEWER})
    assert caller(user).post(path, body, headers=KEY).status_code == 201


@pytest.mark.django_db
def test_a_key_belongs_to_its_user():
    caller(make_user(operator=True)).post("/tenants", {"name": "red"}, headers=KEY)
    other = caller(make_user(operator=True)).post("/tenants", {"name": "blue"}, headers=KEY)
    assert other.status_code == 201


@pytest.mark.django_db
def test_an_error_changes_nothing_and_is_not_remembered():
    operator = caller(make_user(operator=True))
    is_error(operator.post("/tenants", {"name": "Not a slug"}, headers=KEY), 400, "invalid")
    assert IdempotentAnswer.objects.count() == 0
    assert operator.post("/tenants", {"name": "red"}, headers=KEY).status_code == 201


@pytest.mark.django_db(transaction=True)
def test_key_and_effect_are_written_together_or_not_at_all(monkeypatch):
    operator = caller(make_user(operator=True))

    def fail(content: bytes) -> bytes:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(idempotency, "_storable", fail)
        patched.setattr(operator.client, "raise_request_exception", False)
        is_error(operator.post("/tenants", {"name": "red"}, headers=KEY), 500, "internal")
    assert Tenant.objects.count() == 0
    assert operator.post("/tenants", {"name": "red"}, headers=KEY).status_code == 201


@pytest.mark.django_db
def test_a_secret_is_answered_once_and_stored_never():
    ann = caller(make_user())
    first = ann.post("/tokens", {"name": "laptop"}, headers=KEY).json()
    again = ann.post("/tokens", {"name": "laptop"}, headers=KEY).json()
    assert first["token"].startswith("alt_")
    assert again == first | {"token": None}
    assert first["token"].split("_")[2].encode() not in bytes(IdempotentAnswer.objects.get().body)
    assert Token.objects.filter(name="laptop").count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", "x" * 201, "é"])
def test_a_key_must_be_short_and_printable(key):
    error = is_error(
        caller(make_user()).post("/tokens", {"name": "x"}, headers={"Idempotency-Key": key}), 400, "invalid"
    )
    assert error["fields"][0]["field"] == "Idempotency-Key"


@pytest.mark.django_db
def test_nobody_and_read_only_tokens_are_refused_as_without_a_key():
    is_error(Caller().post("/tokens", {"name": "x"}, headers=KEY), 401, "not_signed_in")
    read_only = caller(make_user(), scopes=["read"])
    is_error(read_only.post("/tokens", {"name": "x"}, headers=KEY), 403, "not_allowed")


@pytest.mark.django_db
def test_answers_are_forgotten_after_a_day():
    operator = caller(make_user(operator=True))
    operator.post("/tenants", {"name": "red"}, headers=KEY)
    assert idempotency.prune() == 0
    IdempotentAnswer.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert idempotency.prune() == 1


class Twins:
    """Two equal requests, the first of which stops in the middle until it is let go."""

    def __init__(self, monkeypatch) -> None:
        self.token = make_token(make_user(operator=True))
        self.inside, self.go = threading.Event(), threading.Event()
        self.calls = 0
        create = services.tenant_create

        def stopping(**arguments):
            self.calls += 1
            tenant = create(**arguments)
            if self.calls == 1:
                self.inside.set()
                assert self.go.wait(PATIENCE_SECONDS)
            return tenant

        monkeypatch.setattr("tenants.api.tenants.tenant_create", stopping)
        self.answers = {}

    def start(self, name: str) -> threading.Thread:
        def ask() -> None:
            try:
                self.answers[name] = Caller(self.token).post("/tenants", {"name": "red"}, headers=KEY)
            finally:
                connection.close()

        thread = threading.Thread(target=ask)
        thread.start()
        return thread

    def waits_for_lock(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            return cursor.fetchone()[0] > 0


@pytest.mark.django_db(transaction=True)
def test_the_second_twin_waits_and_gets_the_answer_of_the_first(monkeypatch):
    twins = Twins(monkeypatch)
    first = twins.start("first")
    assert twins.inside.wait(PATIENCE_SECONDS)
    second = twins.start("second")
    until(lambda: twins.waits_for_lock() or not second.is_alive())
    assert second.is_alive()
    twins.go.set()
    first.join(PATIENCE_SECONDS)
    second.join(PATIENCE_SECONDS)
    assert twins.answers["second"].json() == twins.answers["first"].json()
    assert twins.answers["second"].headers["Idempotency-Replayed"] == "true"
    assert (twins.calls, Tenant.objects.count()) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_a_twin_that_waits_too_long_is_told_to_come_back(monkeypatch):
    monkeypatch.setattr(idempotency, "TWIN_PATIENCE_SECONDS", 0.1)
    twins = Twins(monkeypatch)
    first = twins.start("first")
    assert twins.inside.wait(PATIENCE_SECONDS)
    twins.start("second").join(PATIENCE_SECONDS)
    is_error(twins.answers["second"], 409, "conflict")
    assert twins.answers["second"].headers["Retry-After"] == "1"
    twins.go.set()
    first.join(PATIENCE_SECONDS)
    assert twins.answers["first"].status_code == 201


@pytest.mark.django_db
def test_an_ordinary_repeat_is_no_error_of_the_database():
    operator = caller(make_user(operator=True))
    operator.post("/tenants", {"name": "red"}, headers=KEY)
    errors = []

    def watched(execute, statement, parameters, many, context):
        try:
            return execute(statement, parameters, many, context)
        except Exception as error:
            errors.append(error)
            raise

    with connection.execute_wrapper(watched):
        assert operator.post("/tenants", {"name": "red"}, headers=KEY).status_code == 201
    assert errors == []


@pytest.mark.django_db
def test_a_nodes_token_is_kept_nowhere_in_a_stored_answer():
    operator = caller(make_user(operator=True))
    first = operator.post("/nodes", {"name": "bed-1"}, headers=KEY).json()
    again = operator.post("/nodes", {"name": "bed-1"}, headers=KEY).json()
    assert first["agent"]["real"]["token"] == first["agent"]["simulated"]["token"] == first["token"]
    assert again == first | {"token": None, "agent": None}
    assert first["token"].encode() not in bytes(IdempotentAnswer.objects.get().body)
