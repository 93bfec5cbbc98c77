"""Requeueing: what runs stops as for a preemption, and the job waits again."""

import pytest

from scheduler.models import Attempt, Event, Job
from tenants.models import AuditEntry
from tests.api.caller import is_error
from tests.scheduler.builders import gpus_of, make_attempt, make_job
from tests.scheduler.conftest import World

pytestmark = pytest.mark.django_db


def test_a_running_job_is_stopped_and_the_reason_names_who_asked(world: World) -> None:
    job = make_job(tenant=world.tenant)
    make_attempt(job, gpus_of(world.node)[:1])
    answer = world.member.post(f"/jobs/{job.id}/requeue")
    assert answer.status_code == 200, answer.content
    assert answer.json()["phase"] == "stopping"
    attempt = Attempt.objects.get(job=job)
    assert (attempt.state, attempt.stop_cause) == ("stopping", "preempted")
    assert attempt.stop_message == "Requeued by user mia."
    assert Event.objects.filter(job_id=job.id, actor="user mia").exists()
    entry = AuditEntry.objects.get(action="job.requeue")
    assert (entry.object_kind, entry.object_id, entry.tenant_id) == ("job", str(job.id), world.tenant.id)
    # A second time it stops already.
    is_error(world.member.post(f"/jobs/{job.id}/requeue"), 409, "conflict")


@pytest.mark.parametrize("state", ["queued", "succeeded", "failed", "cancelled"])
def test_what_does_not_run_is_refused_with_what_to_do(world: World, state: str) -> None:
    job = make_job(tenant=world.tenant, state=state)
    is_error(world.member.post(f"/jobs/{job.id}/requeue"), 409, "conflict")
    assert Job.objects.get(id=job.id).state == state


def test_viewers_and_strangers_can_not(world: World) -> None:
    job = make_job(tenant=world.tenant)
    make_attempt(job, gpus_of(world.node)[:1])
    is_error(world.viewer.post(f"/jobs/{job.id}/requeue"), 403, "not_allowed")
    is_error(world.stranger.post(f"/jobs/{job.id}/requeue"), 404, "not_found")
    assert Attempt.objects.get(job=job).state == "running"
