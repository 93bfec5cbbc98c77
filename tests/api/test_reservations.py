"""Reservations through the API: who sees which, and what is refused by which field."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.models import Reservation
from tenants.models import AuditEntry, Role
from tests.api.caller import Caller, caller
from tests.scheduler.builders import make_node, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def people(settings: Any) -> dict[str, Caller]:
    """An operator, an admin and two members of red, and one of blue; one node."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    users = {name: make_user(name, operator=name == "olga") for name in ("olga", "ann", "bob", "eve", "zoe")}
    roles = {users["ann"]: Role.ADMIN, users["bob"]: Role.MEMBER, users["eve"]: Role.VIEWER}
    red = make_tenant("red", members=roles)
    blue = make_tenant("blue", members={users["zoe"]: Role.ADMIN})
    make_vc("shared", members=[red, blue], guaranteed={"V100": 16})
    make_vc("private", members=[blue])
    make_node("a1")
    make_node("a2")
    return {name: caller(user) for name, user in users.items()}


def wanted(**fields: Any) -> dict[str, Any]:
    begin = datetime.now(UTC) + timedelta(days=1)
    return {
        "name": "paper",
        "tenant": "red",
        "gpu_model": "V100",
        "gpus": 8,
        "starts_at": begin.isoformat(),
        "ends_at": (begin + timedelta(hours=4)).isoformat(),
        **fields,
    }


def test_another_number_of_gpus_is_another_edition_though_its_nodes_are_the_same(
    people: dict[str, Caller],
) -> None:
    olga = people["olga"]
    where = f"/api/v1/reservations/{olga.post('/api/v1/reservations', wanted()).json()['id']}"
    read = olga.get(where)
    fewer = olga.patch(where, {"gpus": 5}, headers={"If-Match": read["ETag"]})
    assert (fewer.status_code, fewer.json()["nodes"]) == (200, read.json()["nodes"])
    assert olga.patch(where, {"note": "late"}, headers={"If-Match": read["ETag"]}).status_code == 412


def test_operators_make_change_and_cancel_and_the_audit_log_says_so(people: dict[str, Caller]) -> None:
    olga = people["olga"]
    made = olga.post("/api/v1/reservations", wanted(user="bob", virtual_cluster="shared", note="ICML"))
    assert made.status_code == 201, made.json()
    body = made.json()
    assert (body["state"], body["nodes"], body["user"], body["virtual_cluster"], body["note"]) == (
        "announced", ["a1"], "bob", "shared", "ICML",
    )  # fmt: skip
    where = f"/api/v1/reservations/{body['id']}"
    assert olga.get(where).json() == body
    assert olga.patch(where, {"gpus": 16}).json()["nodes"] == ["a1", "a2"]
    assert olga.delete(where).status_code == 204
    assert olga.get(where).json()["state"] == "cancelled"
    entries = AuditEntry.objects.filter(object_kind="reservation").order_by("id")
    assert [*entries.values_list("action", "actor", "subject", "tenant")] == [
        (f"reservation.{action}", "user olga", "paper", "red") for action in ("create", "change", "cancel")
    ]


def test_who_sees_which(people: dict[str, Caller]) -> None:
    olga = people["olga"]
    for name, fields in (("all", {}), ("bobs", {"user": "bob"})):
        assert olga.post("/api/v1/reservations", wanted(name=name, **fields)).status_code == 201
    seen = {
        name: [row["name"] for row in person.get("/api/v1/reservations").json()["results"]]
        for name, person in people.items()
    }
    both = ["all", "bobs"]
    assert {name: sorted(names) for name, names in seen.items()} == {
        "olga": both, "ann": both, "bob": both, "eve": ["all"], "zoe": [],
    }  # fmt: skip
    bobs = Reservation.objects.get(name="bobs")
    for name in ("eve", "zoe"):
        assert people[name].get(f"/api/v1/reservations/{bobs.id}").status_code == 404
    for name in ("ann", "bob", "zoe"):
        assert people[name].post("/api/v1/reservations", wanted(name="mine")).status_code == 403
        assert people[name].delete(f"/api/v1/reservations/{bobs.id}").status_code == 403


def test_states_are_found_by_time(people: dict[str, Caller]) -> None:
    olga = people["olga"]
    assert olga.post("/api/v1/reservations", wanted()).status_code == 201

    def listed(states: str) -> list[str]:
        found = olga.get(f"/api/v1/reservations?state={states}").json()["results"]
        return [row["state"] for row in found]

    assert (listed("announced"), listed("in_force,over,cancelled")) == (["announced"], [])
    now = timezone.now()
    Reservation.objects.update(starts_at=now - timedelta(hours=1), ends_at=now + timedelta(hours=1))
    assert (listed("in_force"), listed("announced,over,cancelled")) == (["in_force"], [])
    Reservation.objects.update(ends_at=now - timedelta(minutes=1))
    assert (listed("over"), listed("announced,in_force,cancelled")) == (["over"], [])
    assert olga.get("/api/v1/reservations?state=soon").status_code == 400


@pytest.mark.parametrize(
    ("fields", "status", "named"),
    [
        ({"tenant": "nowhere"}, 404, None),
        ({"user": "zoe"}, 400, "user"),
        ({"user": "nobody"}, 400, "user"),
        ({"virtual_cluster": "private"}, 400, "virtual_cluster"),
        ({"virtual_cluster": "none"}, 400, "virtual_cluster"),
        ({"gpus": 17}, 400, "gpus"),
        ({"gpus": 0}, 400, "gpus"),
        ({"gpu_model": "H100"}, 400, "gpu_model"),
        ({"name": "no good"}, 400, "name"),
        ({"starts_at": "2020-01-01T00:00:00Z"}, 400, "starts_at"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, 400, "ends_at"),
        ({"colour": "blue"}, 400, "colour"),
    ],
)
def test_what_can_not_be_is_refused_by_its_field(
    people: dict[str, Caller], fields: dict[str, Any], status: int, named: str | None
) -> None:
    answer = people["olga"].post("/api/v1/reservations", wanted(**fields))
    assert answer.status_code == status, answer.json()
    if named is not None:
        assert named in [each["field"] for each in answer.json()["fields"]]


def test_more_than_is_left_then_is_a_conflict(people: dict[str, Caller]) -> None:
    olga = people["olga"]
    assert olga.post("/api/v1/reservations", wanted()).status_code == 201
    answer = olga.post("/api/v1/reservations", wanted(name="more", gpus=16))
    assert answer.status_code == 409
    assert [each["field"] for each in answer.json()["fields"]] == ["gpus", "starts_at"]
