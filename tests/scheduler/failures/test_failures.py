"""Attempts that failed, as their owners and operators find them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.core.failures.taxonomy import CLASSES
from scheduler.models import Attempt
from tests.api.caller import Caller, caller, is_error
from tests.scheduler.builders import gpus_of, make_failed_attempt, make_job, make_node, make_tenant, make_user
from tests.scheduler.conftest import World, world

pytestmark = pytest.mark.django_db

__all__ = ["world"]

NOW = timezone.now().replace(microsecond=0)


def listed(by: Caller, query: str = "") -> list[str]:
    answer = by.get(f"/failures?{query}")
    assert answer.status_code == 200, answer.content
    return [each["message"] for each in answer.json()["results"]]


@pytest.fixture
def failed(world: World) -> dict[str, Attempt]:
    """Three failures of the tenant's jobs and one of another's; the one that began first ended last."""
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, name="bert", replicas=2)
    other_node = make_node("far", gpus=2)
    made = {}
    for name, hours, failure, node in (
        ("late", 1, "import_error", world.node),
        ("early", 30, "import_error", other_node),
        ("middle", 2, "gpu_out_of_memory", world.node),
    ):
        made[name] = make_failed_attempt(
            job,
            gpus_of(node)[:2],
            ended_at=NOW - timedelta(hours=hours),
            failure=failure,
            message=f"Rank 1: {name}",
        )
    stranger = make_job(tenant=make_tenant("stranger"))
    made["other"] = make_failed_attempt(
        stranger, gpus_of(world.node)[2:3], ended_at=NOW, message="other", failure="semantic_error"
    )
    return made


def test_failures_by_their_ends_under_each_filter(world: World, failed: dict[str, Attempt]) -> None:
    lines = ["Rank 1: late", "Rank 1: middle", "Rank 1: early"]
    assert listed(world.viewer) == lines
    assert listed(world.viewer, "failure=import_error") == [lines[0], lines[2]]
    assert listed(world.viewer, "node=far") == [lines[2]]
    assert listed(world.viewer, f"tenant={world.tenant.name}") == lines
    assert listed(world.viewer, f"job={failed['late'].job_id}&failure=gpu_out_of_memory") == [lines[1]]
    day = (NOW - timedelta(days=1)).isoformat().replace("+00:00", "Z")
    assert listed(world.viewer, f"since={day}") == lines[:2]
    assert listed(world.viewer, f"until={day}") == lines[2:]
    is_error(world.viewer.get("/failures?class=import_error"), 400, "invalid")


def test_members_see_their_tenants_failures_and_operators_all(
    world: World, failed: dict[str, Attempt]
) -> None:
    assert "other" not in listed(world.viewer)
    assert listed(world.viewer, "tenant=stranger") == []
    operator = caller(make_user(operator=True))
    assert listed(operator)[0] == "other"
    assert len(listed(operator)) == 4
    assert listed(caller(make_user())) == []


def test_what_a_failure_says(world: World, failed: dict[str, Attempt]) -> None:
    (told, *_) = world.viewer.get("/failures").json()["results"]
    assert {name: told[name] for name in ("job_name", "attempt", "failure", "layer", "rank", "nodes")} == {
        "job_name": "bert",
        "attempt": 1,
        "failure": "import_error",
        "layer": "user",
        "rank": 1,
        "nodes": [world.node.name],
    }
    assert told["says"] == "a module is missing"
    assert told["advice"].startswith("Install the module")
    Attempt.objects.filter(id=failed["late"].id).update(
        matched_rule={
            "name": "scratch-full", "severity": "error", "advice": "Clean up.", "class": "scratch",
            "layer": "platform", "words": "scratch is full", "elsewhere": False,
        }
    )  # fmt: skip
    (told, *_) = world.viewer.get("/failures").json()["results"]
    assert (told["failure"], told["says"], told["rule"], told["advice"]) == (
        "scratch",
        "scratch is full",
        "scratch-full",
        "Clean up.",
    )


def test_pages_of_failures_that_ended_at_the_same_instant(world: World) -> None:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    for number in range(5):
        make_failed_attempt(job, gpus_of(world.node)[:1], ended_at=NOW, message=str(number))
    path, seen = "/failures?page_size=2", []
    while path:
        page = world.viewer.get(path).json()
        seen += [each["message"] for each in page["results"]]
        back, path = page["previous"], page["next"]
    assert seen == ["4", "3", "2", "1", "0"]
    assert [each["message"] for each in world.viewer.get(back).json()["results"]] == ["2", "1"]
    is_error(world.viewer.get(f"/failures?cursor=after.{NOW:%Y-%m-%d}"), 400, "invalid")


def test_each_built_in_class_has_advice() -> None:
    assert [name for name, failure in CLASSES.items() if not failure.advice] == []
