"""Changing jobs that were submitted already: what, by whom, and until when."""

from typing import Any

import pytest

from scheduler.models import Event, Job
from scheduler.rounds.snapshot import read_snapshot
from tenants.models import AuditEntry
from tests.api.caller import is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_node, make_vc
from tests.scheduler.conftest import World, spec

pytestmark = pytest.mark.django_db


def submit(world: World, **fields: object) -> int:
    return int(world.member.post("/jobs", spec(**fields)).json()["id"])


def test_a_waiting_job_becomes_what_it_might_have_been(world: World) -> None:
    make_vc("other-vc", members=[world.tenant], guaranteed={"V100": 8})
    job_id = submit(world, virtual_cluster="research", time_limit="2h", labels={"a": "1"})
    changes = {
        "priority": 7,
        "time_limit": "30m",
        "virtual_cluster": "other-vc",
        "guarantee": "opportunistic",
        "name": "renamed",
        "description": "more haste",
        "labels": {"b": "2"},
    }
    answer = world.member.patch(f"/jobs/{job_id}", changes)
    assert answer.status_code == 200, answer.content
    shown = answer.json()
    written = changes | {"time_limit": 1800}
    assert {name: shown["spec"][name] for name in changes} == written
    assert {name: shown[name] for name in changes if name in shown} == {
        name: value for name, value in written.items() if name in shown
    }
    assert shown["version"] == 2
    (job,) = read_snapshot(1).jobs
    assert (job.priority, job.time_limit_seconds, job.virtual_cluster) == (7, 1800.0, "other-vc")
    assert not job.guaranteed
    told = Event.objects.get(job_id=job_id, kind="job.changed")
    assert told.actor == "user mia"
    assert "priority: 0 -> 7" in told.message
    assert "time_limit: 120 min -> 30 min" in told.message
    assert told.data["labels"] == [{"a": "1"}, {"b": "2"}]
    # null is the default again; what is so already changes nothing.
    assert world.member.patch(f"/jobs/{job_id}", {"time_limit": None}).json()["spec"]["time_limit"] is None
    assert world.member.patch(f"/jobs/{job_id}", {"time_limit": None}).json()["version"] == 3


def test_a_job_that_names_a_node_which_is_gone_can_be_changed(world: World) -> None:
    gone = make_node("gone", gpus=1)
    job_id, other = submit(world, nodes={"avoid": ["gone"]}), submit(world)
    gone.delete()
    assert world.member.patch(f"/jobs/{job_id}", {"time_limit": "1h"}).status_code == 200
    body = {"action": "update", "filter": {"state": "queued"}, "priority": 5}
    assert world.member.post("/jobs/actions", body).json()["jobs"] == 2
    assert dict(Job.objects.values_list("id", "priority")) == {job_id: 5, other: 5}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"priority": 101}, "priority"),
        ({"time_limit": "soon"}, "time_limit"),
        ({"virtual_cluster": "nowhere"}, "virtual_cluster"),
        ({"tasks": []}, "tasks"),
        ({"after": [1]}, "after"),
        ({}, "body"),
        ({"name": ""}, "name"),
    ],
)
def test_what_is_wrong_is_told_by_its_field(world: World, changes: dict[str, Any], field: str) -> None:
    job_id = submit(world)
    body = is_error(world.member.patch(f"/jobs/{job_id}", changes), 400, "invalid")
    assert [one["field"] for one in body["fields"]] == [field]
    assert Job.objects.get(id=job_id).version == 1


def test_while_it_has_gpus_only_some_fields_change(world: World) -> None:
    job_id = submit(world, time_limit="2h")
    make_attempt(Job.objects.get(id=job_id), gpus_of(world.node)[:1])
    path = f"/jobs/{job_id}"
    body = is_error(world.member.patch(path, {"guarantee": "opportunistic"}), 409, "conflict")
    assert body["fields"][0]["field"] == "guarantee"
    is_error(world.member.patch(path, {"time_limit": "3h"}), 409, "conflict")
    is_error(world.member.patch(path, {"time_limit": None}), 409, "conflict")
    assert world.member.patch(path, {"time_limit": "1h", "priority": -5}).status_code == 200
    assert world.operator.patch(path, {"time_limit": "4h"}).status_code == 200
    Job.objects.filter(id=job_id).update(cancelling=True)
    is_error(world.member.patch(path, {"priority": 1}), 409, "conflict")


def test_only_who_may_submit_changes_jobs(world: World) -> None:
    job_id = submit(world)
    is_error(world.viewer.patch(f"/jobs/{job_id}", {"priority": 1}), 403, "not_allowed")
    is_error(world.stranger.patch(f"/jobs/{job_id}", {"priority": 1}), 404, "not_found")
    world.member.post(f"/jobs/{job_id}/cancel")
    is_error(world.member.patch(f"/jobs/{job_id}", {"priority": 1}), 409, "conflict")


def test_what_it_waits_for_stays_though_it_can_not_happen_any_more(world: World) -> None:
    first = submit(world)
    second = submit(world, after=[first], on_unmet="wait")
    world.member.post(f"/jobs/{first}/cancel")
    assert world.member.patch(f"/jobs/{second}", {"priority": 3}).status_code == 200
    assert Job.objects.get(id=second).spec["after"] == [{"job": first, "when": "succeeded"}]


def test_the_audit_log_tells_who_changed_it(world: World) -> None:
    job_id = submit(world)
    world.member.patch(f"/jobs/{job_id}", {"priority": 9})
    entry = AuditEntry.objects.get(action="job.change")
    assert (entry.object_id, entry.before, entry.after) == (str(job_id), {"priority": 0}, {"priority": 9})
