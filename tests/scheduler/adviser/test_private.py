"""Live comparisons with private clusters: from rows of the past to what a reader is shown."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler import tasks
from scheduler.forecasts.adviser.services import comparisons
from scheduler.forecasts.adviser.services.comparisons import outdated
from scheduler.forecasts.adviser.services.past import read_past
from scheduler.forecasts.adviser.services.private import compare_with_private
from scheduler.forecasts.services import facts
from scheduler.models import AnomalyReport, Event, Job
from scheduler.wiring import wakeups
from tenants.selectors import viewer_of
from tests.scheduler.builders import (
    gpus_of,
    held_since,
    make_attempt,
    make_job,
    make_member,
    make_node,
    make_tenant,
    make_user,
    make_vc,
)

pytestmark = pytest.mark.django_db

HOUR = 3_600.0


@pytest.fixture(autouse=True)
def _no_history(monkeypatch):
    monkeypatch.setattr(facts, "_read", None)


@pytest.fixture
def asked(monkeypatch, django_capture_on_commit_callbacks):
    """The virtual clusters whose comparison was asked for."""
    names = []
    monkeypatch.setattr(wakeups, "request_comparison", lambda name, **_: names.append(name))
    monkeypatch.setattr(
        "scheduler.forecasts.adviser.services.comparisons.request_comparison", lambda name: names.append(name)
    )
    return names


@pytest.fixture
def research():
    """Two nodes of four GPUs; research is guaranteed one of them."""
    vision = make_tenant("vision")
    nodes = [make_node(f"n{number}", gpus=4) for number in (1, 2)]
    return make_vc("research", members=[vision], guaranteed={"V100": 4}), vision, nodes


def ran(research, *, submitted, started, ended, gpus=4, node=0, **spec):
    """A job of the past; instants are minutes before now, and None for what has not come yet."""
    vc, tenant, nodes = research
    now = timezone.now()

    def ago(minutes):
        return None if minutes is None else now - timedelta(minutes=minutes)

    state = "queued" if started is None else "running" if ended is None else "succeeded"
    columns = {"ended_at": ago(ended)} if started is not None else {}
    job = make_job(
        tenant=tenant,
        virtual_cluster=vc,
        gpus=gpus,
        submitted_at=ago(submitted),
        state=state,
        columns=columns,
        **spec,
    )
    if started is not None:
        over = ended is not None
        attempt = make_attempt(
            job,
            gpus_of(nodes[node])[:gpus],
            state="ended" if over else "running",
            phase="released" if over else "held",
            **({"outcome": "succeeded"} if over else {}),
        )
        held_since(attempt, ago(started), ago(ended))
    return job


def told(job, code, minutes, number=1):
    """What the job was told that many minutes ago."""
    Event.objects.create(
        at=timezone.now() - timedelta(minutes=minutes),
        kind="job.waiting",
        subject="job",
        subject_id=job.id,
        job_id=job.id,
        actor=f"round {number}",
        message=f"because of {code}",
        data={"code": code},
    )


def found(name="research", hours=24.0):
    return compare_with_private(name, hours=hours).comparison


class TestPast:
    def test_stays_and_waits(self, research):
        job = ran(research, submitted=60, started=50, ended=20)
        now = timezone.now().timestamp()
        (past,) = read_past(since=now - HOUR * 2, until=now, most=10)
        assert past.job.id == job.id
        assert now - past.started_at == pytest.approx(50 * 60, abs=2)
        assert past.held_seconds(0, now) == pytest.approx(30 * 60, abs=1)
        assert past.waited(now).seconds == pytest.approx(10 * 60, abs=2)
        assert past.stay_at(now - 30 * 60).gpus == 4
        assert past.stay_at(now) is None

    def test_what_was_over_before_is_not_read(self, research):
        ran(research, submitted=300, started=290, ended=200)
        now = timezone.now().timestamp()
        assert read_past(since=now - HOUR, until=now, most=10) == []

    def test_the_newest_are_read_when_there_are_too_many(self, research):
        jobs = [ran(research, submitted=60 - n, started=None, ended=None) for n in range(4)]
        now = timezone.now().timestamp()
        past = read_past(since=now - HOUR * 2, until=now, most=2, virtual_cluster="research")
        assert [each.job.id for each in past] == [job.id for job in jobs[2:]]


class TestComparison:
    def test_who_waited_in_vain_is_named_with_what_it_was_told(self, research):
        """It waited half an hour though nobody of its own virtual cluster was on its four GPUs."""
        job = ran(research, submitted=60, started=30, ended=20)
        told(job, "fragmented", 60, 17)
        told(job, "first_in_line", 40, 18)
        compared = compare_with_private("research", hours=24)
        (anomaly,) = compared.comparison.anomalies
        assert anomaly.delay.real_seconds == pytest.approx(30 * 60, abs=2)
        # The first round comes with the clock's next tick.
        assert anomaly.delay.private_seconds <= 5.0
        assert compared.names == {job.id: job.name}
        comparisons.run_comparison("research")
        report = AnomalyReport.objects.get()
        assert report.state == "done"
        (shown,) = report.found["anomalies"]
        assert (shown["cause"], shown["message"], shown["round"]) == (
            "fragmentation",
            "because of fragmented",
            17,
        )
        assert report.found["count"] == 1
        assert report.found["hard_affinity_count"] == 1

    def test_who_waited_for_its_own_is_not(self, research):
        ran(research, submitted=60, started=60, ended=30)
        ran(research, submitted=50, started=30, ended=10)
        comparison = found()
        assert comparison.jobs == 2
        assert comparison.anomalies == ()
        assert comparison.private.mean == pytest.approx(comparison.real.mean, abs=10)

    def test_who_still_waits_counts_with_the_wait_so_far(self, research):
        ran(research, submitted=30, started=None, ended=None)
        (anomaly,) = found().anomalies
        assert anomaly.delay.real_seconds == pytest.approx(30 * 60, abs=2)

    def test_who_runs_goes_on_to(self, research):
        """The first has the GPUs till now, there as here, so the second waits there as well."""
        ran(research, submitted=60, started=60, ended=None)
        ran(research, submitted=50, started=None, ended=None, node=1)
        assert found().anomalies == ()

    def test_who_was_there_before_is_there_and_is_not_compared(self, research):
        ran(research, submitted=180, started=170, ended=30)
        ran(research, submitted=50, started=30, ended=10)
        comparison = found(hours=1.0)
        assert (comparison.jobs, comparison.anomalies) == (1, ())

    def test_who_gave_up_waiting_counts_until_then(self, research):
        job = ran(research, submitted=60, started=None, ended=None)
        Job.objects.filter(id=job.id).update(
            state="cancelled", ended_at=timezone.now() - timedelta(minutes=20)
        )
        (anomaly,) = found().anomalies
        assert anomaly.delay.real_seconds == pytest.approx(40 * 60, abs=2)

    def test_who_was_put_on_hold_is_not_compared(self, research):
        job = ran(research, submitted=60, started=30, ended=20)
        Event.objects.create(
            at=timezone.now(), kind="job.held", subject="job", subject_id=job.id, job_id=job.id
        )
        assert (found().jobs, found().anomalies) == (0, ())

    def test_opportunistic_jobs_were_promised_nothing(self, research):
        ran(research, submitted=60, started=None, ended=None, guaranteed=False)
        assert found().jobs == 0

    def test_a_virtual_cluster_without_jobs_is_compared_too(self, research):
        comparisons.run_comparison("research")
        report = AnomalyReport.objects.get()
        assert (report.state, report.found["jobs"], report.found["delay"]) == ("done", 0, None)
        comparisons.run_comparison("gone")


class TestReaders:
    def test_others_jobs_have_no_names(self, research):
        vc, vision, _ = research
        job = ran(research, submitted=60, started=30, ended=20)
        told(job, "fragmented", 60)
        comparisons.run_comparison("research")
        report = AnomalyReport.objects.get()
        own, other = make_member(vision), make_user()

        def anomaly(user):
            return comparisons.comparison_represented(vc, report, viewer_of(user))["anomalies"][0]

        assert (anomaly(own)["name"], anomaly(own)["tenant"]) == (job.name, "vision")
        assert (anomaly(other)["name"], anomaly(other)["tenant"], anomaly(other)["message"]) == ("", None, "")
        assert anomaly(other)["extra_seconds"] == anomaly(own)["extra_seconds"]

    def test_never_compared(self, research):
        shown = comparisons.comparison_represented(research[0], None, viewer_of(make_user()))
        assert (shown["state"], shown["jobs"], shown["anomalies"]) == ("never", 0, [])

    def test_what_nobody_works_out_is_given_up(self, research):
        long_ago = timezone.now() - timedelta(hours=1)
        report = AnomalyReport.objects.create(virtual_cluster=research[0], asked_at=long_ago, hours=24)
        shown = comparisons.comparison_represented(research[0], report, viewer_of(make_user()))
        assert (shown["state"], shown["problem"]) == ("failed", "No worker computed it; ask again.")


class TestRenewal:
    def test_those_with_jobs_are_compared_by_themselves_the_oldest_first(self, research, asked):
        ran(research, submitted=60, started=30, ended=20)
        other = make_vc("products", members=[research[1]], guaranteed={"V100": 4})
        ran((other, *research[1:]), submitted=60, started=30, ended=20)
        make_vc("idle")
        comparisons.run_comparison("products")
        AnomalyReport.objects.update(made_at=timezone.now() - timedelta(minutes=11))
        assert outdated() == ["research", "products"]
        tasks.renew_comparisons()
        assert asked == ["research", "products"]
        comparisons.run_comparison("research")
        assert outdated() == ["products"]

    def test_a_failure_is_told_and_keeps_nobody_from_their_turn(self, research, monkeypatch):
        ran(research, submitted=60, started=30, ended=20)

        def broken(name, *, hours):
            raise RuntimeError("a bug")

        monkeypatch.setattr(comparisons, "compare_with_private", broken)
        with pytest.raises(RuntimeError):
            tasks.compare_with_private("research")
        report = AnomalyReport.objects.get()
        assert report.state == "failed"
        assert "operators find the cause" in report.problem
        assert outdated() == []
