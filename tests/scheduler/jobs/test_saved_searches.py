"""Searches of the page of jobs under a name: whose they are, who finds them, who may delete them."""

from typing import Any

import pytest

from scheduler.jobs import searches
from scheduler.models.jobs import SavedSearch
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import make_member
from tests.scheduler.conftest import World

pytestmark = pytest.mark.django_db


def save(by: Caller, name: str, search: str = "state=running&by=mia", tenant: str | None = None) -> Any:
    answer = by.post("/jobs/searches", {"name": name, "search": search, "tenant": tenant})
    assert answer.status_code == 201, answer.content
    return answer.json()


def names(by: Caller) -> list[str]:
    return [each["name"] for each in by.get("/jobs/searches").json()["results"]]


def test_a_search_of_ones_own_is_seen_by_oneself_alone(world: World) -> None:
    saved = save(world.member, "mine")
    assert saved["tenant"] is None
    assert (saved["search"], saved["owner"], saved["may_delete"]) == ("state=running&by=mia", "mia", True)
    assert names(world.member) == ["mine"]
    assert names(world.viewer) == names(world.stranger) == names(world.operator) == []
    is_error(world.operator.delete(f"/jobs/searches/{saved['id']}"), 404, "not_found")
    assert world.member.delete(f"/jobs/searches/{saved['id']}").status_code == 204
    assert names(world.member) == []


def test_a_shared_search_is_seen_by_the_tenant_and_deleted_by_its_author_or_an_admin(world: World) -> None:
    admin = caller(make_member(world.tenant, "ada", role="admin"))
    other = caller(make_member(world.tenant, "otto"))
    first, second = (save(world.member, name, tenant="vision")["id"] for name in ("first", "second"))
    for by in (world.member, world.viewer, other, admin):
        assert names(by) == ["first", "second"]
    assert names(world.stranger) == []
    is_error(world.stranger.delete(f"/jobs/searches/{first}"), 404, "not_found")
    for by in (world.viewer, other):
        is_error(by.delete(f"/jobs/searches/{first}"), 403, "not_allowed")
        assert not any(each["may_delete"] for each in by.get("/jobs/searches").json()["results"])
    assert world.member.delete(f"/jobs/searches/{first}").status_code == 204
    assert admin.delete(f"/jobs/searches/{second}").status_code == 204


def test_a_name_is_taken_once_by_each_owner(world: World) -> None:
    save(world.member, "late")
    save(world.viewer, "late")
    save(world.member, "late", tenant="vision")
    for tenant in (None, "vision"):
        body = {"name": "late", "search": "q=x", "tenant": tenant}
        is_error(world.member.post("/jobs/searches", body), 409, "conflict")
    assert SavedSearch.objects.count() == 3


def test_there_are_only_so_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "MOST", 1)
    save(world.member, "first")
    save(world.member, "first", tenant="vision")
    for tenant in (None, "vision"):
        body = {"name": "second", "search": "q=x", "tenant": tenant}
        is_error(world.member.post("/jobs/searches", body), 409, "conflict")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "a"}, "search"),
        ({"name": "a", "search": ""}, "search"),
        ({"name": "a", "search": "state="}, "search"),
        ({"name": "a", "search": "x" * 2_001}, "search"),
        ({"name": "x" * 64, "search": "q=x"}, "name"),
        ({"name": "a", "search": "q=x", "owner": "vic"}, "owner"),
    ],
)
def test_what_is_no_search_is_refused(world: World, body: dict[str, Any], field: str) -> None:
    assert is_error(world.member.post("/jobs/searches", body), 400, "invalid")["fields"][0]["field"] == field
    assert not SavedSearch.objects.exists()
