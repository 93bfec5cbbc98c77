"""Templates of a tenant: who finds them, who may change them, and that each could be submitted."""

from typing import Any

import pytest

from scheduler.jobs import templates
from scheduler.models.jobs import JobTemplate
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import make_member
from tests.scheduler.conftest import World

pytestmark = pytest.mark.django_db

SPEC = {"name": "resnet", "tasks": [{"name": "train", "resources": {"gpu": 1}, "command": ["true"]}]}
AT = "/tenants/vision/templates"


def keep(by: Caller, name: str, spec: Any = SPEC, **fields: Any) -> Any:
    return by.put(f"{AT}/{name}", {"spec": spec, **fields})


def names(by: Caller) -> list[str]:
    return [each["name"] for each in by.get(AT).json()["results"]]


def test_a_template_is_found_by_the_tenant_as_it_was_written(world: World) -> None:
    made = keep(world.member, "resnet", summary="Start here.")
    assert made.status_code == 201, made.content
    assert made.json()["owner"] == "mia"
    assert (names(world.member), names(world.viewer)) == (["resnet"], ["resnet"])
    assert "spec" not in world.viewer.get(AT).json()["results"][0]
    read = world.viewer.get(f"{AT}/resnet").json()
    assert (read["spec"], read["summary"], read["may_change"]) == (SPEC, "Start here.", False)
    is_error(world.stranger.get(AT), 404, "not_found")
    is_error(world.stranger.get(f"{AT}/resnet"), 404, "not_found")
    is_error(world.member.get(f"{AT}/vgg"), 404, "not_found")


def test_its_author_and_admins_change_it_and_others_make_their_own(world: World) -> None:
    admin = caller(make_member(world.tenant, "ada", role="admin"))
    other = caller(make_member(world.tenant, "otto"))
    keep(world.member, "resnet")
    for by in (other, world.viewer):
        is_error(keep(by, "resnet"), 403, "not_allowed")
        is_error(by.delete(f"{AT}/resnet"), 403, "not_allowed")
    is_error(keep(world.viewer, "vgg"), 403, "not_allowed")
    assert keep(other, "vgg").status_code == 201
    assert keep(world.member, "resnet", summary="Mine.").status_code == 200
    assert keep(admin, "resnet", summary="Checked.").json()["owner"] == "mia"
    assert admin.delete(f"{AT}/vgg").status_code == 204
    assert world.member.delete(f"{AT}/resnet").status_code == 204
    assert names(world.member) == []


def test_the_second_of_two_who_change_one_is_refused(world: World) -> None:
    keep(world.member, "resnet")
    etag = world.member.get(f"{AT}/resnet")["ETag"]
    keep(world.member, "resnet", summary="Another.")
    changed = world.member.put(f"{AT}/resnet", {"spec": SPEC}, headers={"If-Match": etag})
    is_error(changed, 412, "outdated")
    assert JobTemplate.objects.get().summary == "Another."


def test_there_are_only_so_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST", 1)
    keep(world.member, "first")
    is_error(keep(world.member, "second"), 409, "conflict")
    assert keep(world.member, "first").status_code == 200


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("a", {}, "spec"),
        ("a", {"spec": {**SPEC, "tasks": []}}, "spec.tasks"),
        ("a", {"spec": {**SPEC, "gpu": 1}}, "spec.gpu"),
        ("a", {"spec": {**SPEC, "labels": {"k": "v" * 100_000}}}, "spec"),
        ("a", {"spec": SPEC, "summary": "x" * 201}, "summary"),
        ("a", {"spec": SPEC, "owner": "vic"}, "owner"),
        ("-a", {"spec": SPEC}, "name"),
        ("x" * 64, {"spec": SPEC}, "name"),
    ],
)
def test_what_could_not_be_submitted_is_refused(
    world: World, name: str, body: dict[str, Any], field: str
) -> None:
    answer = world.member.put(f"{AT}/{name}", body)
    assert is_error(answer, 400, "invalid")["fields"][0]["field"] == field
    assert not JobTemplate.objects.exists()
