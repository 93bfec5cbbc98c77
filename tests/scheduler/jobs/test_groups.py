"""Jobs in groups: what is counted, for whom, page by page, and at what cost."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from tests.api.caller import is_error
from tests.scheduler.builders import make_job, make_tenant
from tests.scheduler.conftest import World, spec


def groups(caller, query: str) -> dict[str | None, dict]:
    answer = caller.get(f"/jobs/groups?{query}")
    assert answer.status_code == 200, answer.content
    return {group["key"]: group for group in answer.json()["results"]}


def counts(group: dict) -> dict[str, int]:
    return {state: group[state] for state in JobState if group[state]}


def test_an_array_is_a_group_and_what_is_in_none_another(world: World) -> None:
    first = world.member.post("/jobs", spec(name="sweep", gpus=2, array={"indices": "0-4"})).json()
    tasks = Job.objects.filter(array_id=first["id"])
    tasks.filter(id__gt=first["id"] + 2).update(state="running")
    alone = make_job(tenant=world.tenant, name="alone")
    found = groups(world.member, "by=array")
    assert list(found) == [None, str(first["id"])]
    sweep = found[str(first["id"])]
    assert (sweep["name"], sweep["jobs"], sweep["gpus"], sweep["gpus_running"]) == ("sweep", 5, 10, 4)
    assert counts(sweep) == {"queued": 3, "running": 2}
    assert sweep["first_submitted_at"] == first["submitted_at"]
    assert (found[None]["jobs"], found[None]["name"]) == (1, alone.name)


def test_by_user_tenant_and_label(world: World) -> None:
    for team, state in (("a", "running"), ("a", "queued"), ("b", "queued"), (None, "queued")):
        job = make_job(tenant=world.tenant, state=JobState(state))
        Job.objects.filter(id=job.id).update(labels={"team": team, "x": "y"} if team else {})
    by_label = groups(world.member, "by=label:team")
    assert {key: counts(group) for key, group in by_label.items()} == {
        None: {"queued": 1},
        "b": {"queued": 1},
        "a": {"queued": 1, "running": 1},
    }
    assert list(by_label) == [None, "b", "a"]
    (by_tenant,) = groups(world.viewer, "by=tenant").values()
    assert (by_tenant["key"], by_tenant["jobs"]) == ("vision", 4)
    assert sum(group["jobs"] for group in groups(world.member, "by=user").values()) == 4


def test_a_name_of_a_label_is_no_path_into_it(world: World) -> None:
    job = make_job(tenant=world.tenant)
    Job.objects.filter(id=job.id).update(labels={"a__b": "one", "0": "two", "o'clock": "three"})
    for name, value in (("a__b", "one"), ("0", "two"), ("o'clock", "three")):
        assert list(groups(world.member, f"by=label:{name}")) == [value]


def test_nobody_counts_jobs_that_he_may_not_see(world: World) -> None:
    make_job(tenant=world.tenant)
    make_job(tenant=make_tenant("secretive"))
    assert list(groups(world.member, "by=tenant")) == ["vision"]
    assert groups(world.stranger, "by=tenant") == {}
    assert set(groups(world.operator, "by=tenant")) == {"vision", "secretive"}


def test_the_filters_of_the_list_hold(world: World) -> None:
    make_job(tenant=world.tenant, name="alpha", state=JobState.RUNNING)
    make_job(tenant=world.tenant, name="beta")
    (found,) = groups(world.member, "by=tenant&state=running").values()
    assert (found["jobs"], found["name"]) == (1, "alpha")
    assert groups(world.member, "by=tenant&q=none") == {}


def test_pages_go_on_where_the_last_one_ended_in_one_statement_each(world: World) -> None:
    for number in range(23):
        job = make_job(tenant=world.tenant)
        Job.objects.filter(id=job.id).update(labels={"run": f"{number % 12:02}"})
    seen, path = [], "/jobs/groups?by=label:run&page_size=5"
    while path:
        with CaptureQueriesContext(
            connection,
        ) as asked:
            page = world.member.get(path).json()
        assert sum("GROUP BY" in query["sql"] for query in asked) == 1
        assert sum('"scheduler_job"' in query["sql"] for query in asked) == 1
        seen += [group["key"] for group in page["results"]]
        path = page["next"]
    # The last of twelve was submitted once less.
    assert seen == [f"{number:02}" for number in (10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11)]
    back = world.member.get(page["previous"]).json()
    assert [group["key"] for group in back["results"]] == seen[5:10]


@pytest.mark.parametrize("by", ["", "state", "label", "label:", f"label:{'x' * 64}", "array,user"])
def test_what_jobs_are_not_grouped_by_is_named(world: World, by: str) -> None:
    told = is_error(world.member.get(f"/jobs/groups?by={by}"), 400, "invalid")
    assert [field["field"] for field in told["fields"]] == ["by"]
    assert told["fields"][0]["expected"] == "array, user, tenant or label:NAME"
    is_error(world.member.get("/jobs/groups"), 400, "invalid")
    is_error(world.member.get("/jobs/groups?by=user&sort=name"), 400, "invalid")
