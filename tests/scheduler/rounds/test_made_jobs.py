"""A job of which nothing differs is not made again for the next round; any difference makes another."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from operator import is_

import pytest
from django.utils import timezone

from scheduler.core.building_blocks.pace import Pace
from scheduler.core.model.snapshot import Job as Facts
from scheduler.models import Dependency, Job, JobProfile, JobScaling, Node, TrainingProgress
from scheduler.rounds import job_facts
from scheduler.rounds.snapshot import read_snapshot
from tests.scheduler.builders import (
    make_class_profile,
    make_gpu_model,
    make_job,
    make_measurement,
    make_node,
    make_tenant,
    make_vc,
)

pytestmark = pytest.mark.django_db


def of_row(**columns: object) -> Callable[[Job], object]:
    return lambda job: Job.objects.filter(id=job.id).update(**columns)


def of_shape(**fields: object) -> Callable[[Job], object]:
    return lambda job: Job.objects.filter(id=job.id).update(shape=job.shape | fields)


def is_drained(job: Job) -> None:
    Node.objects.update(draining=True, drain_deadline=timezone.now() + timedelta(seconds=10))


def is_measured(job: Job) -> None:
    make_gpu_model("V100")
    make_measurement(job.tenant, "bert", 3.0)


def trains(job: Job) -> None:
    TrainingProgress.objects.create(
        job=job, attempt=1, sequence=2, at=0.0, epoch=3.0, epochs=10.0, batch_size=64,
        seen={"32": [2.0, {"V100": [2.0, 50.0]}]},
    )  # fmt: skip


def scales(job: Job) -> None:
    JobScaling.objects.create(
        job=job, attempt=1, sequence=2, limits=[64, 1024, 8, 128], batch=[128, 64, 0, 1.5], noise=[1.0, 4.0],
        times=[["V100", 1, 2, 64, 0, 0.1, 0.2, 100.0]], most_replicas=2,
        parameters={"V100": [[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.5], ""]},
    )  # fmt: skip


PACE = asdict(Pace(step=5, total_steps=10, timed_steps=5, timed={"V100": 800.0}, service={"V100": 800.0}))
CHANGES: dict[str, Callable[[Job], object]] = {
    "a column": of_row(priority=7),
    "the last column": of_row(version=9),
    "service": of_row(service={"V100": 3.0}),
    "steps": of_row(pace=PACE),
    "its shape": of_shape(estimate_seconds=30),
    "its trial": lambda job: of_shape(after_trial=job.shape)(job),
    "throughputs": is_measured,
    "epochs": trains,
    "scaling": scales,
    "its profile": lambda job: JobProfile.objects.create(job=job, profile={"utilisation": 0.5}),
    "the profile of its like": lambda job: make_class_profile(job.tenant, "bert", {"utilisation": 0.9}),
    "what it waits for": lambda job: Dependency.objects.create(
        job=job, awaited=make_job(), when="failed", state="never"
    ),
    "nodes that close": is_drained,
}


def facts_of(job: Job) -> Facts:
    return next(each for each in read_snapshot(1).jobs if each.id == job.id)


@pytest.fixture
def job() -> Job:
    make_node("v100-a1", gpus=4)
    tenant = make_tenant("vision")
    made = make_job(tenant=tenant, virtual_cluster=make_vc("research", members=[tenant]), guaranteed=True)
    made.shape |= {"application": "bert"}
    made.time_limit_seconds = 3_600.0
    made.save()
    return made


def test_what_did_not_change_is_the_same_object(job: Job) -> None:
    other = make_job()
    before = read_snapshot(1).jobs
    assert all(map(is_, before, read_snapshot(2).jobs))
    Job.objects.filter(id=other.id).update(priority=7)
    same, changed = read_snapshot(3).jobs
    assert same is before[0]
    assert changed.priority == 7


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_fact_of_a_job_makes_another(
    job: Job, change: Callable[[Job], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = facts_of(job)
    change(job)
    after = facts_of(job)
    monkeypatch.setattr(job_facts, "_made", job_facts._MadeJobs())
    assert after != before
    assert after == facts_of(job)
