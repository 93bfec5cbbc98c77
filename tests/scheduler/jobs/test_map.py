"""GET /map/nodes and /map/jobs: what the map shows is what the whole objects say, and to whom."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.model.lifecycle import AttemptState, HoldPhase, JobState, Outcome
from scheduler.models import Allocation, MaintenanceWindow, Node, QueueOrder, ServingPool
from tests.api.caller import Caller, is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant
from tests.scheduler.conftest import World

pytestmark = pytest.mark.django_db

ENDED = {"state": AttemptState.ENDED, "phase": HoldPhase.RELEASED, "outcome": Outcome.PREEMPTED}


def listed(who: Caller, path: str) -> list[dict[str, Any]]:
    answer = who.get(path)
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def of_the_whole(whole: Any, part: Any) -> Any:
    """Return what a whole object says of what is in `part`, in its form."""
    if isinstance(part, dict):
        return {name: of_the_whole(whole[name], value) for name, value in part.items()}
    if isinstance(part, list):
        return [of_the_whole(*each) for each in zip(whole, part, strict=True)]
    # The database leaves out the last zeros of a second.
    return part if is_same_instant(whole, part) else whole


def is_same_instant(one: Any, other: Any) -> bool:
    try:
        return datetime.fromisoformat(one) == datetime.fromisoformat(other)
    except (TypeError, ValueError):
        return False


def test_nodes_are_shown_as_the_whole_nodes_are(world: World):
    broken, shared, next_up, *_ = gpus_of(world.node)
    broken.healthy, broken.problem = False, "fell off the bus"
    broken.save()
    for request in (300, 450):
        make_attempt(
            make_job(tenant=world.tenant), [shared], part=GpuPart(request=request, limit=500, memory_bytes=0)
        )
    make_attempt(make_job(tenant=world.tenant), [next_up])
    gone = gpus_of(world.node)[-1]
    gone.present = False
    gone.save()
    pool = ServingPool.objects.create(name="chat")
    make_node("node-b", gpus=1, serving_pool=pool, loan_state="lent")
    make_node("node-c", gpus=1, state="lost", cordoned=True)
    idle = make_node("node-d", gpus=2, cordoned=True, draining=True)
    busy = make_node("node-e", gpus=1, cordoned=True, draining=True)
    for name, begins, state in (("later", 5, "announced"), ("now", -1, "open"), ("past", -9, "over")):
        MaintenanceWindow.objects.create(
            reason=name,
            made_at=timezone.now(),
            nodes=["node-c"],
            state=state,
            starts_at=timezone.now() + timedelta(hours=begins),
            ends_at=timezone.now() + timedelta(hours=begins + 1),
        )
    # It holds no GPU, and takes CPUs all the same.
    without = make_attempt(make_job(tenant=world.tenant), gpus_of(busy))
    without.allocation.gpus.all().delete()
    Allocation.objects.filter(id=without.allocation_id).update(nodes=[busy.id])

    rows = listed(world.stranger, "/map/nodes")
    assert rows == of_the_whole(listed(world.stranger, "/nodes"), rows)
    by_name = {row["name"]: row for row in rows}
    assert [gpu["in_use"] for gpu in by_name["node-a"]["gpus"]] == [0, 0.75, 1, 0, 0, 0, 0]
    assert by_name["node-c"]["maintenance"] == {"state": "open"}
    assert by_name["node-b"]["loan"] == {"state": "lent"}
    assert [by_name[node.name]["drained"] for node in (idle, busy)] == [True, False]


def test_jobs_are_shown_as_the_whole_jobs_are(world: World):
    first, second, third, fourth, *_ = gpus_of(world.node)
    part = GpuPart(request=250, limit=500, memory_bytes=0)
    running = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=2)
    make_attempt(running, [first, second], **ENDED)
    make_attempt(running, [first, second])
    # It moves: what it runs on comes before what it will run on.
    make_attempt(running, [third, fourth], state=AttemptState.PLANNED, phase=HoldPhase.NOMINATED)
    spare = make_job(tenant=world.tenant, guaranteed=False)
    with_part = make_attempt(spare, [third], part=part)
    (there,) = with_part.parts.all()
    there.replicas[0]["part"] = 0.25
    there.save()
    first_in_line, second_in_line = (
        make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, columns={"held": held})
        for held in (False, True)
    )
    order = [second_in_line.id, first_in_line.id]
    QueueOrder.objects.create(view="research", jobs=order, round_number=1)
    QueueOrder.objects.create(view="spare", jobs=[first_in_line.id], round_number=1)
    make_job(tenant=world.tenant, state=JobState.SUCCEEDED)

    rows = listed(world.viewer, "/map/jobs")
    whole = listed(world.viewer, "/jobs?state=queued,running")
    assert rows == of_the_whole(whole, rows)
    assert [row["position"] for row in rows] == [1, 2, None, None]
    assert [[gpu.get("part") for gpu in row["attempt"]["placement"][0]["gpus"]] for row in rows[2:]] == [
        [0.25],
        [None, None],
    ]


def test_an_attempt_that_has_ended_holds_nothing(world: World):
    job = make_job(tenant=world.tenant)
    make_attempt(job, gpus_of(world.node)[:1], **ENDED)
    assert listed(world.operator, "/map/jobs")[0]["attempt"] is None


def test_a_job_of_another_tenant_does_not_leak(world: World):
    job = make_job(tenant=world.tenant, name="secret-plan", state=JobState.RUNNING)
    make_attempt(job, gpus_of(world.node)[:1])
    for who in (world.member, world.viewer, world.operator):
        assert [row["id"] for row in listed(who, "/map/jobs")] == [job.id]
    assert listed(world.stranger, "/map/jobs") == []
    # That a GPU is in use is everybody's to know, by whom is not.
    shown = world.stranger.get("/map/nodes").content.decode()
    assert '"held"' in shown
    assert "secret-plan" not in shown
    assert "vision" not in shown


def test_pages_lead_to_every_row_once(world: World):
    nodes = [make_node(f"more-{number}", gpus=1) for number in range(4)]
    jobs = [make_job(tenant=world.tenant) for _ in range(5)]
    for path, named, expected in (
        ("/map/nodes?page_size=2", "name", sorted(["node-a", *(node.name for node in nodes)])),
        ("/map/jobs?page_size=2", "id", sorted((job.id for job in jobs), reverse=True)),
    ):
        found: list[Any] = []
        while path:
            page = world.operator.get(path).json()
            assert len(page["results"]) <= 2
            found += [row[named] for row in page["results"]]
            path = page["next"]
        assert found == expected


@pytest.mark.parametrize("path", ["/map/nodes", "/map/jobs"])
def test_a_page_is_bounded_and_costs_a_fixed_number_of_queries(world: World, path: str) -> None:
    make_job(tenant=make_tenant("third"))
    is_error(world.operator.get(f"{path}?page_size=2001"), 400, "invalid")
    few = count_of_queries(world, path)
    for _ in range(20):
        make_node(gpus=1)
        make_attempt(make_job(tenant=world.tenant), [gpus_of(Node.objects.order_by("-id")[0])[0]])
    assert count_of_queries(world, path) == few


def count_of_queries(world: World, path: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        listed(world.operator, path)
    return len(captured)
