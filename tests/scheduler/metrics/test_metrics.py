"""Readings of nodes: stored once, put together exactly, and what they say of idle GPUs."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.messages import PROTOCOL, GpuSample, HostSample, Reading, ReplicaSample, Report
from scheduler.agents.services.reports import report_apply
from scheduler.models import Attempt, Node, NodeMetrics, PartMetrics
from scheduler.telemetry.metrics.selectors.buckets import (
    count_mean_least_most,
    figure_of,
    merged,
    merged_table,
)
from scheduler.telemetry.metrics.selectors.idleness import idle_gpu_seconds
from scheduler.telemetry.metrics.selectors.reading import finest_kept, node_rows, part_rows
from scheduler.telemetry.metrics.services import metrics_prune, metrics_roll_up, readings_store
from tests.effort import examples
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_node

decimals = st.lists(st.none() | st.floats(0, 2**36).map(figure_of), max_size=40)
bytes_used = st.lists(st.none() | st.integers(0, 2**47).map(figure_of), max_size=40)


@settings(max_examples=examples(40))
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
    assert row.values["gpus"] == {"0": [80.0, 2**30, 100.0, None, None, None]}
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


@pytest.mark.django_db
def test_buckets_hold_all_readings_of_their_time_also_late_ones():
    now = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)
    node = make_node(gpus=2)
    attempt = make_attempt(make_job(), gpus_of(node)[:1])
    noon = now.replace(minute=0, second=0)

    def store(*taken: Reading) -> None:
        readings_store(node, Report(protocol=PROTOCOL, boot="", generation=0, readings=taken), at=now)

    def bucket(seconds: int, at: datetime, of: Any = NodeMetrics) -> Any:
        return of.objects.get(seconds=seconds, at=at)

    # A quarter of an hour, busy in every second minute; the job runs in the first ten minutes.
    for second in range(10, 900, 10):
        busy = 100.0 if second // 60 % 2 == 0 else 0.0
        running = attempt if second < 600 else None
        if second != 70:
            store(reading(noon + timedelta(seconds=second), gpus={0: busy, 1: 7.0}, attempt=running))
    metrics_roll_up(now)
    minute = bucket(60, noon + timedelta(minutes=1))
    assert (minute.readings, minute.values["gpus"]["0"][0]) == (5, [5, 0, 0, 0])
    store(reading(noon + timedelta(seconds=70), gpus={0: 60.0}, attempt=attempt))
    for _ in range(2):
        metrics_roll_up(now)
    minute = bucket(60, noon + timedelta(minutes=1))
    assert (minute.readings, minute.values["gpus"]["0"][0]) == (6, [6, 60, 0, 60])
    quarter = bucket(900, noon)
    assert quarter.readings == 89
    busy_readings = sum(1 for second in range(10, 900, 10) if second // 60 % 2 == 0)
    assert quarter.values["gpus"]["0"][0] == [89, busy_readings * 100 + 60, 0, 100]
    assert quarter.values["gpus"]["1"][0] == [88, 88 * 7, 7, 7]
    assert quarter.values["host"][0] == [89, 89 * 50, 50, 50]
    part = bucket(900, noon, PartMetrics)
    assert (part.readings, part.values["ranks"]["0"][0]) == (59, [59, 59 * 1.5, 1.5, 1.5])
    assert set(part.values["gpus"]) == {"0"}
    # The minute under way is not one yet.
    store(reading(now, gpus={0: 1.0}))
    metrics_roll_up(now)
    assert not NodeMetrics.objects.filter(seconds=60, at__gte=now.replace(second=0)).exists()


@pytest.mark.django_db
def test_rows_go_when_their_time_is_over_but_never_before_they_are_put_together():
    now = timezone.now()
    node = make_node()
    ages = {10: timedelta(hours=1, minutes=59), 60: timedelta(hours=47), 900: timedelta(days=30)}
    too_old = {10: timedelta(hours=3), 60: timedelta(days=3), 900: timedelta(days=32)}
    for seconds, age in [*ages.items(), *too_old.items()]:
        NodeMetrics.objects.create(node=node, seconds=seconds, at=now - age, simulated=False, values={})

    def kept() -> list[int]:
        return list(NodeMetrics.objects.order_by("at").values_list("seconds", flat=True))

    # The newest minute and quarter are older than what is to go: nothing was put together since.
    metrics_prune(now)
    assert kept() == [900, 60, 60, 10, 10]
    for seconds in (60, 900):
        NodeMetrics.objects.create(node=node, seconds=seconds, at=now, simulated=False, values={})
    metrics_prune(now)
    assert sorted(kept()) == [10, 60, 60, 900, 900]


@pytest.mark.django_db
def test_old_times_are_read_by_the_minute_and_new_ones_by_the_reading():
    # Well within a quarter of an hour: no quarter ends between these minutes, and is put together too.
    now = datetime.fromtimestamp(timezone.now().timestamp() // 900 * 900 - 300, UTC)
    node = make_node()
    attempt = make_attempt(make_job(), gpus_of(node)[:1])
    for minutes_ago in (4, 3, 1):
        report(node, reading(now - timedelta(minutes=minutes_ago), gpus={0: 1.0, 1: 1.0}, attempt=attempt))
    metrics_roll_up(now - timedelta(minutes=2))
    minutes = [4, 3, 1]
    for rows in (
        node_rows(node.id, since=now - timedelta(hours=1), until=now),
        part_rows(attempt.parts.get(), since=now - timedelta(hours=1), until=now),
    ):
        # Readings where no minute is made of them yet.
        assert [row.seconds for row in rows] == [60, 60, 10]
        assert [row.at for row in rows] == [now - timedelta(minutes=ago) for ago in minutes]
    assert finest_kept(now - timedelta(hours=1), now) == 10
    assert finest_kept(now - timedelta(hours=3), now) == 60
    assert finest_kept(now - timedelta(days=90), now) == 900
