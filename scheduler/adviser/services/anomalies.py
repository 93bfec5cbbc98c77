"""Ask for a comparison of a virtual cluster with its private cluster; `scheduler.rounds` works it out."""

from datetime import timedelta

from django.db import transaction
from django.db.models import F

from scheduler.adviser.models import AnomalyReport, WorkState
from scheduler.clock import database_now
from scheduler.jobs.models import Job
from scheduler.wakeups import request_comparison
from tenants.errors import FieldError, Invalid, NotAllowed
from tenants.models import Role, VirtualCluster
from tenants.selectors import Viewer

HOURS = 24.0
MOST_HOURS = 24.0 * 31
#: A comparison that nobody has made after so long never will be.
PATIENCE = timedelta(minutes=5)
#: Each virtual cluster is compared again by itself after so long.
RENEWED_AFTER = timedelta(minutes=10)


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
            [FieldError("hours", f"{hours:g} does not fit", f"more than 0, at most {MOST_HOURS:g}")],
        )
    report, _ = AnomalyReport.objects.update_or_create(
        virtual_cluster=virtual_cluster,
        defaults={"state": WorkState.WAITING, "asked_at": database_now(), "hours": hours, "problem": ""},
    )
    transaction.on_commit(lambda: request_comparison(virtual_cluster.name))
    return report


def is_given_up(report: AnomalyReport) -> bool:
    """Whether the worker that had it must have died."""
    unanswered = report.state in (WorkState.WAITING, WorkState.RUNNING)
    return unanswered and report.asked_at < database_now() - PATIENCE


def outdated() -> list[str]:
    """Return the virtual clusters that should be compared anew: first those that never were."""
    now = database_now()
    lately = Job.objects.filter(guaranteed=True, submitted_at__gt=now - timedelta(hours=HOURS))
    rows = (
        VirtualCluster.objects.filter(id__in=lately.values("virtual_cluster_id"))
        .exclude(anomaly_report__made_at__gt=now - RENEWED_AFTER)
        .order_by(F("anomaly_report__made_at").asc(nulls_first=True), "name")
    )
    return list(rows.values_list("name", flat=True))
