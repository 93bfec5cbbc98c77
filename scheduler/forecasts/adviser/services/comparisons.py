"""Comparisons of virtual clusters with their private clusters: asked for, kept when `private` has made them,
and shown to each reader as far as the reader may see them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from scheduler.core.sim.anomalies import with_evidence
from scheduler.core.sim.delays import Anomaly, Comparison
from scheduler.forecasts.adviser.services.private import (
    MOST_JOBS,
    ComparisonRun,
    compare_with_private,
    evidence_for,
)
from scheduler.forecasts.services import turns
from scheduler.forecasts.services.forecasting import instant
from scheduler.models.adviser import AnomalyReport, WorkState
from scheduler.models.jobs import Job
from scheduler.wiring.clock import database_now
from scheduler.wiring.wakeups import request_comparison
from tenants.after_commit import after_commit
from tenants.errors import FieldError, Invalid, NotAllowed
from tenants.models import Role, VirtualCluster
from tenants.selectors import Viewer
from tenants.times import iso

HOURS = 24.0
MOST_HOURS = 24.0 * 31
#: A comparison that is not made after this time never will be.
PATIENCE = timedelta(minutes=5)
#: Each virtual cluster is compared again automatically after this time.
RENEWED_AFTER = timedelta(minutes=10)
#: Of more anomalies than this, the worst are named; all are counted.
NAMED = 200
TOO_LONG = "It took too long to work out; ask for fewer hours."


@transaction.atomic
def comparison_ask(*, viewer: Viewer, virtual_cluster: VirtualCluster, hours: float = HOURS) -> AnomalyReport:
    """Have a virtual cluster compared with its private cluster soon, by one of its members or an operator."""
    members = virtual_cluster.members.values_list("tenant_id", flat=True)
    if not viewer.is_operator and not any(viewer.may(tenant, Role.MEMBER) for tenant in members):
        raise NotAllowed(
            f"This is for members of tenants of virtual cluster {virtual_cluster.name}, and for operators."
        )
    if not 0 < hours <= MOST_HOURS:
        raise Invalid(
            "hours is out of range.",
            [FieldError("hours", f"{hours:g} is out of range", f"more than 0, at most {MOST_HOURS:g}")],
        )
    report, _ = AnomalyReport.objects.update_or_create(
        virtual_cluster=virtual_cluster,
        defaults={"state": WorkState.WAITING, "asked_at": database_now(), "hours": hours, "problem": ""},
    )
    after_commit(request_comparison, virtual_cluster.name)
    return report


def is_given_up(report: AnomalyReport) -> bool:
    """Whether the worker that had it must have died."""
    unanswered = report.state in (WorkState.WAITING, WorkState.RUNNING)
    return unanswered and report.asked_at < database_now() - PATIENCE


def outdated() -> list[str]:
    """Return the virtual clusters that should be compared again: first those that never were."""
    now = database_now()
    lately = Job.objects.filter(guaranteed=True, submitted_at__gt=now - timedelta(hours=HOURS))
    rows = (
        VirtualCluster.objects.filter(id__in=lately.values("virtual_cluster_id"))
        .exclude(anomaly_report__made_at__gt=now - RENEWED_AFTER)
        .order_by(F("anomaly_report__made_at").asc(nulls_first=True), "name")
    )
    return list(rows.values_list("name", flat=True))


def run_comparison(name: str) -> None:
    """Compare a virtual cluster with its private cluster, and keep what is found; nothing if it is gone."""
    virtual_cluster = VirtualCluster.objects.filter(name=name).first()
    if virtual_cluster is None:
        return
    report, _ = AnomalyReport.objects.get_or_create(
        virtual_cluster=virtual_cluster, defaults={"asked_at": database_now(), "hours": HOURS}
    )
    AnomalyReport.objects.filter(pk=report.pk).update(state=WorkState.RUNNING)
    compared = compare_with_private(name, hours=report.hours)
    evidence = evidence_for(compared.comparison, NAMED)
    with transaction.atomic():
        AnomalyReport.objects.filter(pk=report.pk).update(
            state=WorkState.DONE,
            problem="",
            made_at=database_now(),
            since=datetime.fromtimestamp(compared.since, UTC),
            until=datetime.fromtimestamp(compared.until, UTC),
            found=_stored(with_evidence(compared.comparison, evidence), compared),
        )


def seconds_waited(name: str) -> float | None:
    """Return for how long someone has waited for it; None: nothing waits for it any more."""
    return turns.seconds_waited(AnomalyReport.objects.filter(virtual_cluster__name=name), PATIENCE)


def give_up(name: str, problem: str) -> None:
    """Record that there is no comparison, and why."""
    rows = AnomalyReport.objects.filter(virtual_cluster__name=name)
    # When it was last tried is noted too: what fails must not keep the others from their turn.
    rows.update(state=WorkState.FAILED, problem=problem, made_at=database_now())


def comparison_represented(
    virtual_cluster: VirtualCluster, report: AnomalyReport | None, viewer: Viewer
) -> dict[str, Any]:
    """Return a report as the viewer may see it: of others' jobs, no names and no reasons."""
    found: Mapping[str, Any] = (report.found if report else None) or nothing_found()
    given_up = report is not None and is_given_up(report)
    return {
        "virtual_cluster": virtual_cluster.name,
        "state": _state(report, given_up),
        "problem": "No worker computed it; ask again." if given_up else report.problem if report else "",
        "made_at": iso(report.made_at) if report and report.found else None,
        "since": iso(report.since) if report else None,
        "until": iso(report.until) if report else None,
        **{name: value for name, value in found.items() if name != "anomalies"},
        "anomalies": [_as_seen_by(viewer, anomaly) for anomaly in found["anomalies"]],
    }


def _state(report: AnomalyReport | None, given_up: bool) -> str:
    if report is None:
        return "never"
    if given_up:
        return WorkState.FAILED
    return WorkState.WAITING if report.state == WorkState.RUNNING else report.state


def _as_seen_by(viewer: Viewer, anomaly: Mapping[str, Any]) -> dict[str, Any]:
    if viewer.is_operator or anomaly["tenant"] in viewer.tenant_names:
        return dict(anomaly)
    return {**anomaly, "name": "", "tenant": None, "message": ""}


def nothing_found() -> dict[str, Any]:
    """Return what is known of a virtual cluster that was never compared."""
    return {
        "jobs": 0,
        "never": 0,
        "delay": None,
        "series": [],
        "tolerance_seconds": 0.0,
        "count": 0,
        "total_extra_seconds": 0.0,
        "hard_affinity_count": 0,
        "assumption": "",
        "anomalies": [],
    }


def _stored(comparison: Comparison, compared: ComparisonRun) -> dict[str, Any]:
    return {
        "jobs": comparison.jobs,
        "never": comparison.never,
        "delay": {
            "real_mean_seconds": comparison.real.mean,
            "private_mean_seconds": comparison.private.mean,
            "real_p95_seconds": comparison.real.p95,
            "private_p95_seconds": comparison.private.p95,
        }
        if comparison.jobs
        else None,
        "series": [
            {
                "at": instant(point.at),
                "real_seconds": point.real_seconds,
                "private_seconds": point.private_seconds,
            }
            for point in comparison.series
        ],
        "tolerance_seconds": comparison.tolerance_seconds,
        "count": len(comparison.anomalies),
        "total_extra_seconds": comparison.total_extra_seconds,
        "hard_affinity_count": comparison.hard_affinity_count,
        "assumption": _assumption(comparison, compared),
        "anomalies": [_anomaly(anomaly, compared.names) for anomaly in comparison.anomalies[:NAMED]],
    }


def _anomaly(anomaly: Anomaly, names: Mapping[Any, str]) -> dict[str, Any]:
    delay, evidence = anomaly.delay, anomaly.evidence
    return {
        "job": delay.job,
        "name": names[delay.job],
        "tenant": delay.tenant,
        "gpus": delay.gpus,
        "submitted_at": instant(delay.submitted_at),
        "real_delay_seconds": delay.real_seconds,
        "private_delay_seconds": delay.private_seconds,
        "extra_seconds": delay.extra_seconds,
        "hard_affinity": delay.hard_affinity,
        "cause": str(evidence.cause),
        "message": evidence.message,
        "round": evidence.round_number,
    }


def _assumption(comparison: Comparison, compared: ComparisonRun) -> str:
    sentences: Sequence[str] = (
        f"Only the newest {MOST_JOBS:,} jobs were looked at." if compared.is_cut else "",
        f"Left out, because the private cluster could never run them: {comparison.never:,}."
        if comparison.never
        else "",
    )
    return " ".join(
        [
            "The private cluster has what the virtual cluster is promised now, all of it working, and its"
            " policy; jobs hold GPUs there as long as they did here. Jobs put on hold by someone are not"
            " compared.",
            *filter(None, sentences),
        ]
    )
