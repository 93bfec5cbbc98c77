"""Users as operators see them, deactivated and back, and tenants that are removed, over HTTP."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.models import Budget, Event, Job
from tenants.models import Role, Tenant, Token, User
from tests.api.caller import Caller, caller, is_error, make_token
from tests.scheduler.builders import (
    make_attempt,
    make_job,
    make_member,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Caller:
    return caller(make_user("olga", operator=True))


def names(answer: object) -> list[str]:
    return [user["username"] for user in answer.json()["results"]]


def test_users_are_found_by_name_address_tenant_and_whether_they_are_active(operator):
    red, blue = make_tenant("red"), make_tenant("blue")
    ann, bob = make_member(red, "ann", role=Role.ADMIN), make_member(blue, "bob")
    red.memberships.create(user=bob, role=Role.VIEWER)
    User.objects.filter(pk=ann.pk).update(email="ann@example.org")
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert names(operator.get("/users")) == ["bob", "ann", "olga"]
    assert names(operator.get("/users?q=EXAMPLE")) == ["ann"]
    assert names(operator.get("/users?tenant=red")) == ["bob", "ann"]
    assert names(operator.get("/users?is_active=false")) == ["bob"]
    assert names(operator.get("/users?is_operator=true")) == ["olga"]
    page = operator.get("/users?page_size=2").json()
    assert names(operator.get(page["next"])) == ["olga"]
    assert operator.get("/users/bob").json()["tenants"] == [
        {"name": "blue", "role": "member"},
        {"name": "red", "role": "viewer"},
    ]
    is_error(operator.get("/users/nobody"), 404, "not_found")
    [wrong] = is_error(operator.get("/users?nmae=ann"), 400, "invalid")["fields"]
    assert wrong["field"] == "nmae"


def test_a_list_of_users_costs_the_same_however_many_there_are(operator, django_assert_max_num_queries):
    operator.get("/users")
    for number in range(20):
        make_member(make_tenant(f"t{number}"))
    with django_assert_max_num_queries(6):
        assert len(operator.get("/users").json()["results"]) == 21


def test_last_seen_is_the_last_sign_in_or_the_last_use_of_a_token(operator):
    now = timezone.now()
    ann = make_user("ann")
    assert operator.get("/users/ann").json()["last_seen_at"] is None
    User.objects.filter(pk=ann.pk).update(last_login=now - timedelta(days=3))
    for hours in (5, 9):
        make_token(ann, last_used_at=now - timedelta(hours=hours))
    seen = operator.get("/users/ann").json()["last_seen_at"]
    assert seen.startswith((now - timedelta(hours=5)).strftime("%Y-%m-%dT%H:%M"))


def test_whose_account_is_deactivated_is_out_at_once_and_the_waiting_jobs_are_held(operator):
    red = make_tenant("red")
    ann = make_member(red, "ann")
    shared = make_vc("shared", members=[red])
    of_red = {"tenant": red, "virtual_cluster": shared}
    waiting = make_job(submitted_by=ann, **of_red)
    # Held by the user: its fate does not change, so it is not counted.
    make_job(submitted_by=ann, columns={"held": True}, **of_red)
    running = make_job(submitted_by=ann, **of_red)
    make_attempt(running, list(make_node("busy").gpus.all()[:1]))
    Job.objects.filter(pk=running.pk).update(state="running")
    others = make_job(submitted_by=make_member(red, "bob"), **of_red)
    token, browser = make_token(ann), Client()
    browser.force_login(ann)

    foreseen = operator.post("/users/ann/deactivate", {"dry_run": True}).json()
    assert foreseen == {"running": 1, "held": 1, "cancelled": 0, "remaining": 0}
    assert Caller(token).get("/session").status_code == 200
    assert operator.post("/users/ann/deactivate").json() == foreseen
    is_error(Caller(token).get("/session"), 401, "not_signed_in")
    assert browser.get("/api/v1/session").status_code == 401
    assert [Job.objects.get(pk=job.pk).held for job in (waiting, running, others)] == [True, False, False]
    assert "deactivated" in Job.objects.get(pk=waiting.pk).message
    held = Event.objects.get(kind="job.held")
    assert (held.job_id, held.actor) == (waiting.pk, "user olga")

    # Again: nothing is left to do, and the answer is the same.
    assert operator.post("/users/ann/deactivate").json() == foreseen
    assert Event.objects.filter(kind="job.held").count() == 1
    # Back: a member as before, but by a token made anew, and whose jobs wait for the person.
    back = operator.patch("/users/ann", {"is_active": True}).json()
    assert (back["is_active"], back["tenants"]) == (True, [{"name": "red", "role": "member"}])
    is_error(Caller(token).get("/session"), 401, "not_signed_in")
    assert Token.objects.get(user=ann).expires_at <= timezone.now()
    assert Job.objects.get(pk=waiting.pk).held
    assert caller(ann).post(f"/jobs/{waiting.pk}/release").status_code == 200
    assert not Job.objects.get(pk=waiting.pk).held


@pytest.mark.parametrize("path", ["/jobs/{}/cancel", "/jobs/actions"])
def test_a_job_that_is_cancelled_says_no_longer_why_it_was_held(operator, path: str):
    red = make_tenant("red")
    ann, bob = make_member(red, "ann"), make_member(red, "bob")
    job = make_job(tenant=red, virtual_cluster=make_vc(members=[red]), submitted_by=ann)
    operator.post("/users/ann/deactivate")
    body = {} if "{}" in path else {"action": "cancel", "filter": {"tenant": "red"}, "most": 1}
    assert caller(bob).post(path.format(job.pk), body).status_code == 200
    job.refresh_from_db()
    assert (job.state, job.message) == ("cancelled", "")


def test_all_jobs_of_who_leaves_can_be_cancelled(operator):
    red = make_tenant("red")
    ann = make_member(red, "ann")
    job = make_job(tenant=red, virtual_cluster=make_vc(members=[red]), submitted_by=ann)
    asked = {"jobs": "cancel"}
    assert operator.post("/users/ann/deactivate", {**asked, "dry_run": True}).json()["cancelled"] == 1
    assert Job.objects.get(pk=job.pk).state == "queued"
    assert operator.post("/users/ann/deactivate", asked).json()["cancelled"] == 1
    assert Job.objects.get(pk=job.pk).state == "cancelled"


def test_an_account_is_not_deactivated_by_a_field_nor_by_its_own_hand(operator):
    make_user("ann")
    [wrong] = is_error(operator.patch("/users/ann", {"is_active": False}), 400, "invalid")["fields"]
    assert "/deactivate" in wrong["expected"]
    assert "yourself" in is_error(operator.post("/users/olga/deactivate"), 409, "conflict")["detail"]
    is_error(operator.post("/users/nobody/deactivate"), 404, "not_found")
    is_error(operator.post("/users/nobody/deactivate", {"dry_run": True}), 404, "not_found")
    [wrong] = is_error(operator.post("/users/ann/deactivate", {"jobs": "keep"}), 400, "invalid")["fields"]
    assert wrong["expected"] == "one of hold, cancel"
    assert User.objects.get(username="ann").is_active


def test_a_tenant_is_removed_once_nothing_of_it_is_left(operator):
    red = make_tenant("red", quota={"*": 4})
    Budget.objects.create(tenant=red, amount=1, starts_at=timezone.now(), period_starts_at=timezone.now())
    assert operator.get("/tenants/red").json()["quota"] == {"*": 4}
    ann = make_member(red, "ann")
    shared = make_vc("shared", members=[red])
    assert "1 member" in is_error(operator.delete("/tenants/red"), 409, "conflict")["detail"]
    operator.delete("/tenants/red/members/ann")
    assert "of shared" in is_error(operator.delete("/tenants/red"), 409, "conflict")["detail"]
    shared.members.all().delete()
    assert operator.delete("/tenants/red").status_code == 204
    assert not Tenant.objects.exists()
    assert operator.get("/audit?action=tenant.remove").json()["results"][0]["subject"] == "red"

    blue = make_tenant("blue")
    make_job(tenant=blue, virtual_cluster=shared, submitted_by=ann, state="failed")
    assert "history" in is_error(operator.delete("/tenants/blue"), 409, "conflict")["detail"]
    assert Tenant.objects.filter(name="blue").exists()


def test_budgets_are_listed_for_those_who_may_see_the_tenant(operator):
    red, blue = make_tenant("red"), make_tenant("blue")
    make_tenant("green")
    ann = caller(make_member(red, "ann"))
    for tenant in (red, blue):
        operator.put(f"/tenants/{tenant.name}/budget", {"amount": 5, "action": "hold"})
    assert [one["tenant"] for one in operator.get("/budgets").json()["results"]] == ["blue", "red"]
    first = operator.get("/budgets?page_size=1").json()
    assert [one["tenant"] for one in operator.get(first["next"]).json()["results"]] == ["red"]
    [mine] = ann.get("/budgets").json()["results"]
    assert (mine["tenant"], mine["amount"], mine["action"], mine["is_spent"]) == ("red", 5, "hold", False)
