"""Overcommitment on rows: from readings of agents to the round that starts, or stops, a job beyond a node."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nodeagent.messages import PROTOCOL, HostSample, Reading, ReplicaSample, Report
from scheduler.core.model.codec import dumps_plan, loads_snapshot
from scheduler.core.perf.peaks import WARM_UP
from scheduler.core.round.decide import decide
from scheduler.jobs.attempts.services.lifecycle import part_running
from scheduler.models import (
    AttemptPart,
    Explanation,
    Job,
    Node,
    NodeMetrics,
    NodePeak,
    Overcommitment,
    PartMetrics,
    PeakSamples,
    Round,
)
from scheduler.models.selectors.peaks import violation_rates
from scheduler.rounds.run import run_round
from scheduler.rounds.snapshot import read_snapshot
from scheduler.telemetry.metrics.services import metrics_roll_up, readings_store
from scheduler.telemetry.peaks.services import peaks_measure, peaks_predict
from tests.scheduler.builders import GIB, make_job, make_node, make_tenant, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner():
    tenant = make_tenant()
    return {"tenant": tenant, "virtual_cluster": make_vc(members=[tenant], guaranteed={"V100": 8})}


@pytest.fixture
def node() -> Node:
    return make_node(gpus=0, cpus=32, memory_bytes=64 * GIB)


def lends(owner, margin: float = 0.0) -> None:
    Overcommitment.objects.create(
        virtual_cluster=owner["virtual_cluster"], overcommit="predicted", margin=margin
    )


def play_round() -> None:
    assert run_round() is not None
    for part in AttemptPart.objects.filter(attempt__state="starting").select_related("attempt"):
        part_running(part, at=part.attempt.starting_at)


def read(node: Node, at: datetime, now: datetime, cpus: dict[Job, float]) -> None:
    """The agent of the node says what jobs used there."""
    replicas = tuple(
        ReplicaSample(
            attempt=job.attempts.latest("number").id, rank=0, cpus_used=used, memory_used_bytes=1 * GIB
        )
        for job, used in cpus.items()
    )
    reading = Reading(at=at.timestamp(), gpus=(), host=HostSample(), replicas=replicas)
    readings_store(node, Report(protocol=PROTOCOL, boot="", generation=0, readings=(reading,)), at=now)


def run_for(node: Node, minutes: int, cpus: dict[Job, float]) -> datetime:
    """Let jobs have used this for so long; return the end of it."""
    now = timezone.now()
    for minute in range(minutes, 0, -1):
        read(node, now - timedelta(minutes=minute), now, cpus)
    read(node, now, now, cpus)
    metrics_roll_up(now)
    return now


def is_running(job: Job) -> bool:
    return job.attempts.filter(state__in=["starting", "running"]).exists()


def holder_and_guest(owner) -> tuple[Job, Job]:
    holder = make_job(gpus=0, cpus=32, memory_bytes=8 * GIB, **owner)
    play_round()
    return holder, make_job(gpus=0, cpus=16, memory_bytes=8 * GIB, guaranteed=False, **owner)


def test_an_opportunistic_job_gets_what_a_guaranteed_one_does_not_use(owner, node):
    holder, guest = holder_and_guest(owner)
    now = run_for(node, 20, {holder: 6.0})
    peaks_predict(now)
    play_round()
    assert not is_running(guest), "nobody said that what is not used may be lent"

    lends(owner)
    peaks_predict(now)
    peak = NodePeak.objects.get()
    assert (peak.node_id, peak.cpus) == (node.id, pytest.approx(6.0))
    assert peak.used == [[holder.attempts.get().allocation_id, 6.0, GIB]]
    play_round()
    assert is_running(guest)
    part = AttemptPart.objects.get(attempt__job=guest)
    assert (part.node_id, part.cpus) == (node.id, 16.0)


def test_figures_of_one_node_that_cannot_be_read_keep_no_other_from_its_prediction(owner, node):
    lends(owner)
    holders = [make_job(gpus=0, cpus=32, memory_bytes=8 * GIB, **owner) for _ in range(2)]
    other = make_node(gpus=0, cpus=32, memory_bytes=64 * GIB)
    play_round()
    here, there = sorted(holders, key=lambda job: AttemptPart.objects.get(attempt__job=job).node_id)
    run_for(other, 20, {there: 6.0})
    now = run_for(node, 20, {here: 6.0})
    broken = PartMetrics.objects.filter(part__node=node)
    sound = list(broken.values_list("at", "values"))
    broken.update(values={"ranks": 7})
    peaks_predict(now)
    assert NodePeak.objects.get().node == other
    for at, values in sound:
        broken.filter(at=at).update(values=values)
    peaks_predict(now)
    later = now + timedelta(seconds=10)
    read(node, later, later, {here: 7.0})
    read(other, later, later, {there: 7.0})
    NodeMetrics.objects.filter(node=node, at=later).update(values={"parts": 7})
    peaks_measure(later)
    assert [peak.cpus for peak in NodePeak.objects.order_by("node_id")] == pytest.approx([6.0, 7.0])


def test_a_new_job_lends_nothing_until_it_is_warm(owner, node):
    lends(owner)
    holder, guest = holder_and_guest(owner)
    for minutes, runs in ((WARM_UP - 3, False), (WARM_UP + 2, True)):
        peaks_predict(run_for(node, minutes, {holder: 6.0}))
        play_round()
        assert is_running(guest) is runs


def test_a_guaranteed_job_gets_nothing_of_it(owner, node):
    lends(owner)
    holder, guest = holder_and_guest(owner)
    Job.objects.filter(id=guest.id).update(guaranteed=True)
    peaks_predict(run_for(node, 20, {holder: 6.0}))
    play_round()
    assert not is_running(guest)


def test_who_asks_for_no_cpus_counts_with_what_it_uses(owner, node):
    lends(owner)
    holder, guest = holder_and_guest(owner)
    quiet = make_job(gpus=0, memory_bytes=1 * GIB, guaranteed=False, **owner)
    Job.objects.filter(id=guest.id).update(held=True)
    play_round()
    peaks_predict(run_for(node, 20, {holder: 6.0, quiet: 12.0}))
    assert NodePeak.objects.get().cpus == pytest.approx(18.0)
    Job.objects.filter(id=guest.id).update(held=False)
    play_round()
    assert not is_running(guest)


def test_when_the_prediction_fails_the_opportunistic_job_gives_way_and_knows_why(owner, node):
    lends(owner)
    holder, guest = holder_and_guest(owner)
    now = run_for(node, 20, {holder: 6.0})
    peaks_predict(now)
    play_round()
    assert is_running(guest)

    later = now + timedelta(seconds=10)
    read(node, later, later, {holder: 12.0, guest: 15.0})
    peaks_measure(later)
    play_round()
    assert is_running(guest), "the node still has what is used"

    later += timedelta(seconds=10)
    read(node, later, later, {holder: 24.0, guest: 15.0})
    peaks_measure(later)
    play_round()
    attempt = guest.attempts.get()
    assert (attempt.state, attempt.stop_cause) == ("stopping", "preempted")
    (reason, *_) = Explanation.objects.get(job=guest).reasons
    assert reason["code"] == "prediction_failed"
    assert is_running(holder)

    # The record of the round replays bit for bit: what was measured is in its facts.
    stored = Round.objects.latest("number")
    snapshot = loads_snapshot(stored.snapshot)
    assert snapshot.peaks[0].cpus == 24.0
    assert dumps_plan(decide(snapshot)) == bytes(stored.plan)
    # Both samples after the prediction were above it.
    (rate,) = violation_rates().values()
    assert (rate.samples, rate.exceeded, rate.rate) == (2, 2, 1.0)


def test_the_margin_is_not_exceeded_by_what_stays_within_it(owner, node):
    lends(owner, margin=0.25)
    holder, _ = holder_and_guest(owner)
    now = run_for(node, 20, {holder: 6.0})
    peaks_predict(now)
    # 6 and a quarter of 32 CPUs are kept for it.
    for number, used in enumerate((6.0, 13.9, 14.5)):
        later = now + timedelta(seconds=10 * number)
        read(node, later, later, {holder: used})
        NodePeak.objects.update(cpus=6.0)
        peaks_measure(later)
    row = PeakSamples.objects.get(virtual_cluster=owner["virtual_cluster"])
    assert (row.samples, row.exceeded) == (3, 1)


def test_what_was_measured_too_long_ago_is_no_fact(owner, node):
    lends(owner)
    holder, guest = holder_and_guest(owner)
    peaks_predict(run_for(node, 20, {holder: 6.0}))
    NodePeak.objects.update(measured_at=timezone.now() - timedelta(minutes=2))
    assert read_snapshot(9).peaks == ()
    play_round()
    assert not is_running(guest)


def test_a_node_without_lenders_any_more_has_no_prediction(owner, node):
    lends(owner)
    holder, _ = holder_and_guest(owner)
    now = run_for(node, 20, {holder: 6.0})
    peaks_predict(now)
    assert NodePeak.objects.exists()
    Overcommitment.objects.update(overcommit="never")
    peaks_predict(now)
    assert not NodePeak.objects.exists()


def test_where_nobody_lends_anything_nothing_is_read(owner, node):
    holder, _ = holder_and_guest(owner)
    now = run_for(node, 20, {holder: 6.0})
    with CaptureQueriesContext(connection) as queries:
        read_snapshot(9)
        peaks_predict(now)
        peaks_measure(now)
    said = [query["sql"] for query in queries]
    assert not [sql for sql in said if "metrics" in sql]
    # One look at each of two empty tables, and nothing in the round.
    assert len([sql for sql in said if "nodepeak" in sql and sql.startswith("SELECT")]) == 1
