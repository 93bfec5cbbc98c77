"""What progress lines of running attempts make known of their job class's throughput."""

from dataclasses import asdict
from datetime import timedelta

import pytest
from django.utils import timezone

from nodeagent.messages import PROTOCOL, PartReport, ProgressLine, Report
from scheduler.agents.services.reports import report_apply
from scheduler.clock import database_now
from scheduler.core.building_blocks.pace import Pace
from scheduler.models import Attempt, Node, SpeedMeasurement
from scheduler.pruning import prune
from scheduler.throughputs.services import measuring
from scheduler.throughputs.services.measuring import fewest_nodes
from tests.scheduler.builders import gpus_of, make_attempt, make_job, make_measurement, make_node, make_tenant

pytestmark = pytest.mark.django_db

BEGAN = 1_700_000_000.0


def progress(
    node: Node, attempt: Attempt, *lines: tuple[float, float | None], state: str = "running"
) -> None:
    """Report lines: (seconds since the attempt's first, samples so far)."""
    first = attempt.progress.count() + 1
    told = tuple(
        ProgressLine(sequence=first + place, at=BEGAN + at, step=int(at), samples=samples, values={})
        for place, (at, samples) in enumerate(lines)
    )
    ended = {"exit_code": 0, "started_at": BEGAN, "ended_at": BEGAN + 1} if state == "exited" else {}
    part = PartReport(attempt=attempt.id, state=state, progress=told, **ended)
    report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))


def known() -> list[tuple[str, float, int]]:
    rows = SpeedMeasurement.objects.order_by("application", "partner")
    return [(row.application, round(row.average, 6), row.samples) for row in rows]


def running(node: Node, *, application: str = "bert", gpus: int = 1, first: int = 0, **spec) -> Attempt:
    job = make_job(gpus=gpus, **spec)
    job.shape["application"] = application
    job.save()
    return make_attempt(job, gpus_of(node)[first : first + gpus])


def test_windows_of_a_minute_are_measured_after_the_first_seconds() -> None:
    node = make_node()
    attempt = running(node, gpus=2)
    # Ten slow seconds of loading and compiling do not count.
    progress(node, attempt, (0, 0), (5, 1), (10, 2), (30, 202), (60, 502))
    assert known() == []
    progress(node, attempt, (70, 602))
    assert known() == [("bert", 10.0, 1)]
    progress(node, attempt, (100, 1_202), (129, 1_780))
    assert known() == [("bert", 10.0, 1)]
    progress(node, attempt, (130, 1_802))
    # 20 a second in the second window, of which the average takes half.
    assert known() == [("bert", 15.0, 2)]
    row = SpeedMeasurement.objects.get()
    assert (row.gpu_model, row.gpus, row.spread, row.partner, row.variance) == ("V100", 2, False, "", 25.0)
    assert row.tenant == attempt.job.tenant
    attempt.refresh_from_db()
    assert attempt.measured_at.timestamp() == BEGAN + 130


def test_repeated_lines_change_nothing() -> None:
    node = make_node()
    attempt = running(node)
    for _ in range(3):
        lines = tuple(
            ProgressLine(sequence=n, at=BEGAN + 30 * n, step=n, samples=300.0 * n, values={})
            for n in range(1, 5)
        )
        part = PartReport(attempt=attempt.id, state="running", progress=lines)
        report_apply(node, Report(protocol=PROTOCOL, boot=node.boot, generation=0, parts=(part,)))
    assert known() == [("bert", 10.0, 1)]


def test_a_job_that_ends_within_the_minute_is_measured_as_well() -> None:
    node = make_node()
    attempt = running(node, application="")
    progress(node, attempt, (0, 0), (10, 100), (25, 400))
    progress(node, attempt, (26, 420), state="exited")
    assert known() == [(f"name:{attempt.job.name}", 20.0, 1)]


def test_the_end_may_be_reported_after_the_last_line() -> None:
    node = make_node()
    attempt = running(node)
    progress(node, attempt, (0, 0), (10, 100), (25, 400))
    progress(node, attempt, state="exited")
    assert known() == [("bert", 20.0, 1)]


def test_what_says_nothing_is_not_recorded(caplog: pytest.LogCaptureFixture) -> None:
    node = make_node()
    attempt = running(node)
    # It stands still, goes backwards, then claims more than any gang can do.
    progress(node, attempt, (0, 50), (10, 50), (70, 50), (130, 10))
    progress(node, attempt, (190, 1e15))
    assert known() == []
    make_measurement(attempt.job.tenant, "bert", 5.0, samples=9)
    progress(node, attempt, (250, 1e15 + 6e9))
    assert known() == [("bert", 5.0, 9)]
    assert "say nothing beside 5 on record" in caplog.text


def test_a_gang_on_more_nodes_than_needed_is_spread() -> None:
    first, second = make_node(gpus=2), make_node(gpus=2)
    job = make_job(replicas=2, gpus=1)
    attempt = make_attempt(job, [gpus_of(first)[0], gpus_of(second)[0]])
    progress(first, attempt, (0, 0), (10, 0), (70, 60))
    assert SpeedMeasurement.objects.get().spread
    whole = make_attempt(make_job(replicas=2, gpus=1), gpus_of(make_node(gpus=2)))
    progress(whole.parts.get().node, whole, (0, 0), (10, 0), (70, 60))
    assert SpeedMeasurement.objects.filter(spread=False).count() == 1


def test_how_many_nodes_are_needed() -> None:
    assert fewest_nodes([4, 4], 8) == 1
    assert fewest_nodes([3, 3, 3, 3, 3], 8) == 3
    assert fewest_nodes([2, 6, 2, 6], 8) == 2
    # A node that is gone: no more than a replica is known to fit on one.
    assert fewest_nodes([4, 4], 0) == 2


def together(node: Node, **of_the_second) -> tuple[Attempt, Attempt]:
    """Two attempts that share a GPU."""
    tenant = make_tenant()
    first = running(node, application="bert", tenant=tenant)
    second = running(node, application="gpt", tenant=tenant, first=1)
    second.allocation.gpus.all().delete()
    second.allocation = first.allocation
    for name, value in of_the_second.items():
        setattr(second, name, value)
    second.save()
    long_ago = timezone.now() - timedelta(hours=1)
    Attempt.objects.filter(id=first.id).update(running_at=long_ago)
    if "running_at" not in of_the_second:
        Attempt.objects.filter(id=second.id).update(running_at=long_ago)
    return first, second


def test_beside_a_partner_the_throughput_is_relative_to_being_alone() -> None:
    node = make_node()
    first, second = together(node)
    progress(node, first, (0, 0), (10, 0), (70, 600))
    assert known() == []
    make_measurement(first.job.tenant, "bert", 20.0)
    progress(node, first, (130, 1_200))
    row = SpeedMeasurement.objects.exclude(partner="").get()
    assert (row.application, row.partner, row.average) == ("bert", "gpt", 0.5)
    # The second declares how fast it is alone; what shows a gain counts as 1.
    second.job.shape["throughput"] = {"V100": 4.0}
    second.job.save()
    progress(node, second, (0, 0), (10, 0), (70, 360))
    row = SpeedMeasurement.objects.get(application="gpt")
    assert (row.partner, row.average) == ("bert", 1.0)
    assert SpeedMeasurement.objects.get(application="bert", partner="").average == 20.0


def test_a_job_that_tells_only_steps_is_measured_beside_a_partner_by_its_own_steps_alone() -> None:
    node = make_node()
    first, _ = together(node)
    # A step a second; two were timed alone, for too short a time at first.
    for timed_steps, seconds in ((100.0, 50.0), (200.0, 100.0)):
        first.job.pace = asdict(
            Pace(step=timed_steps, total_steps=1e6, timed_steps=timed_steps, timed={"V100": seconds})
        )
        first.job.save()
        assert known() == []
        progress(node, first, *[(at + 10 * seconds, None) for at in (0, 10, 70)])
    row = SpeedMeasurement.objects.get()
    assert (row.application, row.partner, row.average) == ("bert", "gpt", 0.5)


def test_steps_of_another_gpu_model_or_of_a_job_alone_measure_nothing() -> None:
    node = make_node()
    alone = running(node, first=2)
    elsewhere, _ = together(node)
    for attempt, model in ((alone, "V100"), (elsewhere, "K80")):
        attempt.job.pace = asdict(Pace(step=200, total_steps=1e6, timed_steps=200, timed={model: 100.0}))
        attempt.job.save()
        progress(node, attempt, (0, None), (10, None), (70, None))
    assert known() == []


@pytest.mark.parametrize(
    "times",
    [
        # It came half a minute ago, or left then.
        {"running_at": timezone.now() - timedelta(seconds=30)},
        {"state": "ended", "outcome": "succeeded", "ended_at": timezone.now() - timedelta(seconds=30)},
    ],
)
def test_a_window_that_was_shared_in_part_says_nothing(times: dict) -> None:
    node = make_node()
    first, _ = together(node, **times)
    now = timezone.now()
    shifted = {name: now - timedelta(seconds=30) for name in times if name.endswith("_at")}
    Attempt.objects.exclude(id=first.id).update(**shifted)
    progress(node, first, (0, 0), (10, 0), (70, 600))
    assert known() == []


def test_a_partner_that_left_long_ago_or_never_ran_does_not_count() -> None:
    node = make_node()
    ended = timezone.now() - timedelta(minutes=10)
    first, second = together(node, state="ended", outcome="succeeded", ended_at=ended)
    progress(node, first, (0, 0), (10, 0), (70, 600))
    assert known() == [("bert", 10.0, 1)]
    Attempt.objects.filter(id=second.id).update(running_at=None, ended_at=timezone.now())
    progress(node, first, (130, 1_200))
    assert known() == [("bert", 10.0, 2)]


def test_a_tenant_has_room_for_so_many_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "MOST_SETTINGS_PER_TENANT", 2)
    node, tenant = make_node(), make_tenant()
    now = database_now()
    make_measurement(tenant, "old", 1.0, updated_at=now - timedelta(hours=2))
    make_measurement(tenant, "newer", 1.0, updated_at=now - timedelta(hours=1))
    make_measurement(make_tenant(), "another-tenants", 1.0, updated_at=now - timedelta(hours=3))
    attempt = running(node, tenant=tenant)
    progress(node, attempt, (0, 0), (10, 0), (70, 600))
    assert [name for name, _, _ in known()] == ["another-tenants", "bert", "newer"]


def test_what_is_measured_no_more_is_forgotten_after_a_while() -> None:
    tenant, now = make_tenant(), database_now()
    make_measurement(tenant, "old", 1.0, updated_at=now - measuring.KEPT - timedelta(hours=1))
    make_measurement(tenant, "kept", 1.0, updated_at=now - measuring.KEPT + timedelta(hours=1))
    prune()
    assert [name for name, _, _ in known()] == ["kept"]
