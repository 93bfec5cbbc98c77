"""`GET /jobs/ID/scaling` and `allot scaling`: which GPUs a job had, its batch, and what more would do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from allot import schema
from allot.client import Client
from scheduler.core.goodput.throughput import Parameters, gradient_seconds, iteration_seconds
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.jobs.attempts.services.progress import fit_due
from scheduler.jobs.attempts.services.scaling_facts import ALLOCATIONS_MOST
from scheduler.models import Allocation, Attempt, Job, JobScaling
from scheduler.models.events import Event
from scheduler.wiring.clock import database_now
from tests.allot.in_process import Allot, signed_in
from tests.api.caller import make_token
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_job,
    make_member,
    make_node,
    make_tenant,
    make_vc,
)

#: What the job is really like, on nodes of four GPUs.
TRUTH = Parameters(0.1, 0.01, 0.4, 0.05, 0.2, 0.02, 1.0)


@pytest.fixture
def job(live_server: Any, redis_url: str) -> Job:
    """An adaptive job that ran on one GPU, and runs on two."""
    node = make_node("v100-1", gpus=4)
    vision = make_tenant("vision")
    made = make_job(
        tenant=vision, virtual_cluster=make_vc("shared", members=[vision], guaranteed={"V100": 4}), replicas=2
    )
    made.shape |= {"min_gpus": 1, "max_gpus": 8, "elastic_mode": "adaptive"}
    made.save()
    now = database_now()
    made.spec["tasks"][0]["replicas"] = 1
    first = make_attempt(made, gpus_of(node)[:1])
    made.spec["tasks"][0]["replicas"] = 2
    Attempt.objects.filter(id=first.id).update(
        state="ended", outcome="preempted", ended_at=now - timedelta(minutes=1)
    )
    second = make_attempt(made, gpus_of(node)[1:3])
    Allocation.objects.filter(id=first.allocation_id).update(held_at=now - timedelta(minutes=5))
    Event.objects.create(
        at=now,
        kind="job.resized",
        subject="job",
        subject_id=made.id,
        job_id=made.id,
        tenant=vision,
        message="Resized from 1 to 2 GPUs: there were idle GPUs for it.",
        data={"gpus_before": 1, "gpus": 2, "attempt": second.number},
    )
    times = [
        [
            "V100",
            1,
            replicas,
            local_batch,
            0,
            float(gradient_seconds(TRUTH, local_batch)),
            float(iteration_seconds(TRUTH, 1, replicas, local_batch)),
            100.0,
        ]
        for replicas, local_batch in ((1, 64), (2, 32), (2, 64))
    ]
    JobScaling.objects.create(
        job=made,
        attempt=second.id,
        sequence=9,
        limits=[64, 1024, 8, 128],
        batch=[128, 64, 0, 1.5],
        noise=[1.0, 4.0],
        times=times,
        most_replicas=2,
        is_fit_due=True,
    )
    fit_due()
    return made


@pytest.fixture
def token(job: Job) -> str:
    return make_token(make_member(job.tenant, "vera"))


@pytest.fixture
def allot(token: str, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> Allot:
    return signed_in(monkeypatch, str(live_server.url), token)


def test_what_a_job_had_has_and_could_do(job: Job, token: str, live_server: Any) -> None:
    with Client(str(live_server.url), token=token) as client:
        found = client.throughputs.scaling_of_job(job.id)
    msgspec.convert(found, schema.JobScaling, strict=True)
    assert (found["mode"], found["min_gpus"], found["gpus"], found["max_gpus"]) == ("adaptive", 1, 2, 8)
    assert [(each["attempt"], each["gpus"], each["why"]) for each in found["allocations"]] == [
        (1, 1, ""),
        (2, 2, "Resized from 1 to 2 GPUs: there were idle GPUs for it."),
    ]
    assert (found["allocations"][0]["until"] is None, found["allocations"][1]["until"]) == (False, None)
    now = found["now"]
    assert now is not None
    assert (now["batch_size"], now["lr_factor"], now["is_measured"]) == (128, 1.5, True)
    # The noise scale is 4 · 64 samples: (256 + 64) / (256 + 128).
    assert now["noise_scale"] == pytest.approx(256)
    assert now["efficiency"] == pytest.approx(320 / 384)
    measured = 128 / float(iteration_seconds(TRUTH, 1, 2, 64))
    assert now["throughput"] == pytest.approx(measured)
    assert now["goodput"] == pytest.approx(measured * 320 / 384)
    points = {point["gpus"]: point for point in found["curve"]}
    assert sorted(points) == list(range(1, 9))
    assert points[1]["speedup"] == pytest.approx(1)
    assert points[2]["speedup"] == pytest.approx(now["speedup"])
    assert 1 < points[2]["speedup"] < points[4]["speedup"] < 4
    assert (points[4]["nodes"], points[5]["nodes"]) == (1, 2)
    evidence = found["rests_on"]
    assert evidence is not None
    assert (evidence["ways"], evidence["iterations"], evidence["most_replicas"]) == (3, 300, 2)
    (on_model,) = evidence["gpu_models"]
    assert on_model["error"] is not None
    assert on_model["error"] < 0.05


def test_the_command_prints_it(job: Job, allot: Allot) -> None:
    lines = allot("scaling", str(job.id)).stdout.splitlines()
    assert lines[0] == f"Job {job.id}: 1 to 8 GPUs, adaptive"
    assert lines[1].startswith("  Now     batch 128, learning rate x 1.5, efficiency 83 %, goodput ")
    assert lines[2].startswith("  By      3 ways of running timed over 300 iterations, fitted ")
    allocations = lines.index("") + 1
    assert lines[allocations].split() == ["ATTEMPT", "GPUS", "MODEL", "SINCE", "TIME", "WHY"]
    assert lines[allocations + 2].endswith("there were idle GPUs for it.")
    curve = lines.index("", allocations) + 1
    assert lines[curve].split() == ["GPUS", "SPEEDUP", "GOODPUT", "BATCH", "EFFICIENCY"]
    assert [line.split()[0] for line in lines[curve + 1 :]] == ["1", "2*", "3", "4", "5", "6", "7", "8"]
    assert allot("scaling", "999999").exit_code == 3


def test_of_a_job_that_told_nothing_there_are_its_gpus_alone(job: Job, token: str, live_server: Any) -> None:
    JobScaling.objects.all().delete()
    Job.objects.update(shape=make_job().shape)
    with Client(str(live_server.url), token=token) as client:
        found = client.throughputs.scaling_of_job(job.id)
    msgspec.convert(found, schema.JobScaling, strict=True)
    assert (found["is_elastic"], found["mode"], found["now"], found["rests_on"]) == (False, None, None, None)
    assert found["curve"] == []
    assert len(found["allocations"]) == 2


def test_a_part_of_a_gpu_is_a_part(job: Job, allot: Allot) -> None:
    (gpu,) = gpus_of(make_node("v100-2", gpus=1))
    made = make_job(tenant=job.tenant, virtual_cluster=job.virtual_cluster)
    made.shape |= {"tasks": [[1, 1, 0.0, 0, [300, 300, 0]]]}
    made.save()
    attempt = make_attempt(made, [gpu], part=GpuPart(request=300, limit=300))
    Allocation.objects.filter(id=attempt.allocation_id).update(held_at=database_now())
    lines = allot("scaling", str(made.id)).stdout.splitlines()
    assert lines[0] == f"Job {made.id}: 0.3 GPU, not elastic"
    assert lines[-1].split()[:3] == ["1", "0.3", "V100"]


def test_before_a_fit_and_the_noise_there_is_the_batch_and_what_was_timed(
    job: Job, token: str, live_server: Any
) -> None:
    JobScaling.objects.update(parameters={}, noise=None, fitted_at=None)
    with Client(str(live_server.url), token=token) as client:
        found = client.throughputs.scaling_of_job(job.id)
    msgspec.convert(found, schema.JobScaling, strict=True)
    assert found["now"] is not None
    assert (found["now"]["efficiency"], found["now"]["goodput"], found["curve"]) == (None, None, [])
    assert found["now"]["throughput"] is not None


def test_of_many_attempts_the_newest_are_told(job: Job, token: str, live_server: Any) -> None:
    attempt = Attempt.objects.get(job=job, number=1)
    Attempt.objects.bulk_create(
        Attempt(
            job=job,
            number=number,
            allocation=attempt.allocation,
            state="ended",
            outcome="preempted",
            planned_at=attempt.planned_at,
            ended_at=attempt.ended_at,
        )
        for number in range(3, 3 + ALLOCATIONS_MOST)
    )
    with Client(str(live_server.url), token=token) as client:
        found = client.throughputs.scaling_of_job(job.id)
    assert found["has_earlier"]
    assert [each["attempt"] for each in found["allocations"]] == list(range(3, 3 + ALLOCATIONS_MOST))
