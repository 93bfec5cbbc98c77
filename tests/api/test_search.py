"""Lists that are searched by a part of a name, as the palette does: viewers find what they may see."""

from typing import Any

import pytest

from tenants.models import Role
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import make_node, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> dict[str, Caller]:
    """An operator, members of red and of blue, and a user of no tenant."""
    users = {
        name: make_user(name, operator=name == "olga") for name in ("olga", "ann", "anton", "zoe", "eve")
    }
    red = make_tenant("red-team", members={users["ann"]: Role.MEMBER, users["anton"]: Role.VIEWER})
    blue = make_tenant("blue-team", members={users["zoe"]: Role.ADMIN})
    make_vc("red-lab", members=[red])
    make_vc("blue-lab", members=[blue])
    for node in ("rack1-a", "rack1-b", "rack2-a"):
        make_node(node)
    return {name: caller(user) for name, user in users.items()}


def found(by: Caller, path: str, field: str = "name") -> list[str]:
    answer = by.get(f"/api/v1{path}")
    assert answer.status_code == 200, answer.json()
    return sorted(one[field] for one in answer.json()["results"])


def test_nodes_and_virtual_clusters_are_found_by_all_who_sign_in(people: dict[str, Caller]) -> None:
    for by in (people["olga"], people["ann"], people["eve"]):
        assert found(by, "/nodes?q=RACK1") == ["rack1-a", "rack1-b"]
        assert found(by, "/virtual-clusters?q=lab") == ["blue-lab", "red-lab"]
        assert found(by, "/nodes?q=nothing") == []


def test_tenants_are_found_by_name_and_title_among_those_that_the_viewer_may_see(
    people: dict[str, Caller],
) -> None:
    olga = people["olga"]
    assert olga.patch("/api/v1/tenants/red-team", {"title": "Computer vision"}).status_code == 200
    assert found(olga, "/tenants?q=team") == ["blue-team", "red-team"]
    assert found(olga, "/tenants?q=VISION") == ["red-team"]
    assert found(people["ann"], "/tenants?q=team") == ["red-team"]
    assert found(people["zoe"], "/tenants?q=vision") == []
    assert found(people["eve"], "/tenants?q=team") == []


def test_users_are_found_among_all_by_operators_and_among_members_of_their_tenants_by_others(
    people: dict[str, Caller],
) -> None:
    assert found(people["olga"], "/users?q=an", "username") == ["ann", "anton"]
    is_error(people["ann"].get("/api/v1/users?q=an"), 403, "not_allowed")
    assert found(people["ann"], "/tenants/red-team/members?q=AN", "username") == ["ann", "anton"]
    assert found(people["ann"], "/tenants/red-team/members?q=ant", "username") == ["anton"]
    is_error(people["zoe"].get("/api/v1/tenants/red-team/members?q=an"), 404, "not_found")


def test_a_page_of_what_is_found_leads_to_the_next(people: dict[str, Caller]) -> None:
    first: dict[str, Any] = people["ann"].get("/api/v1/nodes?q=rack&page_size=2").json()
    assert [one["name"] for one in first["results"]] == ["rack1-a", "rack1-b"]
    assert "q=rack" in first["next"]
    second = people["ann"].get(first["next"]).json()
    assert [one["name"] for one in second["results"]] == ["rack2-a"]
