"""What admins of a tenant let its members hold and use up: set within what the tenant has, and enforced."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.core.model.limits import UserLimits
from scheduler.jobs.budgets.services import watch_budgets
from scheduler.models import Attempt, Event, Explanation, UserBudget, UserQuota
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from tenants.models import AuditEntry, Role, Tenant
from tests.api.caller import Caller, caller
from tests.scheduler.builders import (
    gpus_of,
    held_since,
    make_attempt,
    make_job,
    make_member,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db

QUOTA = "/tenants/red/members/ann/quota"
BUDGET = "/tenants/red/members/ann/budget"


@pytest.fixture
def red() -> Tenant:
    tenant = make_tenant("red", quota={"*": 8, "V100": 6})
    tenant.quota_cpus = 64.0
    tenant.save()
    make_member(tenant, "ann")
    make_member(tenant, "bob")
    return tenant


@pytest.fixture
def operator(red: Tenant) -> Caller:
    return caller(make_user(operator=True))


@pytest.fixture
def admin(red: Tenant) -> Caller:
    return caller(make_member(red, "eve", role=Role.ADMIN))


def test_an_admin_sets_what_a_member_may_hold_and_the_member_sees_it(red: Tenant, admin: Caller) -> None:
    given = {"gpus": 4, "cpus": 16.0, "memory_bytes": None}
    nothing = {"gpus": {}, "cpus": 0.0, "memory_bytes": 0}
    assert admin.put(QUOTA, given).json() == {**given, "held": nothing}
    ann, bob = (caller(red.memberships.get(user__username=name).user) for name in ("ann", "bob"))
    assert ann.get(QUOTA).json()["gpus"] == 4
    assert ann.put(QUOTA, {"gpus": 8}).status_code == 403
    assert bob.get(QUOTA).status_code == 403
    row = {"username": "ann", "quota": given, "budget": None}
    assert admin.get("/tenants/red/user-limits").json()["results"] == [row]
    assert ann.get("/tenants/red/user-limits").json()["results"] == [row]
    assert bob.get("/tenants/red/user-limits").json()["results"] == []
    entry = AuditEntry.objects.get(object_kind="user quota")
    assert (entry.action, entry.subject, entry.tenant) == ("user-quota.create", "ann", "red")
    assert admin.put(QUOTA, {}).json()["gpus"] is None
    assert not UserQuota.objects.exists()
    assert admin.put("/tenants/red/members/none/quota", {"gpus": 1}).status_code == 404


def test_never_beyond_what_the_tenant_has(red: Tenant, admin: Caller) -> None:
    refused = admin.put(QUOTA, {"gpus": 9, "cpus": 65}).json()
    assert refused["detail"] == "gpus: 9 is more than tenant red may hold, 8."
    assert [(each["field"], each["expected"]) for each in refused["fields"]] == [
        ("gpus", "at most 8"),
        ("cpus", "at most 64"),
    ]
    # The tenant's memory has no limit, so a member's may be any.
    assert admin.put(QUOTA, {"memory_bytes": 2**50}).status_code == 200


def test_a_members_budget_is_a_part_of_the_tenants(red: Tenant, admin: Caller, operator: Caller) -> None:
    assert admin.put(BUDGET, {"amount": 5_000}).status_code == 200, "the tenant has none"
    operator.put("/tenants/red/budget", {"amount": 100, "unit": "cost", "period": "week"})
    refused = admin.put(BUDGET, {"amount": 10}).json()
    assert refused["detail"] == "unit: is gpu_hours, and the budget of tenant red has cost."
    assert [each["expected"] for each in refused["fields"]] == ["cost", "week"]
    refused = admin.put(BUDGET, {"amount": 101, "unit": "cost", "period": "week"}).json()
    assert refused["fields"][0] == {
        "field": "amount",
        "problem": "101 is more than the budget of tenant red, 100",
        "expected": "at most 100",
    }
    assert admin.put(BUDGET, {"amount": 100, "unit": "cost", "period": "week"}).status_code == 200
    assert admin.delete(BUDGET).status_code == 204
    assert not UserBudget.objects.exists()


def test_a_round_and_a_submission_keep_to_what_a_member_may_hold(red: Tenant, admin: Caller) -> None:
    node = make_node("free", gpus=8)
    vc = make_vc(members=[red], guaranteed={"V100": 8})
    admin.put(QUOTA, {"gpus": 2})
    ann, bob = (red.memberships.get(user__username=name).user for name in ("ann", "bob"))
    columns = {"tenant": red, "virtual_cluster": vc}
    make_attempt(make_job(**columns, submitted_by=ann, gpus=1), gpus_of(node)[:1])
    waits, other = (make_job(**columns, submitted_by=user, gpus=2) for user in (ann, bob))
    run_round()
    assert not waits.attempts.exists()
    assert other.attempts.exists()
    (reason,) = Explanation.objects.get(job=waits).reasons
    assert reason["code"] == "user_quota"
    assert reason["message"].startswith("User ann has a quota of 2 GPUs in tenant red; 1 GPU are used")
    assert admin.get(QUOTA).json()["held"]["gpus"] == {"V100": 1.0}
    spec = {"name": "large", "tenant": "red", "command": ["true"], "resources": {"gpu": 3}}
    refused = caller(ann).post("/jobs", spec)
    assert refused.status_code == 409
    assert "User ann may hold at most 2 GPUs at once in tenant red" in refused.json()["detail"]
    checked = caller(ann).post("/jobs/check", {**spec, "resources": {"gpu": 2}}).json()
    assert checked["message"].startswith("Would wait: User ann has a quota of 2 GPUs"), "as the round says"
    assert caller(bob).post("/jobs", spec).status_code == 201


def test_a_budget_that_is_used_up_holds_its_member_back_and_nobody_else(red: Tenant, admin: Caller) -> None:
    now = timezone.now()
    vc = make_vc(members=[red], guaranteed={"V100": 8})
    ann, bob = (red.memberships.get(user__username=name).user for name in ("ann", "bob"))
    for user in (ann, bob):
        job = make_job(tenant=red, virtual_cluster=vc, submitted_by=user, gpus=2)
        held_since(make_attempt(job, gpus_of(make_node(gpus=2))), now - timedelta(hours=2))
    terms = {"action": "hold", "period": "none", "starts_at": (now - timedelta(days=1)).isoformat()}
    state = admin.put(BUDGET, {"amount": 4, **terms}).json()
    assert state["used"] == pytest.approx(4, abs=0.01), "the jobs of others do not count"
    assert state["is_holding"]
    event = Event.objects.get(kind="budget.reached")
    assert event.data["user"] == "ann"
    assert event.message.startswith("User ann of tenant red has used 4.0 of 4 GPU-hours")
    (tenant,) = read_snapshot(1).tenants
    assert tenant.users == (UserLimits(user="ann", budget_spent=True),)
    make_node(gpus=4)
    waits, starts = (
        make_job(tenant=red, virtual_cluster=vc, submitted_by=user, gpus=1) for user in (ann, bob)
    )
    run_round()
    assert starts.attempts.exists()
    assert not waits.attempts.exists()
    (reason,) = Explanation.objects.get(job=waits).reasons
    assert reason["code"] == "user_budget_spent"
    admin.put(BUDGET, {"amount": 400, **terms})
    watch_budgets()
    run_round()
    assert Attempt.objects.filter(job=waits).exists()


def test_limits_end_with_the_membership(red: Tenant, admin: Caller) -> None:
    admin.put(QUOTA, {"gpus": 1})
    admin.put(BUDGET, {"amount": 1})
    assert admin.delete("/tenants/red/members/ann").status_code == 204
    assert not UserQuota.objects.exists()
    assert not UserBudget.objects.exists()
    removed = AuditEntry.objects.filter(action="user-quota.remove").get()
    assert (removed.subject, removed.tenant) == ("ann", "red")
