"""Secrets for jobs: who keeps, uses and deletes them, what a node is given, and where no value ever is."""

import base64
import json
from io import StringIO

import pytest
import redis
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection

from nodeagent.messages import HandedSecret, MessageError, SecretsAnswer, SecretsRequest
from scheduler.jobs.attempts.services.secrets import secrets_hand_out
from scheduler.jobs.sessions.services.opening import require_may_enter
from scheduler.models import Attempt, Event, Job
from tenants.errors import NotAllowed
from tenants.models import Membership, Secret, Tenant
from tenants.secrets import SECRETS_PER_OWNER, keyring
from tenants.selectors import viewer_of
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_member, make_node, make_vc
from tests.scheduler.conftest import World, spec

BOTH = [{"name": "hf", "env": "HF"}, {"name": "s3", "file": "s3"}]
OWN, TENANTS = "own-value-3Kq9", "tenants-value-8Zp1"


@pytest.fixture
def admin(world: World) -> Caller:
    return caller(make_member(world.tenant, "ada", role="admin"))


def starting(world: World, caller: Caller, **fields: object) -> Attempt:
    """An attempt of a job that was submitted so, which node-a is about to start."""
    answer = caller.post("/jobs", spec(tenant="vision", **fields))
    assert answer.status_code == 201, answer.content
    job = Job.objects.get(id=answer.json()["id"])
    return make_attempt(job, gpus_of(world.node)[:1], state="starting")


def handed(world: World, attempt: Attempt) -> SecretsAnswer:
    return secrets_hand_out(world.node, SecretsRequest(attempt=attempt.id))


def test_who_may_do_what(world: World, admin: Caller) -> None:
    path, value = "/tenants/vision/secrets/hf-token", {"value": TENANTS}
    assert admin.put(path, value).status_code == 201
    for who, status in ((world.member, 403), (world.viewer, 403), (world.stranger, 404)):
        assert who.put(path, value).status_code == status
        assert who.delete(path).status_code == status
    (row,) = world.viewer.get("/tenants/vision/secrets").json()["results"]
    assert row["name"], row["changed_by"] == ("hf-token", "ada")
    assert set(row) == {"name", "scope", "created_at", "changed_at", "changed_by", "last_used_at"}
    assert world.stranger.get("/tenants/vision/secrets").status_code == 404
    assert world.member.put("/secrets/mine", {"value": OWN}).status_code == 201
    assert world.member.put("/secrets/mine", {"value": OWN}).status_code == 200
    assert [row["name"] for row in world.member.get("/secrets").json()["results"]] == ["mine"]
    assert admin.get("/secrets").json()["results"] == []
    assert world.operator.delete(path).status_code == 204
    is_error(admin.delete(path), 404, "not_found")


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("hf token", {"value": "x"}, "name"),
        ("hf", {"value": ""}, "value"),
        ("hf", {"value": "é" * 16_385}, "value"),
        ("hf", {"value": 123456789123}, "value"),
        ("hf", {}, "value"),
        ("hf", {"value": "x", "scope": "tenant"}, "scope"),
    ],
)
def test_what_is_refused_is_not_repeated(world: World, name: str, body: dict, field: str) -> None:
    answer = world.member.put(f"/secrets/{name}", body)
    assert is_error(answer, 400, "invalid")["fields"][0]["field"] == field
    assert "123456789123" not in answer.content.decode()


def test_a_user_has_no_more_than_so_many(world: World) -> None:
    user = viewer_of(Membership.objects.get(user__username="mia").user).user
    Secret.objects.bulk_create(
        Secret(user=user, name=f"s{n}", sealed=b"", key_id="", changed_at=user.date_joined)
        for n in range(SECRETS_PER_OWNER)
    )
    is_error(world.member.put("/secrets/one-more", {"value": OWN}), 409, "conflict")


def test_a_job_names_secrets_that_there_are(world: World, admin: Caller) -> None:
    admin.put("/tenants/vision/secrets/HF_TOKEN", {"value": TENANTS})
    job = world.member.post("/jobs", spec(secrets=["HF_TOKEN"])).json()
    assert job["spec"]["secrets"] == [
        {"name": "HF_TOKEN", "env": "HF_TOKEN", "file": None, "scope": "tenant"}
    ]
    world.member.put("/secrets/HF_TOKEN", {"value": OWN})
    named = [{"name": "HF_TOKEN", "file": "token"}, {"name": "HF_TOKEN", "env": "T", "scope": "tenant"}]
    job = world.member.post("/jobs", spec(secrets=named)).json()
    assert [use["scope"] for use in job["spec"]["secrets"]] == ["user", "tenant"]
    # Another member's specification means his own secret, which he has not.
    refused = is_error(admin.post("/jobs", job["spec"]), 400, "invalid")
    assert refused["fields"][0]["field"] == "secrets.0.name"
    assert "of your own" in refused["detail"]
    refused = is_error(world.member.post("/jobs", spec(secrets=["HF_TOKN"])), 400, "invalid")
    assert 'did you mean "HF_TOKEN"?' in refused["detail"]
    checked = world.member.post("/jobs/check", spec(secrets=["NONE"])).json()
    assert (checked["ok"], checked["fields"][0]["field"]) == (False, "secrets.0.name")


def test_a_node_is_given_them_when_the_attempt_starts_there(world: World, admin: Caller) -> None:
    admin.put("/tenants/vision/secrets/hf", {"value": TENANTS})
    world.member.put("/secrets/s3", {"value": OWN})
    attempt = starting(world, world.member, secrets=BOTH)
    assert handed(world, attempt).secrets == (
        HandedSecret(value=TENANTS, env="HF"),
        HandedSecret(value=OWN, file="s3"),
    )
    (event,) = Event.objects.filter(kind="attempt.secrets_read")
    assert (event.actor, event.message) == ("node node-a", "hf (tenant), s3 (user)")
    assert world.member.get("/secrets").json()["results"][0]["last_used_at"] is not None
    for columns in ({"state": "running"}, {"go": False}):
        Attempt.objects.filter(id=attempt.id).update(**{"state": "starting", "go": True, **columns})
        with pytest.raises(MessageError):
            handed(world, attempt)


def test_nobody_else_is_given_them(world: World, admin: Caller) -> None:
    admin.put("/tenants/vision/secrets/hf", {"value": TENANTS})
    attempt = starting(world, world.member, secrets=[{"name": "hf", "env": "HF"}])
    with pytest.raises(MessageError):
        secrets_hand_out(make_node("node-b"), SecretsRequest(attempt=attempt.id))
    body = {"attempt": attempt.id}
    assert admin.post("/api/agent/v1/secrets", body).status_code == 401


def test_what_is_gone_or_may_not_be_used_any_more_is_said(world: World, admin: Caller) -> None:
    admin.put("/tenants/vision/secrets/hf", {"value": TENANTS})
    attempt = starting(world, world.member, secrets=[{"name": "hf", "env": "HF"}])
    Membership.objects.filter(user__username="mia").update(role="viewer")
    said = "It was not started, because mia may no longer use secrets in tenant vision."
    assert handed(world, attempt) == SecretsAnswer(problem=said)
    Membership.objects.filter(user__username="mia").update(role="member")
    admin.delete("/tenants/vision/secrets/hf")
    said = "It was not started, because the secret hf of tenant vision was deleted."
    assert handed(world, attempt) == SecretsAnswer(problem=said)
    assert Event.objects.filter(kind="attempt.secrets_refused").count() == 2


def test_whose_own_secret_is_gone_is_said(world: World) -> None:
    world.member.put("/secrets/s3", {"value": OWN})
    attempt = starting(world, world.member, secrets=[{"name": "s3", "env": "S3"}])
    world.member.delete("/secrets/s3")
    assert handed(world, attempt).problem == "It was not started, because mia's own secret s3 was deleted."


def test_only_their_owner_gets_into_a_job_with_secrets_of_his_own(world: World, admin: Caller) -> None:
    world.member.put("/secrets/s3", {"value": OWN})
    job = starting(world, world.member, secrets=[{"name": "s3", "env": "S3"}]).job
    people = {one.user.username: one.user for one in Membership.objects.filter(tenant=world.tenant)}
    require_may_enter(viewer_of(people["mia"]), job)
    with pytest.raises(NotAllowed, match="its submitter's own secrets"):
        require_may_enter(viewer_of(people["ada"]), job)


def test_values_are_nowhere_in_clear(world: World, admin: Caller) -> None:
    admin.put("/tenants/vision/secrets/hf", {"value": TENANTS})
    world.member.put("/secrets/s3", {"value": OWN}, headers={"Idempotency-Key": "the-first"})
    attempt = starting(world, world.member, secrets=BOTH)
    assert handed(world, attempt).secrets
    told = everything_stored() + "".join(
        who.get(path).content.decode()
        for who in (world.member, admin, world.operator)
        for path in (
            "/secrets",
            "/tenants/vision/secrets",
            "/jobs",
            f"/jobs/{attempt.job_id}",
            f"/jobs/{attempt.job_id}/events",
            f"/jobs/{attempt.job_id}/attempts",
            "/events",
            "/audit",
        )
    )
    assert '"secret.create"' in told
    assert '"secret.read"' in told
    assert "attempt.secrets_read" in told
    for value in (OWN, TENANTS):
        for form in (value, value.encode().hex(), base64.b64encode(value.encode()).decode().rstrip("=")):
            assert form not in told


def everything_stored() -> str:
    """All rows of all tables as text, and all that Redis holds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        tables = [name for (name,) in cursor.fetchall()]
        rows = []
        for table in tables:
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            rows += [text for (text,) in cursor.fetchall()]
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        held = [f"{key!r} {client.dump(key)!r}" for key in client.scan_iter()]
    assert any("hf" in row for row in rows)
    return json.dumps(rows) + "".join(held)


def test_a_value_of_another_row_does_not_open(world: World, admin: Caller) -> None:
    """Whoever can write to the database still cannot read what others keep."""
    admin.put("/tenants/vision/secrets/hf", {"value": TENANTS})
    world.member.put("/secrets/mine", {"value": OWN})
    attempt = starting(world, world.member, secrets=[{"name": "mine", "env": "HF"}])
    stolen = Secret.objects.get(name="hf")
    Secret.objects.filter(name="mine").update(sealed=stolen.sealed, key_id=stolen.key_id)
    answer = handed(world, attempt)
    assert answer.secrets == ()
    assert "the stored value was changed" in answer.problem


def key_of(byte: bytes) -> str:
    return base64.b64encode(byte * 32).decode()


def use_keys(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    changed = settings.CONFIG.model_copy(update={"secrets_keys": type(settings.CONFIG.secrets_keys)(text)})
    monkeypatch.setattr(settings, "CONFIG", changed)


def test_keys_are_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    use_keys(monkeypatch, key_of(b"a"))
    world.member.put("/secrets/mine", {"value": OWN})
    attempt = starting(world, world.member, secrets=[{"name": "mine", "env": "M"}])
    before = Secret.objects.get().key_id
    use_keys(monkeypatch, f"{key_of(b'b')},{key_of(b'a')}")
    assert handed(world, attempt).secrets
    said = StringIO()
    call_command("reseal_secrets", stdout=said)
    assert said.getvalue().startswith("Secrets sealed again: 1.")
    use_keys(monkeypatch, key_of(b"b"))
    assert Secret.objects.get().key_id == keyring().current != before
    assert [one.value for one in handed(world, attempt).secrets] == [OWN]
    use_keys(monkeypatch, key_of(b"c"))
    assert "which is not in ALLOT_SECRETS_KEYS" in handed(world, attempt).problem
    with pytest.raises(CommandError, match="which is not in ALLOT_SECRETS_KEYS"):
        call_command("reseal_secrets")


def test_without_a_key_nothing_is_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    use_keys(monkeypatch, "")
    body = is_error(world.member.put("/secrets/mine", {"value": OWN}), 503, "no_keys")
    assert "ALLOT_SECRETS_KEYS" in body["detail"]


def test_secrets_of_a_tenant_are_not_there_for_others(world: World, admin: Caller) -> None:
    admin.put("/tenants/vision/secrets/hf", {"value": TENANTS})
    assert handed(world, starting(world, world.operator, secrets=[{"name": "hf", "env": "HF"}])).secrets
    make_vc("others", members=[Tenant.objects.get(name="other")], guaranteed={})
    wanted = spec(secrets=[{"name": "hf", "env": "HF"}], guarantee="opportunistic")
    refused = is_error(world.stranger.post("/jobs", wanted), 400, "invalid")
    assert refused["detail"] == ("secrets.0.name: there is no secret 'hf' of your own or of tenant other.")
