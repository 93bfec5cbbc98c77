"""A gang that grows beyond its guarantee, and gives back, in rows and rounds."""

from datetime import timedelta

import pytest

from scheduler.models import Allocation, Attempt, Event
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from scheduler.wiring.clock import database_now
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


def test_it_grows_into_what_is_idle_and_shrinks_for_a_guarantee():
    node, tenant = make_node(gpus=4), make_tenant("speech")
    mine = make_vc("mine", members=[tenant], guaranteed={"V100": 1})
    others = make_vc("others", members=[tenant], guaranteed={"V100": 2})
    gang = make_job(tenant=tenant, virtual_cluster=mine)
    gang.shape |= {"min_gpus": 1, "max_gpus": 4}
    gang.save()
    before = make_attempt(gang, gpus_of(node)[:1])
    Allocation.objects.update(held_at=database_now() - timedelta(seconds=1_000))
    run_round()
    grown = Attempt.objects.get(job=gang, state="planned").allocation
    assert (grown.guaranteed, grown.gpu_count, grown.opportunistic_gpus) == (True, 4, 3)
    assert grown.replicas[0] == before.allocation.replicas[0]
    event = Event.objects.get(job_id=gang.id, kind="job.resized")
    assert "3 GPUs beyond the guarantee of virtual cluster mine were idle" in event.message

    Attempt.objects.filter(id=before.id).update(state="ended", outcome="preempted")
    Allocation.objects.filter(id=before.allocation_id).update(phase="released")
    before.allocation.gpus.update(phase="released")
    Attempt.objects.filter(allocation=grown).update(state="running")
    Allocation.objects.filter(id=grown.id).update(phase="held", held_at=database_now())
    grown.gpus.update(phase="held")
    (seen,) = read_snapshot(9).running
    assert (seen.opportunistic_gpus, len(seen.base.gpus)) == (3, 1)

    make_job(tenant=tenant, virtual_cluster=others, gpus=2)
    run_round()
    shrunk = Attempt.objects.get(job=gang, state="planned").allocation
    assert (shrunk.gpu_count, shrunk.opportunistic_gpus) == (1, 0)
    assert shrunk.replicas == before.allocation.replicas
    assert not Event.objects.filter(job_id=gang.id, kind="job.preempted").exists()
