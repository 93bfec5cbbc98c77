"""Facts are declared twice, as tables and as values: nothing may be forgotten between them."""

from dataclasses import MISSING, asdict, fields
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.utils import timezone

from scheduler.core.building_blocks.pace import Pace
from scheduler.core.cells.document import from_document
from scheduler.core.model import snapshot as core
from scheduler.core.model.data_sets import DataSet
from scheduler.core.model.interference import Branch, GroupSpeeds
from scheduler.core.model.node_peaks import MeasuredUse
from scheduler.core.model.tag_constraints import TagConstraint
from scheduler.core.model.training import Goodput, Profile, Regime, Training
from scheduler.core.round.decide import decide
from scheduler.models import (
    Attempt,
    ClusterSettings,
    Dependency,
    FragmentationSample,
    InterferenceFit,
    JobProfile,
    JobScaling,
    NodePeak,
    Overcommitment,
    PolicyMemory,
    PreemptionLimits,
    ProgressPoint,
    Reservation,
    ServingPool,
    TrainingProgress,
)
from scheduler.rounds.job_facts import _JOBS, JobRow
from scheduler.rounds.snapshot import read_snapshot
from scheduler.telemetry.throughputs.services import on_record
from tenants.models import VirtualCluster
from tests.scheduler.builders import (
    gpus_of,
    make_attempt,
    make_cells,
    make_class_profile,
    make_correction,
    make_gpu_model,
    make_job,
    make_measurement,
    make_node,
    make_tenant,
    make_vc,
)

pytestmark = pytest.mark.django_db


def test_a_row_of_jobs_has_the_names_and_the_order_of_its_query():
    with connection.cursor() as cursor:
        cursor.execute(_JOBS, [[]])
        columns = [column.name for column in cursor.description]
    assert columns == list(JobRow._fields)


def test_every_field_is_filled_from_rows():
    """A field that a test row cannot tell from its default has been forgotten in the mapping."""
    # It closes before the job's time limit is over.
    closed = {"cordoned": True, "draining": True, "drain_deadline": timezone.now() + timedelta(seconds=10)}
    returns = {
        "serving_pool": ServingPool.objects.create(name="chat"),
        "loan_state": "returning",
        "return_by": timezone.now(),
        "return_stops_at": timezone.now(),
    }
    node = make_node(
        "v100-a1",
        gpus=4,
        rack="rack-a",
        cpus=16,
        memory_bytes=2**36,
        storage_bandwidth=2.0**30,
        cache_bytes=2**39,
        version=3,
        **closed,
        **returns,
    )
    tenant = make_tenant("vision", quota={"*": 9, "V100": 8})
    vc = make_vc(
        "research",
        members={tenant: 2.5},
        guaranteed={"V100": 8},
        policy="other",
        policy_parameters={"backfill": False},
        placer="random",
        placer_parameters={"seed": 3},
        default_time_limit_seconds=60.0,
        sharing="never",
    )
    PreemptionLimits.objects.create(
        virtual_cluster=vc, min_run_seconds=300.0, reclaim_min_run_seconds=9.0, longest_wait_seconds=7.0
    )
    Overcommitment.objects.create(virtual_cluster=vc, overcommit="predicted", margin=0.25)
    NodePeak.objects.create(
        node=node,
        cpus=4.5,
        memory_bytes=2.0**33,
        allocations=[17],
        margin=0.25,
        used=[[17, 3.5, 2.0**32]],
        measured_at=timezone.now(),
    )
    ClusterSettings.objects.create(
        id=1,
        spare_policy="slaq",
        spare_policy_parameters={"epoch_seconds": 60},
        spare_placer="fgd",
        spare_placer_parameters={"workload": ["1:0:1"]},
        preemptions_per_round=4,
        auxiliary="greedy",
        backoff_seconds=5.0,
        most_backoff_seconds=50.0,
    )
    kind = {"gpus": 0.5, "cpus": 2.0, "gpu_models": ["V100"], "frequency": 0.25}
    FragmentationSample.objects.create(
        at=timezone.now(), idle=0, fragmented=0, details={"kinds": [kind], "nodes": []}
    )
    # What it cost two other jobs of the virtual cluster to be preempted is the best guess for this one.
    for cost in (4.0, 6.0):
        make_job(tenant=tenant, virtual_cluster=vc, state="failed", columns={"preemption_cost_seconds": cost})
    columns = {
        "held": True,
        "cancelling": True,
        "eligible_at": timezone.now() + timedelta(hours=1),
        "waits_since": timezone.now() - timedelta(seconds=1),
        "service": {"V100": 12.5},
        "pace": asdict(
            Pace(step=5, total_steps=10, timed_steps=5, timed={"V100": 800.0}, service={"V100": 800.0})
        ),
        "avoid_nodes": [17],
        "short_runs": 2,
        "may_borrow_at": timezone.now() + timedelta(hours=1),
        "array_id": 3,
        "array": {"index": 1, "size": 9, "at_most": 2},
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
        "sharing": ["team", "", ""],
        "throughput": {"V100": 3.0},
        "estimate_seconds": 20,
        "application": "bert",
        "search": "rates",
        "skew": 0.25,
        "deadline_seconds": 90,
        "min_gpus": 2,
        "max_gpus": 8,
        "elastic_mode": "adaptive",
        "nodes": {"only": ["v100-a1"], "avoid": ["v100-a2"]},
        "pinned_cell": "corner",
        "reservation": "paper",
        "on_reclaim": "downgrade",
        "tags": ["web"],
        "constraints": [["cache", "rack", 1, None, 2.0]],
        "data": ["imagenet", 2**37, 1e6],
    }
    job.save()
    Reservation.objects.create(
        name="paper",
        tenant=tenant,
        gpu_model="V100",
        gpus=1,
        nodes=["v100-a1"],
        starts_at=timezone.now() + timedelta(days=2),
        ends_at=timezone.now() + timedelta(days=3),
        made_by="user olga",
        made_at=timezone.now(),
    )
    Dependency.objects.create(job=job, awaited=make_job(), when="failed", state="never")
    make_measurement(tenant, "bert", 1.5, gpus=4, spread=True)
    make_gpu_model("K80")
    # So that there is something to compare with: half as fast there.
    elsewhere = make_tenant()
    for model, speed in (("V100", 10.0), ("K80", 5.0)):
        make_measurement(elsewhere, "other", speed, gpu_model=model, gpus=4)
    for first, second in (("bert", "bert"), ("bert", "gpt"), ("gpt", "bert")):
        make_measurement(tenant, first, 0.5, partner=second, gpus=4)
    make_measurement(tenant, "bert", 0.5, partner="bert+bert", gpus=4)
    make_vc("sharing", sharing="free")
    branch = Branch(speed=0.9, samples=40)
    InterferenceFit.objects.create(
        tree=[asdict(branch)], pairs=20, error=0.05, error_of_mean=0.1, fitted_at=timezone.now()
    )
    attempt = make_attempt(job, gpus_of(node), state="stopping")
    for sequence, (step, loss) in enumerate([(10, 2.5), (20, 1.5), (20, 1.25)]):
        ProgressPoint.objects.create(
            attempt=attempt, sequence=sequence, at=timezone.now(), step=step, values={"loss": loss}
        )
    waiting = make_attempt(make_job(guaranteed=False), gpus_of(node)[:1], state="planned", phase="planned")
    PolicyMemory.objects.create(view="research", memory={"passes": [1, 2]})
    TrainingProgress.objects.create(
        job=job,
        attempt=1,
        sequence=2,
        at=0.0,
        epoch=3.0,
        epochs=10.0,
        batch_size=64,
        seen={"32": [2.0, {"K80": [2.0, 50.0]}], "64": [1.0, {}]},
    )

    JobScaling.objects.create(
        job=job,
        attempt=1,
        sequence=2,
        limits=[64, 1024, 8, 128],
        batch=[128, 64, 0, 1.5],
        noise=[1.0, 4.0],
        times=[["K80", 1, 2, 64, 0, 0.1, 0.2, 100.0]],
        most_replicas=2,
        parameters={"K80": [[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.5], ""]},
    )
    JobProfile.objects.create(job=job, profile={"utilisation": 0.5, "stages": [0.25, 0.5, 0.0]})
    make_class_profile(tenant, "bert", {"utilisation": 0.9, "memory_bytes": 2**30}, user=job.submitted_by)
    make_class_profile(tenant, "bert", {"memory_bytes": 2**32, "amp": True})
    document = {
        "types": {"V100-NODE": {"of": "V100", "count": 4, "node": True}},
        "physical": [{"type": "V100-NODE", "nodes": [node.name]}],
        "virtual_clusters": {"research": {"cells": {"V100-NODE": 1}}},
    }
    make_cells(document)

    snapshot = read_snapshot(17)

    assert snapshot.cells == from_document(document)
    (read_node,) = snapshot.nodes
    # Only what stands for a cell in a private cluster may be of a pinned one.
    assert unset(read_node) == {"pinned_cell"}
    assert [(gpu.index, gpu.path, gpu.healthy) for gpu in read_node.gpus] == [
        (0, ("0", "0"), True),
        (1, ("0", "0"), True),
        (2, ("1", "1"), True),
        (3, ("1", "1"), True),
    ]
    (read_vc,) = [each for each in snapshot.virtual_clusters if each.name == "research"]
    assert not unset(read_vc)
    assert read_vc.members == (core.Member(tenant="vision", weight=2.5),)
    (read_tenant,) = [each for each in snapshot.tenants if each.name == "vision"]
    assert read_tenant.quota == {"*": 9, "V100": 8}
    (read_job,) = [each for each in snapshot.jobs if each.id == job.id]
    # A job that waits for a trial run is another one: tests/scheduler/attempts/test_trials.py.
    # What is usual for it is told where a policy looks at it: test_recurrence.py. What reservations let it do
    # each round finds itself.
    assert unset(read_job) == {"trial", "usual_seconds", "reserved"}
    parameters = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.5)
    # Three times as fast as where it was measured.
    slower, faster = parameters, (*[value * 1.5 / 3.0 for value in parameters[:6]], 1.5)
    assert read_job.goodput == Goodput(
        parameters={"K80": slower, "V100": pytest.approx(faster)},
        noise=(1.0, 4.0),
        initial_batch=64,
        max_batch=1024,
        min_local_batch=8,
        max_local_batch=128,
        most_replicas=2,
        projected=("V100",),
    )
    # Its own figures, then those of its user's like it, then anyone's of its tenant.
    assert read_job.profile == Profile(utilisation=0.5, memory_bytes=2**30, amp=True, stages=(0.25, 0.5, 0.0))
    assert read_job.preemption_cost_seconds == 5.0
    assert (read_job.elastic, read_job.elastic_mode) == ((2, 8), "adaptive")
    assert read_job.throughput == {"K80": 1.5, "V100": 3.0}
    assert read_job.estimated == ("K80",)
    # Half as fast there, and nothing was timed with the larger batch size.
    regimes = (
        Regime(batch_size=32, epochs=2.0, epoch_seconds=12.5),
        Regime(batch_size=64, epochs=1.0, epoch_seconds=12.5),
    )
    assert read_job.training == Training(epochs=10.0, batch_size=64, regimes=regimes)
    assert read_job.losses == ((10.0, 2.5), (20.0, 1.25))
    assert read_job.deadline_at == read_job.submitted_at + 90
    # Half of its steps took 200 s of its gang, where it is as fast as anywhere; 20 s were declared.
    assert (read_job.estimate_seconds, read_job.measured) == (400.0, True)
    assert (read_job.application, read_job.skew) == ("bert", 0.25)
    assert (read_job.user, read_job.search) == (job.submitted_by.username, "rates")
    assert read_job.spread_speeds == {"V100": 0.5}
    assert (read_job.avoid, read_job.outlasts) == ((17,), (node.id,))
    assert read_job.nodes == core.Candidates(only=("v100-a1",), avoid=("v100-a2",))
    assert (read_job.pinned_cell, read_job.on_reclaim) == ("corner", "downgrade")
    assert read_job.tags == ("web",)
    assert read_job.constraints == (TagConstraint(tag="cache", scope="rack", least=1, weight=2.0),)
    assert read_job.data == DataSet(name="imagenet", size_bytes=2**37, bandwidth=1e6)
    assert read_job.gpus == 4
    assert read_job.eligible_at > snapshot.now > read_job.submitted_at
    assert snapshot.now - read_job.waits_since > 0
    stopping, planned = snapshot.running
    assert (stopping.jobs, stopping.stopping, stopping.phase) == ((job.id,), True, "held")
    assert [len(replica) for replica in stopping.replicas] == [2, 2]
    assert (planned.allocation, planned.phase) == (waiting.allocation_id, "planned")
    # The market comes with the tables of offers and loans.
    assert unset(snapshot) == {"lending", "levels"}
    assert snapshot.prices == {"K80": 1.0, "V100": 1.0}
    assert [pair.applications for pair in snapshot.pair_speeds] == [("bert", "bert")]
    group = GroupSpeeds(applications=("bert",) * 3, gpus=4, gpu_model="V100", speeds=(0.5,) * 3)
    assert snapshot.group_speeds == (group,)
    assert snapshot.interference == (branch,)
    (peak,) = snapshot.peaks
    assert not unset(peak)
    assert (peak.node, peak.allocations) == (node.id, (17,))
    assert peak.used == (MeasuredUse(allocation=17, cpus=3.5, memory_bytes=2.0**32),)
    VirtualCluster.objects.filter(name="sharing").delete()
    assert read_snapshot(18).interference == ()


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


def test_what_was_measured_overrules_what_was_declared_once_there_is_enough_of_it():
    tenant = make_tenant()
    job = make_job(tenant=tenant)
    job.shape |= {"throughput": {"V100": 100.0}, "application": "bert"}
    job.save()
    make_node()

    def read() -> float:
        return read_snapshot(1).jobs[0].throughput["V100"]

    assert read() == 100.0
    measured = make_measurement(tenant, "bert", 80.0, samples=2)
    assert read() == 100.0
    measured.samples = 3
    measured.save()
    assert read() == 80.0
    correction = make_correction(tenant, "bert", 90.0)
    assert read() == 90.0
    correction.delete()
    assert read() == 80.0
    # Another tenant's application of that name is another kind, and another size another speed.
    make_measurement(make_tenant(), "bert", 7.0)
    make_measurement(tenant, "bert", 150.0, gpus=2)
    assert read() == 80.0


def test_jobs_that_state_no_application_are_known_by_their_names():
    tenant = make_tenant()
    make_job(tenant=tenant, name="nightly")
    make_job(tenant=tenant, name="daily")
    make_node()
    make_measurement(tenant, "name:nightly", 12.0)
    nightly, daily = read_snapshot(1).jobs
    assert (nightly.throughput, nightly.application) == ({"V100": 12.0}, "")
    assert (daily.throughput, daily.estimated) == ({}, ())


def test_a_job_is_kept_off_models_that_it_does_not_run_on():
    tenant = make_tenant()
    for model in ("K80", "P100", "V100"):
        make_node(gpu_model=model)
    for gpu_models in ((), ("K80", "V100", "P100"), ("K80",)):
        job = make_job(tenant=tenant, gpu_models=gpu_models)
        job.shape |= {"throughput": {"P100": 2.0, "V100": 3.0}, "application": "big"}
        job.save()
    make_correction(tenant, "big", 0.0, gpu_model="K80")
    anywhere, in_order, nowhere = read_snapshot(1).jobs
    assert anywhere.gpu_models == ("V100", "P100")
    assert in_order.gpu_models == ("V100", "P100")
    assert (nowhere.gpu_models, nowhere.throughput["K80"]) == (("K80",), 0.0)


def test_two_jobs_that_share_gpus_are_as_fast_as_was_measured():
    node = make_node()
    tenant = make_tenant()
    jobs = [make_job(tenant=tenant, name=name) for name in ("one", "two")]
    first = make_attempt(jobs[0], gpus_of(node)[:1])
    second = make_attempt(jobs[1], gpus_of(node)[1:2])
    second.allocation.gpus.all().delete()
    alone = second.allocation
    second.allocation = first.allocation
    second.save()
    alone.delete()
    make_measurement(tenant, "name:one", 0.7, partner="name:two")
    assert read_snapshot(1).running[0].speeds == {}
    make_measurement(tenant, "name:two", 0.6, partner="name:one")
    assert read_snapshot(1).running[0].speeds == {jobs[0].id: 0.7, jobs[1].id: 0.6}
    # A third makes them a group, of which each has to be measured again.
    third = make_job(tenant=tenant, name="three")
    Attempt.objects.create(
        job=third,
        number=1,
        allocation=first.allocation,
        state="running",
        planned_at=first.planned_at,
        go=True,
    )
    make_measurement(tenant, "name:one", 0.5, partner="name:three+name:two")
    make_measurement(tenant, "name:two", 0.4, partner="name:one+name:three")
    assert read_snapshot(1).running[0].speeds == {}
    make_measurement(tenant, "name:three", 0.3, partner="name:one+name:two")
    speeds = {jobs[0].id: 0.5, jobs[1].id: 0.4, third.id: 0.3}
    assert read_snapshot(1).running[0].speeds == speeds


def test_a_job_that_runs_where_it_is_said_not_to_run_is_no_harm():
    tenant = make_tenant()
    vc = make_vc(members=[tenant], guaranteed={"V100": 8, "K80": 8})
    node = make_node()
    make_node(gpu_model="K80")
    job = make_job(tenant=tenant, virtual_cluster=vc)
    make_attempt(job, gpus_of(node)[:1])
    make_correction(tenant, f"name:{job.name}", 0.0)
    make_correction(tenant, f"name:{job.name}", 5.0, gpu_model="K80")
    snapshot = read_snapshot(1)
    assert snapshot.jobs[0].gpu_models == ("K80",)
    plan = decide(snapshot)
    # It runs, whatever anybody says, and is left alone; had it to start anew, it would start elsewhere.
    assert not plan.degraded
    assert plan.actions == ()


def test_estimates_follow_what_is_measured_at_once_and_the_references_within_a_minute(monkeypatch):
    tenant, other = make_tenant(), make_tenant()
    make_job(tenant=tenant, name="nightly")
    for model in ("K80", "V100"):
        make_node(gpu_model=model)
    mine = make_measurement(tenant, "name:nightly", 100.0)
    make_measurement(other, "bert", 50.0)
    reference = make_measurement(other, "bert", 10.0, gpu_model="K80")

    def on_k80():
        (job,) = read_snapshot(1).jobs
        assert job.estimated == ("K80",)
        return job.throughput["K80"]

    def measured(row, average):
        row.average, row.samples, row.updated_at = average, row.samples + 1, timezone.now()
        row.save()

    assert on_k80() == 20.0
    measured(mine, 200.0)
    assert on_k80() == 40.0
    measured(reference, 25.0)
    assert on_k80() == 40.0
    monkeypatch.setattr(on_record, "REFERENCES_KEPT_SECONDS", 0.0)
    measured(mine, 100.0)
    assert on_k80() == 50.0
    # A correction has its effect at once.
    monkeypatch.undo()
    make_correction(other, "bert", 5.0, gpu_model="K80")
    assert on_k80() == 10.0


def test_losses_are_thinned_and_read_for_policies_that_look_at_them():
    node = make_node("v100-a1", gpus=4)
    looked_at, not_looked_at = make_vc("research", policy="slaq"), make_vc("production", policy="las")
    for vc in (looked_at, not_looked_at):
        attempt = make_attempt(make_job(virtual_cluster=vc, guaranteed=True), gpus_of(node)[vc.id % 4 :][:1])
        ProgressPoint.objects.bulk_create(
            ProgressPoint(attempt=attempt, sequence=step, at=timezone.now(), step=step, values=values)
            for step in range(1, 101)
            for values in [{"loss": 1 / step} if step % 10 else {"loss": "low"}]
        )
    jobs = {job.virtual_cluster: job for job in read_snapshot(1).jobs}
    losses = jobs["research"].losses
    assert jobs["production"].losses == ()
    assert len(losses) == 32
    assert losses[-1] == (99.0, pytest.approx(1 / 99))
    assert all(before < after for (before, _), (after, _) in pairwise(losses))
