"""What running jobs make of their GPUs becomes a fact of the next round, for them and for their like."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from nodeagent.messages import (
    PROTOCOL,
    GpuSample,
    HostSample,
    PartReport,
    ProgressLine,
    Reading,
    ReplicaSample,
    Report,
)
from scheduler.agents.services.reports import report_apply
from scheduler.core.model.lifecycle import AttemptState
from scheduler.core.model.training import Profile
from scheduler.jobs.attempts.services.profiling import profiles_measure
from scheduler.models import Attempt, ClassProfile, Job, Node
from scheduler.rounds.snapshot import read_snapshot
from scheduler.telemetry.metrics.services import metrics_roll_up, readings_store
from scheduler.telemetry.throughputs.services.measuring import prune_measurements
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)
STAGES = {"storage_seconds": 0.4, "gpu_seconds": 0.2, "network_seconds": 0.1}


def tell(node: Node, attempt: Attempt, **values: float) -> None:
    sequence = 1 + attempt.progress.count()
    line = ProgressLine(sequence=sequence, at=1_700_000_000.0 + sequence, step=sequence, values=values)
    part = PartReport(attempt=attempt.id, state="running", progress=(line,))
    report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))


def profile_of(job: Job) -> Profile | None:
    return next(each.profile for each in read_snapshot(1).jobs if each.id == job.id)


def devices_tell(node: Node, attempts: Sequence[Attempt], *busy: float) -> None:
    """Readings of the last five whole minutes, a GPU each; the task that puts them together runs."""
    gpus = [
        GpuSample(index=index, utilisation_percent=percent, memory_used_bytes=2**30 * (1 + index),
                  memory_utilisation_percent=percent / 2)
        for index, percent in enumerate(busy)
    ]  # fmt: skip
    readings = [
        Reading(
            at=(NOW - timedelta(seconds=5 + 20 * turn)).timestamp(),
            gpus=tuple(gpus),
            host=HostSample(),
            replicas=tuple(ReplicaSample(attempt=attempt.id, rank=0) for attempt in attempts),
        )
        for turn in range(1, 15)
    ]
    readings_store(node, Report(protocol=PROTOCOL, boot="", generation=0, readings=tuple(readings)), at=NOW)
    metrics_roll_up(NOW)
    profiles_measure(NOW)


@pytest.fixture
def node() -> Node:
    return make_node(gpus=4)


def test_stage_times_of_a_job_are_known_of_its_next_ones(node: Node) -> None:
    job = make_job()
    job.shape["application"] = "bert"
    job.save()
    attempt = make_attempt(job, gpus_of(node)[:1])
    tell(node, attempt, **STAGES, amp=1)
    tell(node, attempt, loss=0.5)
    expected = Profile(stages=(0.4, 0.2, 0.1), amp=True)
    assert profile_of(job) == expected
    alike = make_job(tenant=job.tenant)
    assert profile_of(alike) is None
    alike.shape["application"] = "bert"
    alike.save()
    assert profile_of(alike) == expected


def test_lines_of_a_job_beside_another_say_nothing(node: Node) -> None:
    first, second = make_job(), make_job()
    attempt = make_attempt(first, gpus_of(node)[:1])
    beside = make_attempt(second, gpus_of(node)[1:2])
    beside.allocation = attempt.allocation
    beside.save()
    tell(node, attempt, **STAGES)
    assert profile_of(first) is None


def test_devices_tell_minute_by_minute_after_the_warm_up(node: Node) -> None:
    job = make_job(gpus=2)
    attempt = make_attempt(job, gpus_of(node)[:2], running_at=NOW - timedelta(minutes=5))
    # The third GPU is not its own.
    devices_tell(node, [attempt], 80.0, 40.0, 100.0)
    expected = Profile(utilisation=0.6, memory_utilisation=0.3, memory_bytes=2**31)
    assert profile_of(job) == expected
    profiles_measure(NOW)
    assert profile_of(job) == expected
    young = make_job()
    attempt = make_attempt(young, gpus_of(node)[3:], running_at=NOW - timedelta(seconds=30))
    profiles_measure(NOW)
    assert profile_of(young) is None


def test_whole_minutes_before_it_was_stopped_count(node: Node) -> None:
    """Lucid's profiler stops a job before its last minute is put together."""
    jobs = make_job(), make_job()
    minute = NOW.replace(minute=27, second=0)
    attempts = [
        make_attempt(
            job,
            [gpu],
            state=AttemptState.STOPPING,
            running_at=NOW - timedelta(minutes=5),
            stopping_at=minute + timedelta(seconds=seconds),
        )
        for job, gpu, seconds in zip(jobs, gpus_of(node), (59, 60), strict=False)
    ]
    devices_tell(node, attempts, 80.0, 40.0)
    expected = Profile(utilisation=0.4, memory_utilisation=0.2, memory_bytes=2**31)
    assert [profile_of(job) for job in jobs] == [None, expected]


def test_profiles_of_classes_are_forgotten_when_nobody_measures_them(node: Node) -> None:
    tell(node, make_attempt(make_job(), gpus_of(node)[:1]), **STAGES)
    prune_measurements()
    assert ClassProfile.objects.count() == 1
    ClassProfile.objects.update(updated_at=NOW - timedelta(days=400))
    prune_measurements()
    assert ClassProfile.objects.count() == 0
