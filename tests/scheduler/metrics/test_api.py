"""What nodes and jobs used, as pages and commands ask for it."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from scheduler.models import Attempt, Node, NodeMetrics, PartMetrics
from tests.api.caller import is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node
from tests.scheduler.conftest import World

HOST = [25.0, 2**33]


def read(node: Node, at: datetime, gpus: dict[int, float], attempt: Attempt | None = None) -> None:
    """A reading of devices that are so busy; of the attempt's rank 0 half of that in CPUs."""
    ranks = {"0": [gpus[min(gpus)] / 200, 2**30, 3, None]}
    NodeMetrics.objects.create(
        node=node,
        seconds=10,
        at=at,
        simulated=True,
        values={
            "host": HOST,
            "gpus": {str(index): [percent, 2**31, 150.0, None, None] for index, percent in gpus.items()},
            "parts": {str(attempt.id): ranks} if attempt else {},
        },
    )


def series_of(answer: dict, **wanted: object) -> list[list[float]]:
    (found,) = [
        one["points"] for one in answer["series"] if all(one[name] == value for name, value in wanted.items())
    ]
    return found


def running_job(world: World, now: datetime, **attempt: object) -> Attempt:
    job = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster, gpus=2, name="train")
    begun = {"starting_at": now - timedelta(minutes=5), "running_at": now - timedelta(minutes=5), **attempt}
    return make_attempt(job, gpus_of(world.node)[:2], **begun)


def test_a_jobs_figures_are_its_gpus_alone_and_say_that_they_are_made_up(world: World) -> None:
    now = timezone.now()
    attempt = running_job(world, now)
    for seconds_ago in range(200, 0, -10):
        # The first GPU works hard once; the third is another job's.
        busy = {0: 100.0 if seconds_ago == 100 else 0.0, 1: 10.0, 2: 99.0}
        read(world.node, now - timedelta(seconds=seconds_ago), busy, attempt)
    path = f"/jobs/{attempt.job_id}/metrics"
    together = world.viewer.get(path).json()
    assert together["simulated"] is True
    assert [one["number"] for one in together["attempts"]] == [1]
    points = series_of(together, kind="gpu", measure="utilisation_percent")
    # The mean does not hide who was idle and who was not.
    assert {(point[2], point[3]) for point in points} == {(0.0, 10.0), (10.0, 100.0)}
    assert sum(point[4] for point in points) == 40
    memory = series_of(together, kind="replica", measure="memory_used_bytes")
    assert {point[1] for point in memory} == {2**30}
    assert not [one for one in together["series"] if one["measure"] == "temperature_celsius"]

    by_gpu = world.viewer.get(f"{path}?by=gpu").json()
    assert {one["gpu"] for one in by_gpu["series"]} == {0, 1}
    assert series_of(by_gpu, gpu=1, measure="power_watts")[0][1] == 150.0
    by_rank = world.viewer.get(f"{path}?by=rank&rank=0").json()
    assert {(one["rank"], one["node"]) for one in by_rank["series"]} == {(0, "node-a")}
    assert world.viewer.get(f"{path}?rank=7").json()["series"] == []
    is_error(world.stranger.get(path), 404, "not_found")
    for query, field in (
        ("resolution=30", "resolution"),
        ("by=node", "by"),
        ("attempt=0", "attempt"),
        ("since=yesterday", "since"),
        ("since=2026-01-02T00:00Z&until=2026-01-01T00:00Z", "since"),
    ):
        body = is_error(world.member.get(f"{path}?{query}"), 400, "invalid")
        assert body["fields"][0]["field"] == field
    is_error(world.member.get(f"{path}?attempt=2"), 404, "not_found")


def test_a_long_time_has_no_more_points_than_a_short_one(world: World) -> None:
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    attempt = running_job(world, end, starting_at=end - timedelta(days=30))
    part = attempt.parts.get()
    values = {"gpus": {"0": [[90, 900.0, 0.0, 20.0]]}, "ranks": {}}
    PartMetrics.objects.bulk_create(
        PartMetrics(
            part=part,
            seconds=900,
            at=end - timedelta(minutes=15 * back),
            readings=90,
            simulated=False,
            values=values,
        )
        for back in range(1, 96 * 30)
    )
    answer = world.member.get(f"/jobs/{attempt.job_id}/metrics").json()
    points = series_of(answer, kind="gpu")
    assert 300 < len(points) <= 361
    assert answer["resolution_seconds"] == 9 * 900
    assert points[10][1:] == [10.0, 0.0, 20.0, 810.0]


def test_a_node_tells_of_its_machine_and_its_gpus(world: World) -> None:
    now = timezone.now()
    for seconds_ago in (40, 30, 20):
        read(world.node, now - timedelta(seconds=seconds_ago), {0: 10.0, 1: 30.0})
    answer = world.stranger.get("/nodes/node-a/metrics").json()
    assert series_of(answer, kind="host", measure="cpu_percent")[0][1:] == [25.0, 25.0, 25.0, 1]
    assert [point[1] for point in series_of(answer, gpu=1, measure="utilisation_percent")] == [30.0] * 3
    together = world.stranger.get("/nodes/node-a/metrics?by=node").json()
    assert series_of(together, kind="gpu", measure="utilisation_percent")[0][1:] == [20.0, 10.0, 30.0, 2]
    assert world.stranger.get("/nodes/node-a/metrics?until=2020-01-01T00:00Z").json()["series"] == []
    is_error(world.member.get("/nodes/none/metrics"), 404, "not_found")


def test_running_jobs_say_what_they_do_now(world: World) -> None:
    now = timezone.now()
    idle = running_job(world, now)
    for seconds_ago in range(60, 0, -10):
        read(world.node, now - timedelta(seconds=seconds_ago), {0: 1.0, 1: 0.0}, idle)
    other = make_node(gpus=2)
    silent = make_job(tenant=world.tenant, virtual_cluster=world.virtual_cluster)
    silent.shape["tasks"][0].append([500, 1_000, 0])
    silent.save()
    make_attempt(silent, gpus_of(other)[:1])
    theirs = make_job()
    make_attempt(theirs, gpus_of(make_node())[:1])
    newest, oldest = world.member.get("/jobs/usage").json()["results"]
    assert (newest["job"], newest["utilisation_percent"], newest["idle_seconds"]) == (silent.id, None, None)
    assert (newest["gpus"], oldest["gpus"]) == (0.5, 2)
    assert (oldest["utilisation_percent"], oldest["least_busy_percent"], oldest["power_watts"]) == (
        0.5,
        0,
        300,
    )
    assert oldest["idle_seconds"] == pytest.approx(60, abs=10)
    assert oldest["simulated"] is True
    assert len(world.operator.get("/jobs/usage").json()["results"]) == 3
    assert len(world.operator.get("/jobs/usage?tenant=vision").json()["results"]) == 2
    assert world.stranger.get("/jobs/usage").json()["results"] == []
