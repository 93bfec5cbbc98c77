"""What progress lines of running attempts make known of their job class's throughput."""

from dataclasses import asdict
from datetime import timedelta

import pytest
from django.utils import timezone

from nodeagent.messages import PROTOCOL, PartReport, ProgressLine, Report
from scheduler.agents.services.reports import report_apply
from scheduler.core.building_blocks.pace import Pace
from scheduler.core.model.gpu_parts import GpuPart
from scheduler.core.perf.estimator import Group, Pair
from scheduler.core.perf.throughput import JobClass
from scheduler.models import Attempt, Node, SpeedMeasurement
from scheduler.tasks.pruning import prune
from scheduler.telemetry.throughputs.services import measuring
from scheduler.telemetry.throughputs.services.measuring import fewest_nodes
from scheduler.telemetry.throughputs.services.on_record import read_estimator
from scheduler.wiring.clock import database_now
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


def running(
    node: Node,
    *,
    application: str = "bert",
    gpus: int = 1,
    first: int = 0,
    part: GpuPart | None = None,
    **spec,
) -> Attempt:
    job = make_job(gpus=gpus, **spec)
    job.shape["application"] = application
    job.save()
    count = gpus * spec.get("replicas", 1)
    return make_attempt(job, gpus_of(node)[first : first + count], part=part)


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
    assert "are ignored: too far from 5 on record" in caplog.text


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
    monkeypatch.setattr(measuring, "MOST_PER_TENANT", 2)
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


def with_part(node: Node, *, request: int, limit: int, **spec) -> Attempt:
    """An attempt with a part of the node's first GPU, that has run for an hour."""
    attempt = running(node, part=GpuPart(request=request, limit=limit), **spec)
    attempt.job.shape["tasks"][0].append([request, limit, 0])
    attempt.job.save()
    Attempt.objects.filter(id=attempt.id).update(running_at=timezone.now() - timedelta(hours=1))
    return attempt


def settings() -> list[tuple[str, str, int, float]]:
    rows = SpeedMeasurement.objects.order_by("id")
    return [(row.application, row.partner, row.gpu_limit, round(row.average, 6)) for row in rows]


def test_jobs_with_parts_of_one_gpu_are_measured_alone_and_beside_each_other() -> None:
    node, tenant = make_node(), make_tenant()
    first = with_part(node, application="bert", tenant=tenant, request=300, limit=600)
    progress(node, first, (0, 0), (10, 0), (70, 600))
    # In a part of a GPU it says nothing of how fast it is with all of it.
    assert settings() == [("bert", "", 600, 10.0)]
    assert not read_estimator().throughputs(JobClass(tenant.name, "bert"), 1, ["V100"])
    second = with_part(node, application="gpt", tenant=tenant, request=500, limit=500)
    progress(node, first, (130, 1_080))
    assert settings()[1:] == [("bert", "gpt", 600, 0.8)]
    # Nobody knows how fast the second is alone.
    progress(node, second, (0, 0), (10, 0), (70, 600))
    assert len(settings()) == 2
    assert not read_estimator().pairs
    progress(node, second, (71, 610), state="exited")
    Attempt.objects.filter(id=second.id).update(ended_at=timezone.now() - timedelta(minutes=2))
    second.allocation.gpus.update(phase="released", released_at=timezone.now() - timedelta(minutes=2))
    progress(node, first, (190, 1_680))
    assert SpeedMeasurement.objects.get(partner="").samples == 2


def test_parts_that_may_use_the_whole_gpu_tell_policies_of_the_pair() -> None:
    node, tenant = make_node(), make_tenant()
    pair = [
        with_part(node, application=name, tenant=tenant, request=request, limit=1_000)
        for name, request in (("bert", 300), ("gpt", 700))
    ]
    for name in ("bert", "gpt"):
        make_measurement(tenant, name, 20.0)
    for attempt, samples in zip(pair, (720, 1_080), strict=True):
        progress(node, attempt, (0, 0), (10, 0), (70, samples))
    assert dict(read_estimator().pairs) == {Pair("bert", "gpt", 1, "V100"): (0.6, 0.9)}
    assert not measuring.has_gpus_alone(pair[0])
    # Who is held to less makes room, and says nothing of a partner that is not.
    with_part(make_node(), application="t5", tenant=tenant, request=300, limit=300)
    other = make_node()
    free = with_part(other, application="bert", tenant=tenant, request=300, limit=1_000)
    with_part(other, application="t5", tenant=tenant, request=300, limit=300)
    progress(other, free, (0, 0), (10, 0), (70, 1_200))
    assert [row for row in settings() if "t5" in row] == []


def test_up_to_four_jobs_with_parts_of_a_gpu_are_measured_beside_all_who_are_there() -> None:
    node, tenant = make_node(), make_tenant()
    names = ("bert", "gpt", "t5")
    three = [
        with_part(node, application=name, tenant=tenant, request=200, limit=1_000) for name in reversed(names)
    ]
    for name in names:
        make_measurement(tenant, name, 20.0)
    for attempt, samples in zip(three, (600, 480, 720), strict=True):
        progress(node, attempt, (0, 0), (10, 0), (70, samples))
    assert [row for row in settings() if row[1]] == [
        ("t5", "bert+gpt", 1_000, 0.5),
        ("gpt", "bert+t5", 1_000, 0.4),
        ("bert", "gpt+t5", 1_000, 0.6),
    ]
    assert dict(read_estimator().groups) == {Group(names, 1, "V100"): (0.6, 0.4, 0.5)}
    assert not read_estimator().pairs
    fourth = with_part(node, application="t5", tenant=tenant, request=200, limit=1_000)
    progress(node, fourth, (0, 0), (10, 0), (70, 300))
    assert settings()[-1] == ("t5", "bert+gpt+t5", 1_000, 0.25)
    # Of five nothing is recorded.
    fifth = with_part(node, application="vit", tenant=tenant, request=200, limit=1_000)
    make_measurement(tenant, "vit", 20.0)
    before = settings()
    progress(node, fifth, (0, 0), (10, 0), (70, 300))
    assert settings() == before


def test_a_gang_that_shares_only_some_of_its_gpus_says_nothing() -> None:
    node, tenant = make_node(), make_tenant()
    gang = with_part(node, application="bert", tenant=tenant, request=300, limit=300, replicas=2)
    with_part(node, application="gpt", tenant=tenant, request=300, limit=300)
    progress(node, gang, (0, 0), (10, 0), (70, 600))
    assert settings() == []
