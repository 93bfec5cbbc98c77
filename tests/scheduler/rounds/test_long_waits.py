"""Long waits on real rows: GPUs are reserved, and a wait begins when the job could have started."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.core.model.lifecycle import JobEvent
from scheduler.jobs.attempts.services.steps import step_job
from scheduler.jobs.services.control import job_hold, job_release
from scheduler.jobs.services.dependencies import dependencies_settle
from scheduler.models import Dependency, Explanation, Job
from scheduler.models.virtual_clusters import PreemptionLimits
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


def waits_since(job: Job) -> float:
    (facts,) = [each for each in read_snapshot(1).jobs if each.id == job.id]
    return facts.waits_since


@pytest.mark.parametrize("bound", [None, 0.0])
def test_gpus_are_reserved_after_six_hours_unless_an_operator_says_otherwise(bound: float | None) -> None:
    node, tenant = make_node(gpus=4), make_tenant()
    vc = make_vc(members=[tenant], guaranteed={"V100": 4}, policy="sjf")
    if bound is not None:
        PreemptionLimits.objects.create(virtual_cluster=vc, longest_wait_seconds=bound)
    columns = {"tenant": tenant, "virtual_cluster": vc}
    make_attempt(make_job(**columns, gpus=1), gpus_of(node)[:1])
    gang = make_job(**columns, gpus=4, submitted_at=timezone.now() - timedelta(hours=7))
    small = make_job(**columns, gpus=1, submitted_at=timezone.now() - timedelta(minutes=1))
    run_round()
    assert small.attempts.exists() == (bound is not None)
    codes = {reason["code"] for reason in Explanation.objects.get(job=gang).reasons}
    assert ("longest_wait" in codes) == (bound is None)


def test_a_wait_begins_anew_after_a_run_a_hold_and_a_dependency() -> None:
    begun = timezone.now()
    tenant = make_tenant()
    vc = make_vc(members=[tenant])
    ran, held, depends, other = [make_job(tenant=tenant, virtual_cluster=vc) for _ in range(4)]
    assert [waits_since(job) for job in (ran, held, depends)] == [0.0, 0.0, 0.0]
    make_attempt(ran, gpus_of(make_node(gpus=1)))
    ran.refresh_from_db()
    step_job(ran, JobEvent.REQUEUED, at=timezone.now(), actor="test")
    assert waits_since(ran) >= begun.timestamp()
    job_hold(job_id=held.id, actor="test")
    assert waits_since(held) == 0.0
    job_release(job_id=held.id, actor="test")
    assert waits_since(held) >= begun.timestamp()
    Dependency.objects.create(job=depends, awaited=other, when="ended")
    dependencies_settle()
    assert waits_since(depends) == 0.0
    Job.objects.filter(id=other.id).update(state="succeeded", ended_at=timezone.now())
    dependencies_settle()
    assert waits_since(depends) >= begun.timestamp()
