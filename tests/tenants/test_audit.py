"""The audit log: what is in it whoever forgets it, what never is, and that nobody rewrites it."""

import json
import re
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.jobs.attempts.services.steps import cancel_waiting_jobs
from scheduler.models import Gpu, Node, QueueOrder
from tenants.audit.entries import REFUSALS_TOLD
from tenants.audit.sentences import sentence
from tenants.audit.source import Source, acting
from tenants.audit.tables import AUDITED, NOT_AUDITED
from tenants.audit.triggers import (
    MOST_ENTRIES_OF_ONE_STATEMENT,
    audited_models,
    columns_of,
    expected_version,
    installed_version,
)
from tenants.models import AuditEntry, Quota, Role, Tenant, User
from tests.api.caller import Caller, caller, forget_recorded, make_token
from tests.scheduler.builders import make_job, make_member, make_node, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_told_yet() -> None:
    forget_recorded()


def last(action: str) -> AuditEntry:
    return AuditEntry.objects.filter(action=action).latest("id")


def lines(response) -> list[dict]:
    return [json.loads(line) for line in response.content.decode().splitlines()]


# -- that nothing is forgotten -----------------------------------------------------------------------


def test_every_model_is_audited_or_named_as_not_audited() -> None:
    models = {model._meta.label for model in apps.get_models(include_auto_created=True)}
    assert models == set(AUDITED) | set(NOT_AUDITED), "say in tenants/audit/tables.py which"
    assert set(AUDITED).isdisjoint(NOT_AUDITED)


def test_the_triggers_are_those_that_the_code_asks_for() -> None:
    assert installed_version() == expected_version()


def test_what_is_named_in_the_tables_is_a_column() -> None:
    for model, audited in audited_models():
        columns = {field.column for field in model._meta.concrete_fields}
        named = {*audited.shown, *audited.hidden, *audited.left_out, *audited.unwatched}
        assert named <= columns, model


def test_no_column_that_may_be_a_secret_is_recorded() -> None:
    allowed = {
        "tenants_token.key",
        "tenants_invitation.key",
        "scheduler_archive.digest",
        "scheduler_node.token_key",
        "scheduler_speedcorrection.value",
        "scheduler_portpass.token_id",
    }
    suspicious = re.compile("pass|secret|digest|hash|seed|cipher|private|key|token|credential|value", re.I)
    for model, audited in audited_models():
        for field in columns_of(model, audited)[0]:
            name = f"{model._meta.db_table}.{field.column}"
            assert not isinstance(field, models.BinaryField), name
            assert name in allowed or not suspicious.search(field.column), name


def test_raw_sql_by_an_unknown_program_is_seen_and_so_is_which_program() -> None:
    red = make_tenant("red", quota={"*": 4})
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL application_name = 'psql'")
        cursor.execute("UPDATE tenants_quota SET gpus = 400 WHERE tenant_id = %s", [red.id])
    entry = last("quota.change")
    assert (entry.kind, entry.request, entry.tenant) == ("database", "psql", "red")
    assert entry.actor.startswith("database role ")
    assert (entry.before, entry.after) == ({"gpus": 4}, {"gpus": 400})


def test_what_the_platform_does_by_itself_is_its_own_and_what_only_machines_change_is_no_entry() -> None:
    node = make_node("busy")
    count = AuditEntry.objects.count()
    type(node).objects.filter(id=node.id).update(lease_expires_at=timezone.now(), generation=7, state="lost")
    assert AuditEntry.objects.count() == count
    type(node).objects.filter(id=node.id).update(cordoned=True)
    entry = last("node.cordon")
    assert (entry.kind, entry.actor, entry.subject, entry.after) == (
        "system",
        "system",
        "busy",
        {"cordoned": True},
    )


def test_many_rows_of_one_statement_make_one_entry_that_names_them() -> None:
    red, vc = make_tenant("red"), make_vc("shared")
    jobs = [make_job(tenant=red, virtual_cluster=vc, name="one", submitted_by=make_user("ann"))]
    job = jobs[0]
    count = MOST_ENTRIES_OF_ONE_STATEMENT + 1
    clones = []
    for _ in range(count):
        job.pk = None
        clones.append(type(job)(**{f.attname: getattr(job, f.attname) for f in job._meta.concrete_fields}))
    made = type(job).objects.bulk_create(clones)
    entry = last("job.create")
    assert (entry.subject, entry.tenant, entry.after["count"]) == (f"{count} of them", "red", count)
    assert entry.after["ids"] == [one.id for one in made]
    operator = caller(make_user("olga", operator=True))
    [found] = operator.get(f"/audit?subject={made[5].id}&object=job").json()["results"]
    assert found["sentence"] == f"system submitted {count} jobs of tenant red."


def test_what_is_rolled_back_did_not_happen_and_a_savepoint_does_not_lose_who_did_the_rest() -> None:
    red = make_tenant("red")
    with acting(Source(kind="user", actor="user vera", address="192.0.2.7")):
        with transaction.atomic():
            Quota.objects.create(tenant=red, gpu_model="V100", gpus=1)
            transaction.set_rollback(True)
        assert not AuditEntry.objects.filter(action="quota.create").exists()
        Quota.objects.create(tenant=red, gpu_model="V100", gpus=2)
    entry = last("quota.create")
    assert (entry.actor, entry.address, entry.after["gpus"]) == ("user vera", "192.0.2.7", 2)


def test_jobs_that_one_statement_cancels_are_cancelled_by_the_user_who_asked() -> None:
    jobs = [make_job().id for _ in range(2)]
    with acting(Source(kind="user", actor="user vera", address="192.0.2.7")):
        assert cancel_waiting_jobs(jobs, actor="user vera", why={jobs[0]: "100 % sure"}) == jobs
    entries = AuditEntry.objects.filter(action="job.cancel")
    assert {(entry.actor, entry.address) for entry in entries} == {("user vera", "192.0.2.7")}


# -- that nobody rewrites it -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tenants_auditentry SET actor = 'somebody else'",
        "DELETE FROM tenants_auditentry",
        "DELETE FROM tenants_auditentry -- audit_prune",
        "TRUNCATE tenants_auditentry",
        "SELECT audit_prune(now(), 1000)",
    ],
)
def test_it_is_append_only(statement: str) -> None:
    make_tenant("red")
    with connection.cursor() as cursor:
        # Which tests need off (tests/conftest.py).
        cursor.execute("ALTER TABLE tenants_auditentry ENABLE TRIGGER is_never_truncated")
        with pytest.raises(IntegrityError, match="audit log"), transaction.atomic():
            cursor.execute(statement)
    assert AuditEntry.objects.filter(action="tenant.create").exists()


# -- who, from where ---------------------------------------------------------------------------------


def test_an_entry_says_who_by_which_token_from_where_by_what_request() -> None:
    olga = make_user("olga", operator=True)
    token = make_token(olga)
    make_tenant("red")
    Caller(token).client.put(
        "/api/v1/tenants/red/quota",
        {"limits": {"*": 9}},
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
        REMOTE_ADDR="2001:db8::7",
    )
    entry = last("quota.create")
    assert (entry.kind, entry.actor, entry.token) == ("token", "user olga", token.split("_")[1])
    assert (entry.address, entry.request) == ("2001:db8::7", "PUT api/v1/tenants/<str:name>/quota")
    assert (entry.tenant, entry.subject, entry.after) == (
        "red",
        "*",
        {"tenant": "red", "gpu_model": "*", "gpus": 9},
    )


def test_a_token_is_told_of_once_for_each_address() -> None:
    ann = make_user("ann")
    token = make_token(ann)
    for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1"):
        Caller().client.get(
            "/api/v1/session", headers={"Authorization": f"Bearer {token}"}, REMOTE_ADDR=address
        )
        forget_recorded()
    uses = AuditEntry.objects.filter(action="token.first-use").order_by("id")
    assert [entry.address for entry in uses] == ["192.0.2.1", "192.0.2.2"]
    assert {(entry.actor, entry.subject) for entry in uses} == {("user ann", f"{token.split('_')[1]} of ann")}


def test_signing_in_and_out_and_failing_to_are_entries_that_hold_no_password() -> None:
    make_user("ann", password="walrus-tin-9-bridge")
    browser = Caller()
    for username, password in (
        ("ann", "wrong-1"),
        ("hunter2-typed-here", "x"),
        ("ann", "walrus-tin-9-bridge"),
    ):
        browser.post("/session", {"username": username, "password": password})
    csrf = browser.get("/session").json()["csrf_token"]
    browser.send("DELETE", "/session", headers={"X-CSRFToken": csrf})
    told = list(
        AuditEntry.objects.filter(action__startswith="user.sign")
        .order_by("id")
        .values_list("action", "actor", "outcome", "subject")
    )
    assert told == [
        ("user.sign-in", "nobody", "refused", "ann"),
        ("user.sign-in", "nobody", "refused", ""),
        ("user.sign-in", "user ann", "done", "ann"),
        ("user.sign-out", "user ann", "done", "ann"),
    ]
    everything = json.dumps(list(AuditEntry.objects.values("subject", "request", "before", "after")))
    assert not re.search("wrong-1|hunter2|walrus", everything)


def test_a_password_is_said_to_have_changed_and_not_to_what() -> None:
    ann = make_user("ann")
    ann.set_password("walrus-tin-9-bridge")
    ann.save()
    entry = last("user.password")
    assert (entry.before, entry.after) == ({}, {"password": "(changed; not shown)"})
    created = last("user.create")
    assert "password" not in created.after


def test_who_is_refused_again_and_again_fills_no_disk() -> None:
    ann = caller(make_user("ann"))
    for _ in range(REFUSALS_TOLD + 15):
        assert ann.get("/users").status_code == 403
    refused = AuditEntry.objects.filter(outcome="refused")
    assert refused.count() == REFUSALS_TOLD
    entry = refused.latest("id")
    assert (entry.actor, entry.action, entry.request, entry.after["status"]) == (
        "user ann",
        "request.refuse",
        "GET api/v1/users",
        403,
    )
    assert "path" not in entry.after
    assert "operators" in entry.after["message"]


@pytest.mark.django_db
def test_a_refusal_says_what_was_asked_for() -> None:
    ann = caller(make_user("ann"))
    assert ann.patch("/users/ben", {"email": "x@example.org"}).status_code == 403
    entry = AuditEntry.objects.filter(outcome="refused").latest("id")
    assert (entry.request, entry.after["path"]) == ("PATCH api/v1/users/<str:username>", "/api/v1/users/ben")


# -- who may read it ---------------------------------------------------------------------------------


@pytest.fixture
def two_tenants() -> tuple[Tenant, Tenant]:
    return make_tenant("red", quota={"*": 4}), make_tenant("blue", quota={"*": 8})


def test_a_tenants_admin_sees_his_tenants_entries_and_no_others(two_tenants) -> None:
    red, _blue = two_tenants
    boss = make_member(red, "boss", role=Role.ADMIN)
    for path in ("/audit", "/audit/export", "/audit?tenant=blue", "/audit?who=nobody"):
        response = caller(boss).get(path)
        entries = lines(response) if "export" in path else response.json()["results"]
        assert {entry["tenant"] for entry in entries} <= {"red"}, path
    assert {entry["tenant"] for entry in lines(caller(boss).get("/audit/export"))} == {"red"}
    assert caller(make_member(red, "mia", role=Role.MEMBER)).get("/audit/export").status_code == 403


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("who=vera", {"quota.create"}),
        ("who=0123ab", {"quota.create"}),
        ("kind=token", {"quota.create", "token.first-use"}),
        ("action=quota.&who=vera", {"quota.create"}),
        ("object=quota&subject=V100", {"quota.create"}),
        ("address=192.0.2.0/24", {"quota.create"}),
        ("address=192.0.2.8", set()),
        ("tenant=red&address=192.0.2.7", {"quota.create"}),
        ("outcome=refused", set()),
        ("until=2020-01-01T00:00:00Z", set()),
        ("since=2020-01-01T00:00:00Z&who=vera", {"quota.create"}),
    ],
)
def test_it_is_searched(query: str, expected: set[str]) -> None:
    red = make_tenant("red")
    with acting(Source(kind="token", actor="user vera", token="0123ab", address="192.0.2.7")):
        Quota.objects.create(tenant=red, gpu_model="V100", gpus=2)
    operator = caller(make_user("olga", operator=True))
    found = operator.get(f"/audit?{query}").json()["results"]
    assert {entry["action"] for entry in found} == expected
    assert {entry["action"] for entry in lines(operator.get(f"/audit/export?{query}"))} == expected


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("address=here", "address"),
        ("since=soon", "since"),
        ("kind=ghost", "kind"),
        ("outcome=maybe", "outcome"),
    ],
)
def test_a_filter_that_can_not_be_is_named(query: str, field: str) -> None:
    answer = caller(make_user("olga", operator=True)).get(f"/audit?{query}")
    assert answer.status_code == 400
    assert [one["field"] for one in answer.json()["fields"]] == [field]


def test_an_export_goes_on_behind_the_last_line(two_tenants) -> None:
    operator = caller(make_user("olga", operator=True))
    first = lines(operator.get("/audit/export?tenant=red"))
    assert [entry["id"] for entry in first] == sorted(entry["id"] for entry in first)
    assert lines(operator.get(f"/audit/export?tenant=red&after={first[-1]['id']}")) == []
    assert lines(operator.get(f"/audit/export?tenant=red&after={first[0]['id']}")) == first[1:]
    assert operator.get("/audit/export?after=x").status_code == 400


def test_retention_removes_what_is_old_and_says_so() -> None:
    old = AuditEntry.objects.create(
        at=timezone.now() - timedelta(days=500), kind="user", actor="user ann", action="user.sign-in"
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT audit_prune(now() - interval '400 days', 1000)")
        assert cursor.fetchone() == (1,)
    assert not AuditEntry.objects.filter(id=old.id).exists()


def test_nobody_is_told_by_a_user_who_was_removed_meanwhile() -> None:
    """Names, not keys: what is told of somebody stays when he goes."""
    ann = make_user("ann")
    User.objects.filter(pk=ann.pk).delete()
    assert last("user.remove").before["username"] == "ann"
    assert last("user.create").subject == "ann"


def test_who_reads_the_output_of_another_tenants_job_is_written_down_and_its_own_people_are_not() -> None:
    member, operator = make_user("member"), make_user("operator", operator=True)
    job = make_job(tenant=make_tenant("red", members={member: Role.VIEWER}))
    assert caller(member).get(f"/jobs/{job.id}/logs").status_code == 200
    assert not AuditEntry.objects.filter(action="log.read").exists()
    assert caller(operator).get(f"/jobs/{job.id}/logs").status_code == 200
    entry = last("log.read")
    assert (entry.actor, entry.object_kind, entry.object_id, entry.tenant) == (
        "user operator",
        "job",
        str(job.id),
        job.tenant.name,
    )


def test_a_page_that_asks_who_is_signed_in_is_refused_nothing_and_a_wrong_token_is() -> None:
    assert Caller().get("/session").status_code == 401
    assert not AuditEntry.objects.exists()
    assert Caller("alt_0123ab_wrong").get("/session").status_code == 401
    assert last("request.refuse").outcome == "refused"


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("quota.set", "operator set quota x."),
        ("rule.make", "operator made rule x."),
        ("job.cancel", "operator cancelled job x."),
        ("log.read", "operator, not a member of tenant red, read the output of x."),
        ("invitation.accept", "someone who was not signed in accepted invitation x."),
    ],
)
def test_an_entry_reads_as_a_sentence(action: str, said: str) -> None:
    entry = AuditEntry(
        actor="nobody" if action == "invitation.accept" else "user operator",
        action=action,
        object_kind=action.partition(".")[0],
        subject="x",
        object_id="1",
        token="",
        tenant="red" if action == "log.read" else "",
        before=None,
        after=None,
    )
    assert sentence(entry) == said


def test_a_refused_request_to_no_route_is_named_by_its_path() -> None:
    assert Caller("alt_0123ab_wrong").get("/no/such/thing").status_code in (401, 404)
    Caller("alt_0123ab_wrong").get("/tenants/red")
    assert [entry.request for entry in AuditEntry.objects.order_by("id")][
        -1
    ] == "GET api/v1/tenants/<str:name>"
    assert not AuditEntry.objects.filter(request__contains="^").exists()


@pytest.mark.django_db
def test_only_what_the_log_looks_at_is_told_who_writes():
    """A job's end is some ten statements, most of them on tables of which nothing is recorded."""
    make_node(gpus=1)
    with acting(Source(kind="node", actor="node n1")), CaptureQueriesContext(connection) as captured:
        QueueOrder.objects.create(view="v", jobs=[], round_number=1)
        QueueOrder.objects.update(round_number=2)
        Gpu.objects.update(healthy=False)
        Node.objects.update(rack="elsewhere")
        QueueOrder.objects.all().delete()
    told = [query["sql"] for query in captured.captured_queries if "allot.source" in query["sql"]]
    assert len(told) == 2
    assert '"scheduler_node"' in told[0]
