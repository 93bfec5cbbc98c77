"""What is usual for a job, by the jobs in the tables that have ended, and who is told."""

from dataclasses import asdict

import pytest

from scheduler.forecasts.services.run_time import run_time_of
from scheduler.models import Job
from scheduler.rounds import recurrence
from scheduler.rounds.snapshot import read_snapshot
from tests.scheduler.builders import make_job, make_tenant, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_read(monkeypatch) -> None:
    monkeypatch.setattr(recurrence, "_read", None)


def job_in(policy: str) -> Job:
    tenant = make_tenant()
    return make_job(
        tenant=tenant, virtual_cluster=make_vc(members=[tenant], policy=policy), name="train", gpus=2
    )


def ended(like: Job, seconds: float, state: str = "succeeded", attempts: int = 1) -> Job:
    """A job of the same user and name that had its GPUs for so long, on two models."""
    half = seconds * like.gpus / 2
    return make_job(
        tenant=like.tenant,
        virtual_cluster=like.virtual_cluster,
        submitted_by=like.submitted_by,
        name=like.name,
        gpus=like.gpus,
        state=state,
        columns={"service": {"V100": half, "P100": half}, "attempts_started": attempts},
    )


def test_jobs_that_ended_say_what_is_usual_where_a_policy_looks_at_it() -> None:
    job = job_in("pai")
    ended(job, 100.0)
    ended(job, 300.0, "failed")
    ended(job, 9_000.0, "cancelled", attempts=0)
    (fact,) = read_snapshot(1).jobs
    assert fact.usual_seconds == pytest.approx(200.0)
    shown = asdict(run_time_of(job))
    assert shown["usual_seconds"] == pytest.approx(200.0)
    assert (shown["usual_by"], shown["usual_jobs"], shown["usual_error"]) == ("size", 2, None)


def test_other_policies_are_not_told_and_others_jobs_do_not_count() -> None:
    job = job_in("sjf")
    for _ in range(3):
        ended(job, 100.0)
    (fact,) = read_snapshot(1).jobs
    assert fact.usual_seconds is None
    other = make_job(tenant=job.tenant, virtual_cluster=job.virtual_cluster, name="train", gpus=2)
    assert run_time_of(other).usual_seconds is None
    assert run_time_of(job).usual_error == pytest.approx(0.0)


def test_a_job_without_gpus_that_ended_says_nothing_of_others() -> None:
    job = job_in("pai")
    ended(job, 100.0)
    ended(job, 300.0)
    without = ended(job, 9_000.0)
    shape = {"tasks": [[1, 0, 2.0, 0]], "topology": None, "throughput": {}}
    Job.objects.filter(id=without.id).update(gpus=0, service={}, shape=shape)
    (fact,) = read_snapshot(1).jobs
    assert fact.usual_seconds == pytest.approx(200.0)
