"""Readings of nodes: stored once, put together exactly, and what they say of idle GPUs."""

import math
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.messages import PROTOCOL, GpuSample, HostSample, Reading, ReplicaSample, Report
from scheduler.models import Attempt, Node, NodeMetrics
from scheduler.services.metrics.buckets import count_mean_least_most, figure_of, merged, merged_table
from scheduler.services.metrics.idleness import idle_gpu_seconds
from scheduler.services.reports import report_apply
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

decimals = st.lists(st.none() | st.floats(0, 2**36).map(figure_of), max_size=40)
bytes_used = st.lists(st.none() | st.integers(0, 2**47).map(figure_of), max_size=40)


@settings(max_examples=40, deadline=None)
@given(decimals | bytes_used, st.lists(st.integers(1, 7), min_size=40, max_size=40))
def test_it_does_not_matter_in_how_many_steps_readings_are_put_together(values, sizes):
    pieces, rest = [], list(values)
    for size in sizes:
        pieces.append(merged(rest[:size]))
        rest = rest[size:]
    at_once = merged(values)
    assert merged(pieces) == at_once
    known = [value for value in values if value is not None]
    if not known:
        assert at_once is None
        return
    count, mean, least, most = count_mean_least_most(at_once)
    assert (count, least, most) == (len(known), min(known), max(known))
    assert mean == pytest.approx(math.fsum(known) / len(known), rel=1e-12, abs=1e-6)


def test_what_only_some_readings_tell_is_made_of_these_alone():
    tables = [{"0": [10, 1], "1": [50]}, {"0": [30, None, 7]}, {"2": [None]}]
    assert merged_table(tables) == {"0": [[2, 40, 10, 30], 1, 7], "1": [50], "2": [None]}


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -1.0, 2.0**60])
def test_what_no_machine_tells_is_left_out(value):
    assert figure_of(value) is None


def reading(at: datetime, *, gpus: dict[int, float], attempt: Attempt | None = None, **fields) -> Reading:
    """GPUs by index with how busy they are."""
    return Reading(
        at=at.timestamp(),
        gpus=tuple(
            GpuSample(index=index, utilisation_percent=percent, memory_used_bytes=2**30, power_watts=100.0)
            for index, percent in gpus.items()
        ),
        host=HostSample(cpu_percent=50.0, memory_used_bytes=2**33),
        replicas=() if attempt is None else (ReplicaSample(attempt=attempt.id, rank=0, cpus_used=1.5),),
        **fields,
    )


def report(node: Node, *readings: Reading, **fields) -> None:
    report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, readings=readings, **fields))


@pytest.mark.django_db
def test_a_reading_is_kept_once_and_at_the_servers_time():
    node, now = make_node(), timezone.now()
    taken = reading(now - timedelta(seconds=4), gpus={0: 80.0})
    report(node, taken, sent_at=(now - timedelta(seconds=1)).timestamp())
    report(node, taken, sent_at=now.timestamp())
    (row,) = NodeMetrics.objects.filter(node=node)
    assert row.at == now - timedelta(seconds=4)
    assert row.values["gpus"] == {"0": [80.0, 2**30, 100.0, None, None]}
    assert not row.simulated
    # A node whose clock is a day slow, and one that tells what cannot have been.
    yesterday = now - timedelta(days=1)
    report(node, reading(yesterday - timedelta(seconds=20), gpus={}), sent_at=yesterday.timestamp())
    report(node, reading(yesterday, gpus={}), sent_at=now.timestamp())
    oldest = NodeMetrics.objects.filter(node=node).earliest("at")
    assert oldest.at.timestamp() == pytest.approx((now - timedelta(seconds=20)).timestamp(), abs=2)
    assert NodeMetrics.objects.filter(node=node).count() == 2


@pytest.mark.django_db
def test_gpus_are_idle_since_the_last_of_them_did_something():
    now = timezone.now()
    left, right = make_node(gpus=2), make_node(gpus=2)
    attempt = make_attempt(
        make_job(replicas=2, gpus=1),
        [gpus_of(left)[0], gpus_of(right)[0]],
        starting_at=now - timedelta(minutes=10),
    )

    def read(node: Node, seconds_ago: float, **gpus: float) -> None:
        percents = {int(name.removeprefix("gpu")): percent for name, percent in gpus.items()}
        report(node, reading(now - timedelta(seconds=seconds_ago), gpus=percents, attempt=attempt))

    def idle_seconds() -> float | None:
        return idle_gpu_seconds(attempt, now=now)

    assert idle_seconds() is None
    for seconds_ago in range(0, 300, 10):
        # Its other GPU is another job's, and none of its business.
        read(left, seconds_ago, gpu0=90.0 if seconds_ago == 200 else 0.5, gpu1=99.0)
    assert idle_seconds() is None  # The other node has said nothing yet.
    for seconds_ago in range(0, 300, 10):
        read(right, seconds_ago, gpu0=0.0)
    assert idle_seconds() == 190.0
    assert idle_gpu_seconds(attempt, below_percent=0.2, now=now) == 0.0
    # For a while nobody knows what the GPU did: only what was seen after that counts.
    NodeMetrics.objects.filter(node=right).filter(
        at__gte=now - timedelta(seconds=150), at__lte=now - timedelta(seconds=50)
    ).delete()
    assert idle_seconds() == 40.0
    # An agent that reports no more, or a GPU of which nothing is told, says nothing of idleness.
    assert idle_gpu_seconds(attempt, now=now + timedelta(minutes=5)) is None
    report(right, reading(now + timedelta(seconds=1), gpus={}, attempt=attempt))
    assert idle_seconds() is None
