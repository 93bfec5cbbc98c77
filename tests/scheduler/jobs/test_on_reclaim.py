"""`on_reclaim` by the API: what a job says, what is refused, and what becomes of the job."""

from typing import Any

import pytest

from scheduler.models import Attempt, Job, Round
from scheduler.rounds.run import run_round
from tests.scheduler.builders import make_node, make_tenant, make_vc
from tests.scheduler.conftest import World, spec


@pytest.fixture
def contested(world: World) -> World:
    """The world, its virtual cluster served by priority, with another virtual cluster's idle node."""
    make_node("node-b", gpus=8)
    make_vc("products", members=[make_tenant("sales")], guaranteed={"V100": 8})
    world.virtual_cluster.policy = "priority"
    world.virtual_cluster.save()
    return world


def play() -> None:
    """Run a round, and let what it starts run."""
    assert Round.objects.get(number=run_round()).state == "applied"
    Attempt.objects.filter(state="starting").update(state="running")
    Job.objects.filter(attempts__state="running").update(state="running")


def displaced(world: World, **fields: Any) -> tuple[dict, dict]:
    """Return a job of all the guaranteed GPUs and a later one of higher priority, after a round with both."""
    first = world.member.post("/jobs", spec(name="first", gpus=8, **fields)).json()["id"]
    play()
    assert world.member.get(f"/jobs/{first}").json()["phase"] == "running"
    later = world.member.post("/jobs", spec(name="later", gpus=8, priority=5)).json()["id"]
    play()
    return tuple(world.member.get(f"/jobs/{job}").json() for job in (first, later))  # type: ignore[return-value]


def nodes_of(job: dict) -> list[str]:
    return [part["node"] for part in job["attempt"]["placement"]]


@pytest.mark.parametrize("fields", [{}, {"on_reclaim": "preempt"}])
def test_a_job_stops_for_a_higher_priority_of_its_virtual_cluster(contested: World, fields: dict) -> None:
    first, later = displaced(contested, **fields)
    assert first["spec"]["on_reclaim"] == fields.get("on_reclaim")
    assert (first["phase"], first["attempt"]["stop_cause"]) == ("stopping", "preempted")
    assert later["phase"] == "running"


def test_downgraded_it_runs_on_and_the_other_starts_elsewhere(contested: World) -> None:
    first, later = displaced(contested, on_reclaim="downgrade")
    assert first["spec"]["on_reclaim"] == "downgrade"
    assert (first["phase"], first["guarantee_lapsed"], first["attempt"]["stop_cause"]) == (
        "running",
        True,
        "",
    )
    assert (later["phase"], later["guarantee_lapsed"]) == ("running", False)
    assert {*nodes_of(first), *nodes_of(later)} == {"node-a", "node-b"}
    (event,) = contested.member.get(f"/events?job={first['id']}&kind=guarantee.lapsed").json()["results"]
    assert event["data"]["cause"] == "downgraded"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"on_reclaim": "downgrad"}, "'downgrad' is not known (did you mean \"downgrade\"?)"),
        (
            {"on_reclaim": "downgrade", "guarantee": "opportunistic"},
            "an opportunistic job has no guarantee that could be taken",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(world: World, fields: dict, problem: str) -> None:
    answer = world.member.post("/jobs", spec(**fields))
    assert answer.status_code == 400
    (wrong,) = answer.json()["fields"]
    assert (wrong["field"], wrong["problem"]) == ("on_reclaim", problem)
