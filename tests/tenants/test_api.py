"""Tenants, members, quotas, users, tokens and the audit over HTTP."""

import pytest

from tenants.models import Role
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import make_member, make_node, make_tenant, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Caller:
    return caller(make_user("olga", operator=True))


def test_an_operator_sets_up_a_tenant(operator):
    tenant = operator.post("/tenants", {"name": "red", "title": "Red team"}).json()
    assert (tenant["name"], tenant["role"], tenant["members"]) == ("red", "admin", 0)
    made = operator.post("/users", {"username": "ann", "email": "ann@example.org"}).json()
    assert made["password"]
    assert operator.put("/tenants/red/members/ann", {"role": "admin"}).status_code == 201
    assert operator.put("/tenants/red/quota", {"limits": {"*": 16, "V100": 8}}).json() == {
        "limits": {"*": 16, "V100": 8},
        "cpus": None,
        "memory_bytes": None,
    }
    assert operator.get("/tenants/red").json()["members"] == 1
    assert operator.get("/tenants/red/members").json()["results"] == [
        {"username": "ann", "email": "ann@example.org", "role": "admin"}
    ]
    actions = [entry["action"] for entry in operator.get("/audit").json()["results"]]
    made = ["quota.create", "quota.create", "member.create", "user.create", "tenant.create"]
    assert actions[:5] == made


def test_a_quota_has_cpus_and_memory_and_the_audit_tells_of_them(operator):
    make_tenant("red", quota={"*": 4})
    given = {"limits": {"*": 4}, "cpus": 64.5, "memory_bytes": 2**40}
    assert operator.put("/tenants/red/quota", given).json() == given
    tenant = operator.get("/tenants/red").json()
    assert (tenant["quota_cpus"], tenant["quota_memory_bytes"]) == (64.5, 2**40)
    entry = operator.get("/audit").json()["results"][0]
    assert (entry["action"], entry["subject"]) == ("tenant.quota", "red")
    assert (entry["before"]["quota_cpus"], entry["after"]["quota_cpus"]) == (None, 64.5)
    # The whole of it is replaced.
    assert operator.put("/tenants/red/quota", {"limits": {}}).json()["cpus"] is None


def test_a_quota_names_models_that_the_cluster_has_or_had_once_nodes_have_registered(operator):
    make_tenant("red")
    operator.put("/tenants/red/quota", {"limits": {"A100": 4, "H100": 8}})
    make_node(gpu_model="V100")
    make_node(gpu_model="P100")
    # Those that came before their nodes stay, and may be changed.
    limits = {"H100": 16, "V100": 4, "*": 20}
    assert operator.put("/tenants/red/quota", {"limits": limits}).json()["limits"] == limits
    refused = operator.put("/tenants/red/quota", {"limits": {"V100": 5, "L4": 4, "V10O": 8}})
    assert refused.status_code == 400
    known = "one of: P100, V100"
    assert refused.json()["fields"] == [
        {"field": "limits.L4", "problem": "there is no GPU model 'L4'", "expected": known},
        {
            "field": "limits.V10O",
            "problem": "there is no GPU model 'V10O' (did you mean \"V100\"?)",
            "expected": known,
        },
    ]
    assert operator.get("/tenants/red/quota").json()["limits"] == limits


def test_the_audit_says_who_changed_what_from_what_to_what(operator):
    make_tenant("red", quota={"*": 4})
    operator.put("/tenants/red/quota", {"limits": {"*": 9}})
    entry = operator.get("/audit").json()["results"][0]
    assert (entry["actor"], entry["tenant"], entry["before"], entry["after"]) == (
        "user olga",
        "red",
        {"gpus": 4},
        {"gpus": 9},
    )


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked():
    ann = caller(make_user("ann"))
    made = ann.post("/tokens", {"name": "laptop", "scopes": ["read"], "expires_in_days": 7}).json()
    laptop = Caller(made["token"])
    assert laptop.get("/session").json()["user"]["username"] == "ann"
    assert laptop.get("/session").json()["csrf_token"] == ""
    [listed] = [one for one in ann.get("/tokens").json()["results"] if one["name"] == "laptop"]
    assert made["token"].split("_")[2] not in str(listed)
    assert (listed["user"], listed["scopes"], listed["last_used_from"]) == ("ann", ["read"], "127.0.0.1")
    assert listed["first_used_at"] == listed["last_used_at"]
    assert ann.delete(f"/tokens/{made['key']}").status_code == 204
    is_error(laptop.get("/session"), 401, "not_signed_in")


def test_a_viewer_sees_and_a_member_leaves():
    red = make_tenant("red")
    make_member(red, "boss", role=Role.ADMIN)
    viewer = caller(make_member(red, "vic", role=Role.VIEWER))
    assert [one["name"] for one in viewer.get("/tenants").json()["results"]] == ["red"]
    assert viewer.delete("/tenants/red/members/vic").status_code == 204
    is_error(viewer.get("/tenants/red"), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "expected"),
    [
        ("POST", "/tenants", {"name": "Red Team"}, "name", "Use 1 to 63 lower-case letters"),
        ("POST", "/tenants", {"name": "x", "titel": "y"}, "titel", "name, title"),
        ("POST", "/tenants", {"name": 5}, "name", "Use 1 to 63"),
        ("POST", "/tenants", {}, "name", "Use 1 to 63"),
        ("POST", "/tenants", [], "body", "an object with the fields name, title"),
        ("PUT", "/tenants/red/members/ann", {"role": "owner"}, "role", "one of viewer, member, admin"),
        ("PUT", "/tenants/red/quota", {"limits": {"V100": -1}}, "limits.V100", "from 0 to 1000000"),
        ("PUT", "/tenants/red/quota", {"limits": {"V100": "8"}}, "limits.V100", "from 0 to 1000000"),
        ("PUT", "/tenants/red/quota", {"limits": {"V 100": 8}}, "limits.V 100", "whole number"),
        ("PUT", "/tenants/red/quota", {"limits": 8}, "limits", "an object"),
        ("PUT", "/tenants/red/quota", {"limits": {}, "cpus": -1}, "cpus", "from 0 to 10000000"),
        ("PUT", "/tenants/red/quota", {"limits": {}, "memory_bytes": "1GiB"}, "memory_bytes", "whole number"),
        ("POST", "/tokens", {"name": "x", "expires_in_days": 0}, "expires_in_days", "from 1 to 3650"),
        ("POST", "/tokens", {"name": "x", "expires_in_days": 366}, "expires_in_days", "from 1 to 365"),
        ("POST", "/tokens", {"name": "x", "expires_in_days": None}, "expires_in_days", "from 1 to 365"),
        ("POST", "/tokens", {"name": "x", "scopes": ["write"]}, "scopes.0", "one of read, submit, manage"),
        ("POST", "/users", {"username": "a b"}, "username", "Use 1 to 64"),
        ("POST", "/users", {"username": "ann2", "email": "nope"}, "email", "an email address"),
        ("POST", "/users", {"username": "ann2", "password": "short"}, "password", "10 or more"),
    ],
)
def test_bad_input_names_field_problem_and_what_would_be_right(operator, method, path, body, field, expected):
    make_tenant("red")
    make_user("ann")
    error = is_error(operator.send(method, path, body), 400, "invalid")
    [found] = [one for one in error["fields"] if one["field"] == field]
    assert expected in found["expected"]


def test_names_that_are_taken_are_a_conflict_about_that_field(operator):
    make_tenant("red")
    make_user("ann")
    assert (
        is_error(operator.post("/tenants", {"name": "red"}), 409, "conflict")["fields"][0]["field"] == "name"
    )
    error = is_error(operator.post("/users", {"username": "ann"}), 409, "conflict")
    assert error["fields"][0]["field"] == "username"


def test_a_list_of_many_costs_as_many_queries_as_one_of_few(operator, django_assert_num_queries):
    operator.get("/session")
    for number in range(20):
        make_tenant(f"t{number}", members={make_user(): Role.ADMIN})
    with django_assert_num_queries(3):
        assert len(operator.get("/tenants").json()["results"]) == 20
