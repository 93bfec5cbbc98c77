"""Advice by the API: asked for, worked out from the jobs of the past, fetched and applied."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler import tasks
from scheduler.forecasts.adviser.services.advice import work_out
from scheduler.forecasts.services import facts
from scheduler.models import Advice, CellSpecification
from tenants.models import Guarantee
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

DAY = 86_400.0


@pytest.fixture(autouse=True)
def _no_history(monkeypatch):
    monkeypatch.setattr(facts, "_read", None)


@pytest.fixture
def asked(monkeypatch, django_capture_on_commit_callbacks):
    """What workers were asked to work out."""
    ids = []
    monkeypatch.setattr("scheduler.forecasts.adviser.services.advice.request_advice", ids.append)
    return ids


@pytest.fixture
def operator():
    return caller(make_user("olivia", operator=True))


@pytest.fixture
def cluster():
    """Four nodes of eight; busy has one node and two jobs of a node at a time, idle has three and one job."""
    nodes = [make_node(f"n{number}") for number in range(1, 5)]
    tenant = make_tenant("vision")
    busy = make_vc("busy", members=[tenant], guaranteed={"V100": 8})
    idle = make_vc("idle", members=[tenant], guaranteed={"V100": 24})
    for place in range(6):
        for _ in range(2):
            ran(busy, tenant, nodes[0], hours_ago=23 - 4 * place, hours=2)
    ran(idle, tenant, nodes[1], hours_ago=10, hours=1, gpus=4)
    return nodes


def ran(vc, tenant, node, *, hours_ago, hours, gpus=8):
    """A job that was submitted then, ran at once, and so long."""
    at = timezone.now() - timedelta(hours=hours_ago)
    over = at + timedelta(hours=hours)
    job = make_job(
        tenant=tenant,
        virtual_cluster=vc,
        gpus=gpus,
        submitted_at=at,
        state="succeeded",
        columns={"ended_at": over},
    )
    attempt = make_attempt(job, gpus_of(node)[:gpus], state="ended", phase="released", outcome="succeeded")
    held_since(attempt, at, over)
    job.refresh_from_db()
    job.state, job.ended_at = "succeeded", over
    job.save()


def advice(operator, asked, django_capture_on_commit_callbacks, **question):
    """Ask, let a worker answer, and fetch."""
    with django_capture_on_commit_callbacks(execute=True):
        response = operator.post("/cells/advice", question)
    assert response.status_code == 202, response.content
    assert response.json()["state"] == "waiting"
    work_out(asked[-1])
    return operator.get(f"/cells/advice/{response.json()['id']}").json()


def test_gpus_go_to_those_who_wait(operator, cluster, asked, django_capture_on_commit_callbacks):
    found = advice(
        operator,
        asked,
        django_capture_on_commit_callbacks,
        days=1,
        price_per_gpu_hour={"V100": 2.0},
    )
    assert (found["state"], found["jobs"], found["problem"]) == ("done", 13, "")
    busy, idle = found["rows"]
    assert (busy["today"]["cells"], busy["advised"]["cells"]) == ({"V100-NODE": 1}, {"V100-NODE": 2})
    assert idle["today"]["gpus"] == 24
    assert idle["advised"]["gpus"] < 24
    # The second job of each pair waits two hours today.
    assert busy["today"]["delay_mean_seconds"] == pytest.approx(3_600, rel=0.02)
    assert busy["advised"]["delay_mean_seconds"] < 10
    assert busy["advised"]["cost_per_day"] == 16 * 2 * 24
    assert busy["why"].startswith("8 GPUs more give its 12 jobs")
    assert found["totals"]["advised"]["delay_mean_seconds"] < found["totals"]["today"]["delay_mean_seconds"]
    assert [point["gpus"] for point in found["curves"]["busy"]][:2] == [8, 16]
    assert found["specification"]["virtual_clusters"]["busy"]["cells"] == {"V100-NODE": 2}
    assert found["based_on_version"] == 0
    (listed,) = operator.get("/cells/advice").json()["results"]
    assert listed == {name: value for name, value in found.items() if name != "specification"}


def test_it_is_applied_in_one_step(operator, cluster, asked, django_capture_on_commit_callbacks):
    found = advice(operator, asked, django_capture_on_commit_callbacks, days=1)
    applied = operator.post(f"/cells/advice/{found['id']}/apply", None)
    assert applied.status_code == 200, applied.content
    assert applied.json()["version"] == 1
    assert applied.json()["specification"] == operator.get("/cells").json()["specification"]
    assert Guarantee.objects.get(virtual_cluster__name="busy", gpu_model="V100").gpus == 16
    assert operator.get(f"/cells/advice/{found['id']}").json()["applied_at"] is not None
    again = operator.post(f"/cells/advice/{found['id']}/apply", None)
    assert again.status_code == 409
    assert CellSpecification.objects.count() == 1


def test_advice_on_cells_that_changed_since_is_refused(
    operator, cluster, asked, django_capture_on_commit_callbacks
):
    found = advice(operator, asked, django_capture_on_commit_callbacks, days=1)
    proposal = operator.post("/cells/proposal", None).json()
    assert operator.put("/cells", {**proposal, "version": 0}).status_code == 200
    refused = operator.post(f"/cells/advice/{found['id']}/apply", None)
    assert refused.status_code == 409
    assert "version" in refused.json()["detail"]


def test_the_cells_in_force_are_what_it_begins_with(
    operator, cluster, asked, django_capture_on_commit_callbacks
):
    proposal = operator.post("/cells/proposal", None).json()
    proposal["specification"]["virtual_clusters"]["idle"] = {"cells": {"V100-NODE": 1}}
    assert operator.put("/cells", {**proposal, "version": 0}).status_code == 200
    found = advice(operator, asked, django_capture_on_commit_callbacks, days=1, keep=["idle"])
    assert found["based_on_version"] == 1
    idle = found["rows"][1]
    assert idle["today"] == idle["advised"]
    assert idle["today"]["gpus"] == 8


def test_what_cannot_be_had_is_said_with_the_field(
    operator, cluster, asked, django_capture_on_commit_callbacks
):
    found = advice(
        operator,
        asked,
        django_capture_on_commit_callbacks,
        days=1,
        budget_gpus={"V100": 20},
        keep=["idle"],
    )
    assert found["state"] == "failed"
    assert [field["field"] for field in found["fields"]] == ["budget_gpus.V100"]
    assert "at least 32 V100 GPUs" in found["problem"]
    assert operator.post(f"/cells/advice/{found['id']}/apply", None).status_code == 409


@pytest.mark.parametrize(
    ("question", "field", "words"),
    [
        ({"days": 0}, "days", ""),
        ({"days": 99}, "days", ""),
        ({"budget_gpus": {"V10": 3}}, "budget_gpus.V10", "did you mean 'V100'"),
        ({"budget_gpus": {"V100": -3}}, "budget_gpus.V100", ""),
        ({"keep": ["bussy"]}, "keep", "did you mean 'busy'"),
        ({"minimum": {"busy": {"V100-NOD": 1}}}, "minimum.busy.V100-NOD", "did you mean 'V100-NODE'"),
        ({"price_per_gpu_hour": {"V100": -1}}, "price_per_gpu_hour.V100", ""),
        ({"price": 3}, "price", "not a field"),
    ],
)
def test_wrong_questions_are_refused_at_once(operator, cluster, asked, question, field, words):
    response = operator.post("/cells/advice", question)
    assert response.status_code == 400, response.content
    (wrong,) = response.json()["fields"]
    assert wrong["field"] == field
    assert words in wrong["problem"]
    assert asked == []


def test_one_worker_answers_it(operator, cluster, asked, django_capture_on_commit_callbacks, monkeypatch):
    found = advice(operator, asked, django_capture_on_commit_callbacks, days=1)
    monkeypatch.setattr("scheduler.forecasts.adviser.services.advice.advise", None)
    work_out(found["id"])
    assert operator.get(f"/cells/advice/{found['id']}").json() == found


def test_a_failure_is_told(operator, cluster, asked, django_capture_on_commit_callbacks, monkeypatch):
    with django_capture_on_commit_callbacks(execute=True):
        row = operator.post("/cells/advice", {}).json()

    def broken(*arguments, **more):
        raise RuntimeError("a bug")

    monkeypatch.setattr("scheduler.forecasts.adviser.services.advice.advise", broken)
    with pytest.raises(RuntimeError):
        tasks.advise(row["id"])
    failed = operator.get(f"/cells/advice/{row['id']}").json()
    assert failed["state"] == "failed"
    assert "operators find the cause" in failed["problem"]


def test_what_nobody_works_out_is_given_up(operator):
    long_ago = timezone.now() - timedelta(hours=1)
    row = Advice.objects.create(asked_by=make_user(), asked_at=long_ago, question={"days": 7.0})
    found = operator.get(f"/cells/advice/{row.id}").json()
    assert (found["state"], found["problem"]) == ("failed", "No worker computed it; ask again.")


def test_members_have_their_virtual_cluster_compared(asked, monkeypatch, django_capture_on_commit_callbacks):
    names = []
    monkeypatch.setattr("scheduler.forecasts.adviser.services.comparisons.request_comparison", names.append)
    member, viewer = make_user("mia"), make_user("val")
    tenant = make_tenant("vision", members={member: "member", viewer: "viewer"})
    make_vc("research", members=[tenant])
    with django_capture_on_commit_callbacks(execute=True):
        response = caller(member).post("/virtual-clusters/research/anomalies", {"hours": 2})
    assert (response.status_code, response.json()["state"]) == (202, "waiting")
    assert names == ["research"]
    refused = caller(viewer).post("/virtual-clusters/research/anomalies", {})
    assert refused.status_code == 403
    assert "members" in refused.json()["detail"]
    wrong = caller(member).post("/virtual-clusters/research/anomalies", {"hours": 99_999})
    assert [field["field"] for field in wrong.json()["fields"]] == ["hours"]
