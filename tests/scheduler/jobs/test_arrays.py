"""Arrays: many jobs of one specification, told apart by their index."""

import pytest
from django.utils import timezone

from scheduler.agents.services.desired import desired_parts
from scheduler.core.model.awaited import Awaited
from scheduler.core.round.decide import decide
from scheduler.jobs.services.dependencies import dependencies_settle
from scheduler.models import Job
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from tests.api.caller import is_error
from tests.scheduler.conftest import World, spec

pytestmark = pytest.mark.django_db


def submit(world: World, indices: str, **fields: object) -> list[Job]:
    answer = world.member.post("/jobs", spec(array={"indices": indices}, **fields))
    assert answer.status_code == 201, answer.content
    first = answer.json()
    assert first["array"]["number"] == first["id"]
    return list(Job.objects.filter(array_id=first["id"]).order_by("id"))


def end(jobs: list[Job], state: str) -> None:
    Job.objects.filter(id__in=[job.id for job in jobs]).update(state=state, ended_at=timezone.now())


def test_each_index_is_a_job_that_names_only_its_own(world: World) -> None:
    tasks = submit(world, "0-6:3,9%2")
    assert [task.array for task in tasks] == [
        {"index": index, "size": 4, "at_most": 2} for index in (0, 3, 6, 9)
    ]
    assert [task.spec["array"] for task in tasks][-1] == {"indices": "9", "at_most": None}
    shown = world.member.get(f"/jobs/{tasks[1].id}").json()
    assert shown["array"] == {"number": tasks[0].id, "index": 3, "size": 4, "at_most": 2}
    # As a script of its own it is run for this index alone.
    again = world.member.post("/jobs", shown["spec"])
    assert again.status_code == 201, again.content
    assert again.json()["array"]["size"] == 1


def test_an_array_is_seen_as_one_line_or_by_its_tasks(world: World) -> None:
    alone = world.member.post("/jobs", spec()).json()["id"]
    tasks = submit(world, "0-3")
    end(tasks[:1], "succeeded")

    def ids(query: str) -> list[int]:
        return [job["id"] for job in world.member.get(f"/jobs?{query}").json()["results"]]

    assert ids("fold=true") == [tasks[0].id, alone]
    assert ids("fold=true&state=queued") == [tasks[1].id, alone]
    assert ids(f"array={tasks[0].id}") == [task.id for task in reversed(tasks)]
    counted = world.member.get(f"/jobs/counts?array={tasks[0].id}").json()
    assert (counted["queued"], counted["succeeded"]) == (3, 1)
    answer = world.member.post("/jobs/actions", {"action": "cancel", "filter": {"array": str(tasks[0].id)}})
    assert answer.json()["jobs"] == 3
    assert set(Job.objects.filter(array_id=tasks[0].id, state="cancelled")) == set(tasks[1:])


def test_at_most_so_many_run_at_once(world: World) -> None:
    tasks = submit(world, "0-4%2")
    run_round()
    assert [task.attempts.count() for task in tasks] == [1, 1, 0, 0, 0]
    facts = read_snapshot(1)
    (reason,) = decide(facts).reasons[facts.jobs[2].id]
    assert (reason.code, reason.blocking) == ("array_limit", {"array": tasks[0].id})
    run_round()
    assert [task.attempts.count() for task in tasks] == [1, 1, 0, 0, 0]


def test_its_processes_find_their_index(world: World) -> None:
    tasks = submit(world, "7,8%1")
    run_round()
    (desired,) = desired_parts(tasks[0].attempts.get().parts.get().node)
    assert desired.replicas[0].env == {
        "ALLOT_ARRAY_INDEX": "7", "ALLOT_ARRAY": str(tasks[0].id), "ALLOT_ARRAY_SIZE": "2",
    }  # fmt: skip


def test_a_job_may_wait_for_a_whole_array(world: World) -> None:
    tasks = submit(world, "0-2")
    number = tasks[0].id
    after = world.member.post("/jobs", spec(after=[number])).json()["id"]
    failing = world.member.post("/jobs", spec(after=[f"failed:{number}"])).json()["id"]
    end(tasks[2:], "succeeded")
    end(tasks[:1], "succeeded")
    dependencies_settle()
    waiting = {job.id: job.awaits for job in read_snapshot(1).jobs if job.awaits}
    assert waiting[after] == (Awaited(job=tasks[1].id, when="succeeded", array=number),)
    (reason,) = decide(read_snapshot(1)).reasons[after]
    assert reason.message == f"It starts when all of array {number} have succeeded."
    end(tasks[1:2], "failed")
    dependencies_settle()
    states = dict(Job.objects.values_list("id", "state"))
    assert (states[after], states[failing]) == ("cancelled", "queued")
    said = f"It waited for all of array {number} to succeed, which cannot happen any more."
    assert Job.objects.get(id=after).message == said
    assert not any(job.awaits for job in read_snapshot(1).jobs)
    problem = is_error(world.member.post("/jobs", spec(after=[number])), 400, "invalid")["fields"][0][
        "problem"
    ]
    assert problem.startswith(f"of array {number} ")


@pytest.mark.parametrize(
    ("array", "field"),
    [
        ({"indices": "0-1000"}, "array.indices"),
        ({"indices": "5-1"}, "array.indices"),
        ({"indices": "a"}, "array.indices"),
        ({"indices": "0-4%0"}, "array.indices"),
        ({"indices": "0-4", "at_most": 0}, "array.at_most"),
        ({"indices": "0-4%2", "at_most": 2}, "array.at_most"),
        ({}, "array.indices"),
    ],
)
def test_what_is_no_array_is_refused(world: World, array: dict[str, object], field: str) -> None:
    body = is_error(world.member.post("/jobs", spec(array=array)), 400, "invalid")
    assert [one["field"] for one in body["fields"]] == [field]
    assert not Job.objects.exists()


def test_arrays_of_one_request_are_limited_together(world: World) -> None:
    jobs = [spec(array={"indices": "0-499"}), spec(array={"indices": "0-500"})]
    body = is_error(world.member.post("/jobs/bulk", {"jobs": jobs}), 400, "invalid")
    assert body["fields"][0]["problem"] == "there are 1,001 with the tasks of arrays"
    jobs[1] = spec(array={"indices": "0-499"})
    assert len(world.member.post("/jobs/bulk", {"jobs": jobs}).json()["jobs"]) == 1_000
    assert Job.objects.values("array_id").distinct().count() == 2
