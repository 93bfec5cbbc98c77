"""Facts are declared twice, as tables and as values: nothing may be forgotten between them."""

from dataclasses import MISSING, fields
from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.core import snapshot as core
from scheduler.core.cells.document import from_document
from scheduler.models import PolicyMemory
from scheduler.rounds.snapshot import read_snapshot
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_cells,
    make_job,
    make_node,
    make_tenant,
    make_vc,
)

pytestmark = pytest.mark.django_db


def test_every_field_is_filled_from_rows():
    """A field that a test row cannot tell from its default has been forgotten in the mapping."""
    node = make_node("v100-a1", gpus=4, rack="rack-a", cpus=16, memory_bytes=2**36, cordoned=True, version=3)
    tenant = make_tenant("vision", quota={"*": 9, "V100": 8})
    vc = make_vc(
        "research",
        members={tenant: 2.5},
        guaranteed={"V100": 8},
        policy="other",
        policy_parameters={"backfill": False},
        placer="spread",
        default_time_limit_seconds=60.0,
    )
    columns = {
        "held": True,
        "cancelling": True,
        "eligible_at": timezone.now() + timedelta(hours=1),
        "service": {"V100": 12.5},
        "version": 7,
    }
    job = make_job(
        tenant=tenant,
        virtual_cluster=vc,
        gpus=2,
        replicas=2,
        gpu_models=["V100"],
        guaranteed=False,
        priority=5,
        time_limit_seconds=30.0,
        topology={"level": "rack", "required": True},
        cpus=2.0,
        memory_bytes=2**30,
        columns=columns,
    )
    job.shape |= {
        "throughput": {"V100": 3.0},
        "estimate_seconds": 20,
        "application": "bert",
        "skew": 0.25,
    }
    job.save()
    make_attempt(job, gpus_of(node), state="stopping")
    waiting = make_attempt(make_job(guaranteed=False), gpus_of(node)[:1], state="planned", phase="planned")
    PolicyMemory.objects.create(view="research", memory={"passes": [1, 2]})

    document = {
        "types": {"V100-NODE": {"of": "V100", "count": 4, "node": True}},
        "physical": [{"type": "V100-NODE", "nodes": [node.name]}],
        "virtual_clusters": {"research": {"cells": {"V100-NODE": 1}}},
    }
    make_cells(document)

    snapshot = read_snapshot(17)

    assert snapshot.cells == from_document(document)
    (read_node,) = snapshot.nodes
    assert unset(read_node) == set()
    assert [(gpu.index, gpu.path, gpu.healthy) for gpu in read_node.gpus] == [
        (0, ("0", "0"), True),
        (1, ("0", "0"), True),
        (2, ("1", "1"), True),
        (3, ("1", "1"), True),
    ]
    (read_vc,) = [each for each in snapshot.virtual_clusters if each.name == "research"]
    assert unset(read_vc) == set()
    assert read_vc.members == (core.Member(tenant="vision", weight=2.5),)
    (read_tenant,) = [each for each in snapshot.tenants if each.name == "vision"]
    assert read_tenant.quota == {"*": 9, "V100": 8}
    (read_job,) = [each for each in snapshot.jobs if each.id == job.id]
    # Elastic gangs and preemption costs come with the policies that use them.
    assert unset(read_job) == {"elastic", "preemption_cost_seconds"}
    assert (read_job.estimate_seconds, read_job.application, read_job.skew) == (20.0, "bert", 0.25)
    assert read_job.gpus == 4
    assert read_job.eligible_at > snapshot.now > read_job.submitted_at
    stopping, planned = snapshot.running
    assert (stopping.jobs, stopping.stopping, stopping.phase) == ((job.id,), True, "held")
    assert [len(replica) for replica in stopping.replicas] == [2, 2]
    assert (planned.allocation, planned.phase) == (waiting.allocation_id, "planned")
    assert unset(snapshot) == {"spare_policy", "spare_placer", "levels"}


def test_an_empty_specification_divides_nothing():
    make_cells({"virtual_clusters": {}})
    assert read_snapshot(1).cells is None


def unset(value) -> set[str]:
    """Names of fields whose value is that of a bare instance."""
    blank = {
        spec.name: spec.default if spec.default_factory is MISSING else spec.default_factory()
        for spec in fields(value)
        if spec.default is not MISSING or spec.default_factory is not MISSING
    }
    return {name for name, default in blank.items() if getattr(value, name) == default}


def test_ended_jobs_and_released_gpus_are_no_facts():
    node = make_node(gpus=2)
    make_job(state="succeeded")
    attempt = make_attempt(make_job(), gpus_of(node)[:1])
    attempt.allocation.gpus.update(phase="released")
    attempt.allocation.phase = "released"
    attempt.allocation.save()
    snapshot = read_snapshot(1)
    assert [job.id for job in snapshot.jobs] == [attempt.job_id]
    assert snapshot.running == ()


def test_a_node_that_never_reported_has_no_gpus_to_offer():
    node = make_node(gpus=1)
    node.gpu_model = None
    node.save()
    assert read_snapshot(1).nodes == ()


def test_unhealthy_and_vanished_gpus_are_marked():
    node = make_node(gpus=3)
    node.gpus.filter(index=0).update(healthy=False)
    node.gpus.filter(index=1).update(present=False)
    assert [gpu.healthy for gpu in read_snapshot(1).nodes[0].gpus] == [False, False, True]


@pytest.mark.parametrize(
    ("columns", "schedulable"), [({}, True), ({"cordoned": True}, False), ({"state": "lost"}, False)]
)
def test_which_nodes_take_new_work(columns, schedulable):
    make_node(gpus=1, **columns)
    assert read_snapshot(1).nodes[0].schedulable is schedulable
