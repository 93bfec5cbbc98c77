"""What elasticity saved, by the API: asked for, simulated from the jobs of the past, and looked at."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler import tasks
from scheduler.core.sim.run_times import RunTimes
from scheduler.core.sim.speeds import Speeds
from scheduler.forecasts.adviser.services import elasticity
from scheduler.forecasts.services import facts
from scheduler.models import Allocation, ElasticitySavings, JobScaling
from tests.api.caller import caller
from tests.scheduler.builders import (
    gpus_of,
    held_since,
    make_attempt,
    make_job,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_history(monkeypatch):
    monkeypatch.setattr(facts, "_read", None)


@pytest.fixture
def asked(monkeypatch):
    """What workers were asked to work out."""
    ids = []
    monkeypatch.setattr(
        "scheduler.forecasts.adviser.services.elasticity.request_elasticity_savings", ids.append
    )
    return ids


@pytest.fixture
def operator():
    return caller(make_user("olivia", operator=True))


@pytest.fixture
def cluster():
    """A node of eight GPUs, its virtual cluster under optimus."""
    node, tenant = make_node("n1"), make_tenant("vision")
    vc = make_vc("research", members=[tenant], guaranteed={"V100": 8}, policy="optimus")
    return node, tenant, vc


def ran(cluster, stays, *, hours_ago=10.0, elastic=None, **spec):
    """A job submitted then, with one attempt after the other on so many GPUs for so many hours.

    An elastic one has replicas of one GPU.
    """
    node, tenant, vc = cluster
    at = timezone.now() - timedelta(hours=hours_ago)
    job = make_job(tenant=tenant, virtual_cluster=vc, submitted_at=at, **spec)
    for gpus, hours in stays:
        over = at + timedelta(hours=hours)
        whole = gpus_of(node)[: job.spec["tasks"][0]["replicas"] * job.spec["tasks"][0]["resources"]["gpu"]]
        attempt = make_attempt(job, whole, state="ended", phase="released", outcome="succeeded")
        allocation = Allocation.objects.get(id=attempt.allocation_id)
        if elastic:
            allocation.replicas = allocation.replicas[:gpus]
        allocation.save()
        held_since(attempt, at, over)
        at = over
    job.refresh_from_db()
    job.state, job.ended_at = "succeeded", at
    if elastic:
        job.shape = {**job.shape, "min_gpus": elastic[0], "max_gpus": elastic[1]}
    job.save()
    return job


def savings(operator, asked, django_capture_on_commit_callbacks, **question):
    """Ask, let a worker answer, and look."""
    with django_capture_on_commit_callbacks(execute=True):
        response = operator.post("/elasticity-savings", question)
    assert response.status_code == 202, response.content
    assert response.json()["state"] == "waiting"
    elasticity.work_out(asked[-1])
    found = operator.get("/elasticity-savings").json()["results"][0]
    assert found["id"] == response.json()["id"]
    return found


def test_jobs_that_shrink_need_not_wait(operator, cluster, asked, django_capture_on_commit_callbacks):
    ran(cluster, [(4, 1.0)], gpus=4)
    # Two hours on four of its eight GPUs are one hour of work.
    ran(cluster, [(4, 2.0)], gpus=1, replicas=8, elastic=(4, 8))
    found = savings(operator, asked, django_capture_on_commit_callbacks)
    assert (found["state"], found["problem"], found["days"]) == ("done", "", 1.0)
    assert (found["jobs"], found["elastic_jobs"], found["measured_jobs"], found["left_out"]) == (2, 1, 0, 0)
    assert found["rigid"]["mean_wait_seconds"] == pytest.approx(1_800, abs=30)
    assert found["rigid"]["mean_completion_seconds"] == pytest.approx(5_400, abs=30)
    assert found["rigid"]["gpu_hours"] == pytest.approx(12, rel=0.01)
    assert found["rigid"]["resizes"] == 0
    assert found["elastic"]["mean_wait_seconds"] < 30
    assert found["elastic"]["mean_completion_seconds"] < 5_400
    assert found["elastic"]["resizes"] >= 1
    assert found["assumption"].startswith("Both are simulated")


def test_without_elastic_jobs_there_is_nothing_to_save(
    operator, cluster, asked, django_capture_on_commit_callbacks
):
    ran(cluster, [(4, 1.0)], gpus=4)
    ran(cluster, [(4, 1.0)], gpus=1, replicas=8, elastic=(4, 8), hours_ago=50)
    found = savings(operator, asked, django_capture_on_commit_callbacks)
    assert (found["state"], found["jobs"], found["elastic_jobs"]) == ("done", 1, 0)
    assert (found["elastic"], found["rigid"]) == (None, None)
    week = savings(operator, asked, django_capture_on_commit_callbacks, days=7)
    assert (week["jobs"], week["elastic_jobs"]) == (2, 1)


def test_a_fit_says_how_much_work_was_done(operator, cluster, asked, django_capture_on_commit_callbacks):
    job = ran(cluster, [(4, 2.0)], gpus=1, replicas=8, elastic=(4, 8))
    JobScaling.objects.create(
        job=job,
        attempt=1,
        sequence=1,
        limits=[64, 4096, 1, 256],
        batch=[64, 16, 0, 1.0],
        noise=[0.05, 1.0],
        times=[["V100", 1, 4, 16, 0, 0.05, 0.1, 100.0], ["V100", 1, 8, 8, 0, 0.05, 0.1, 100.0]],
        most_replicas=8,
        parameters={"V100": [[0.05, 0.002, 0.02, 0.001, 0.01, 0.001, 1.5], 0]},
    )
    found = savings(operator, asked, django_capture_on_commit_callbacks)
    assert (found["elastic_jobs"], found["measured_jobs"]) == (1, 1)
    # Twice the GPUs are less than twice as fast: two hours on four were more than one on eight.
    assert 3_660 < found["rigid"]["mean_completion_seconds"] < 7_200


@pytest.mark.parametrize(
    ("stays", "hours"), [([(8, 1.0)], 1.0), ([(4, 2.0)], 1.0), ([(4, 1.0), (8, 0.5)], 1.0)]
)
def test_work_is_counted_at_the_jobs_own_size(cluster, stays, hours):
    ran(cluster, stays, gpus=1, replicas=8, elastic=(4, 8))
    now = timezone.now().timestamp()
    (past,) = elasticity.read_past(since=now - 86_400, until=now, most=10, with_opportunistic=True)
    found = elasticity.work_seconds(past, now, Speeds(), {}, RunTimes())
    assert found == pytest.approx(hours * 3_600, rel=1e-3)


def test_opportunistic_jobs_count_too(operator, cluster, asked, django_capture_on_commit_callbacks):
    ran(cluster, [(4, 1.0)], gpus=1, replicas=8, elastic=(4, 8), guaranteed=False)
    assert savings(operator, asked, django_capture_on_commit_callbacks)["elastic_jobs"] == 1


@pytest.mark.parametrize("days", [0, -1, 32, "week", None])
def test_a_wrong_time_is_refused_by_field(operator, asked, days):
    response = operator.post("/elasticity-savings", {"days": days})
    assert response.status_code == 400
    assert response.json()["fields"][0]["field"] == "days"
    assert not ElasticitySavings.objects.exists()


def test_what_takes_too_long_is_given_up(
    operator, cluster, asked, monkeypatch, django_capture_on_commit_callbacks
):
    ran(cluster, [(4, 1.0)], gpus=1, replicas=8, elastic=(4, 8))
    monkeypatch.setattr(elasticity, "MOST_SECONDS", -1.0)
    found = savings(operator, asked, django_capture_on_commit_callbacks)
    assert (found["state"], found["problem"]) == ("failed", elasticity.TOO_LONG)
    assert found["made_at"] is not None


def test_the_task_answers_and_a_question_nobody_answered_fails_in_time(operator, cluster, asked):
    user = make_user("otto", operator=True)
    row = ElasticitySavings.objects.create(asked_by=user, asked_at=timezone.now(), days=1.0)
    tasks.work_out_elasticity_savings(str(row.id))
    row.refresh_from_db()
    assert row.state == "done"
    long_ago = timezone.now() - elasticity.PATIENCE - timedelta(seconds=1)
    ElasticitySavings.objects.create(asked_by=user, asked_at=long_ago, days=1.0)
    (newest, _) = operator.get("/elasticity-savings").json()["results"]
    assert (newest["state"], newest["problem"]) == ("failed", "No worker computed it; ask again.")
