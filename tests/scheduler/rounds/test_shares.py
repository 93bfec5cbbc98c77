"""CPUs and memory that jobs leave to the platform: rounds write them while attempts run, agents are told."""

from threading import Thread
from typing import Any

import pytest
from django.db import connection, transaction

from scheduler.agents.services.desired import desired_parts
from scheduler.core.model.auxiliary import AuxiliaryShare
from scheduler.core.model.codec import loads_plan
from scheduler.core.model.plan import Plan
from scheduler.jobs.attempts.representations import attempts as represented
from scheduler.jobspec import parse
from scheduler.models import ClusterSettings, Round
from scheduler.models.jobs import Job
from scheduler.rounds.apply import apply_plan
from scheduler.rounds.replay import decided_again
from scheduler.rounds.run import run_round
from scheduler.rounds.shares import write_shares
from scheduler.rounds.snapshot import read_snapshot
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db

GIB = 2**30


def automatic(*, cpu: dict[str, float] | None = None, **fields: Any) -> Job:
    """A job on one GPU that leaves its CPUs and memory to the platform."""
    job = make_job(**fields)
    stated = parse(
        {
            "name": job.name,
            "command": ["true"],
            "resources": {"gpu": 1, "cpu": "auto", "memory": "auto"},
            "sensitivity": {"cpu": cpu} if cpu else None,
        }
    )
    job.spec = {**job.spec, "tasks": stated.to_dict()["tasks"]}
    job.shape = {**job.shape, "tasks": stated.shape()["tasks"]}
    job.save()
    return job


def whole() -> dict[str, Any]:
    """A tenant, and a virtual cluster of its own that all of the machine is guaranteed to."""
    tenant = make_tenant()
    return {"tenant": tenant, "virtual_cluster": make_vc(members=[tenant], guaranteed={"V100": 4})}


def machine() -> Any:
    """Four GPUs, three CPUs and 60 GiB for each."""
    return make_node(gpus=4, cpus=12, memory_bytes=240 * GIB)


def limits(node: Any) -> dict[int, tuple[float, int]]:
    """Return by job what the node is to let its one replica have."""
    return {part.job: (part.replicas[0].cpus, part.replicas[0].memory_bytes) for part in desired_parts(node)}


def test_a_round_gives_more_by_need_and_takes_it_back_while_the_job_runs():
    node = machine()
    owner = whole()
    hungry = automatic(cpu={"3": 1, "9": 2.5}, **owner)
    run_round()
    assert limits(node) == {hungry.id: (9.0, 60 * GIB)}
    attempt = hungry.attempts.get()
    others = [automatic(**owner) for _ in range(3)]
    run_round()
    assert limits(node) == {job.id: (3.0, 60 * GIB) for job in (hungry, *others)}
    assert hungry.attempts.get().id == attempt.id
    (shown,) = represented([attempt.id])
    assert shown["auxiliary"] == {
        "replicas": [
            {
                "rank": 0,
                "cpus": 3.0,
                "memory_bytes": 60 * GIB,
                "proportional_cpus": 3.0,
                "proportional_memory_bytes": 60 * GIB,
            }
        ],
        "message": "",
    }


def test_what_is_stated_comes_first_and_the_rest_is_said():
    node = machine()
    owner = whole()
    stated = make_job(**owner)
    stated.shape["tasks"][0][2] = 10.0
    stated.save()
    automatic_one = automatic(**owner)
    run_round()
    assert limits(node)[automatic_one.id] == (2.0, 60 * GIB)
    attempt = automatic_one.attempts.get()
    assert "more than their part of the CPUs of node" in attempt.auxiliary["message"]
    assert stated.attempts.get().auxiliary is None


def test_the_operator_chooses_how_they_are_divided():
    node = machine()
    ClusterSettings.objects.create(id=1, auxiliary="proportional")
    job = automatic(cpu={"3": 1, "9": 2.5}, **whole())
    run_round()
    assert limits(node) == {job.id: (3.0, 60 * GIB)}


def test_a_kept_round_is_decided_again_with_the_same_shares():
    machine()
    automatic(cpu={"3": 1, "9": 2.5}, **whole())
    run_round()
    kept = Round.objects.get()
    plan = loads_plan(kept.plan)
    assert plan.shares
    assert decided_again(kept) == plan


def share(*replicas: tuple[float, int]) -> AuxiliaryShare:
    return AuxiliaryShare(replicas=replicas, proportional=replicas)


def test_only_what_changed_is_written_and_what_no_longer_fits_is_not():
    node = machine()
    job = automatic(**whole())
    attempt = make_attempt(job, gpus_of(node)[:1])
    write_shares({job.id: share((4.0, GIB))})
    attempt.refresh_from_db()
    job.refresh_from_db()
    assert (attempt.auxiliary["replicas"], job.version) == ([[4.0, GIB]], 2)
    write_shares({job.id: share((4.0, GIB))})
    # Of a size that it did not get: that action was dropped.
    write_shares({job.id: share((1.0, GIB), (1.0, GIB))})
    attempt.refresh_from_db()
    job.refresh_from_db()
    assert (attempt.auxiliary["replicas"], job.version) == ([[4.0, GIB]], 2)
    attempt.state = "stopping"
    attempt.save()
    apply_plan(read_snapshot(9), Plan(round_number=9, shares={job.id: share((2.0, GIB))}))
    attempt.refresh_from_db()
    assert attempt.auxiliary["replicas"] == [[4.0, GIB]]


@pytest.mark.django_db(transaction=True)
def test_nobody_waits_for_a_job_that_is_locked():
    node = machine()
    job = automatic(**whole())
    attempt = make_attempt(job, gpus_of(node)[:1])

    def elsewhere() -> None:
        try:
            write_shares({job.id: share((4.0, GIB))})
        finally:
            connection.close()

    with transaction.atomic():
        Job.objects.select_for_update().get(id=job.id)
        thread = Thread(target=elsewhere)
        thread.start()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    attempt.refresh_from_db()
    assert attempt.auxiliary is None
