"""Samples of usage over time, and the pruning of what nobody will read again."""

from collections import Counter
from datetime import timedelta

from django.conf import settings
from django.db.models import Max

from scheduler import stream
from scheduler.clock import database_now
from scheduler.core.model.lifecycle import HoldPhase
from scheduler.models import (
    AllocatedGpu,
    FairnessSample,
    FairnessViolation,
    Gpu,
    Round,
    UsageSample,
    WhatIf,
)
from scheduler.services.jobs.questions import KEPT
from scheduler.services.logs.retention import prune_logs
from scheduler.services.market.ledger import prune_ledger
from scheduler.services.metrics.rolling import metrics_prune
from scheduler.services.notices.telling import prune_deliveries
from scheduler.services.sessions.opening import prune_sessions
from scheduler.services.sessions.port_passes import prune_passes
from scheduler.services.speeds.measuring import prune_measurements
from tenants.audit.retention import prune_audit_log

_USAGE_KEPT = timedelta(days=7)
#: Samples of fairness, one a minute, and violations after their end.
SAMPLES_KEPT = timedelta(days=14)
VIOLATIONS_KEPT = timedelta(days=90)


def sample_usage() -> None:
    """Write down how many GPUs each tenant holds now."""
    held = AllocatedGpu.objects.filter(phase=HoldPhase.HELD)
    # An allocation shared by several tenants' jobs counts for the first of them.
    tenants = held.order_by("gpu_id", "allocation__attempts__id").distinct("gpu_id")
    by_tenant = Counter(tenants.values_list("allocation__attempts__job__tenant__name", flat=True))
    sample = UsageSample.objects.create(
        at=database_now(),
        total=Gpu.objects.filter(present=True).count(),
        held=sum(by_tenant.values()),
        by_tenant=dict(by_tenant),
    )
    stream.publish_usage(
        {
            "at": sample.at.isoformat(),
            "total": sample.total,
            "held": sample.held,
            "by_tenant": sample.by_tenant,
        }
    )


def prune() -> None:
    newest = Round.objects.aggregate(newest=Max("number"))["newest"] or 0
    Round.objects.filter(number__lte=newest - settings.CONFIG.rounds_kept).delete()
    UsageSample.objects.filter(at__lt=database_now() - _USAGE_KEPT).delete()
    WhatIf.objects.filter(asked_at__lt=database_now() - KEPT).delete()
    prune_measurements()
    metrics_prune()
    prune_ledger()
    prune_audit_log()
    prune_deliveries()
    prune_logs()
    prune_sessions()
    prune_passes()
    FairnessSample.objects.filter(at__lt=database_now() - SAMPLES_KEPT).delete()
    FairnessViolation.objects.filter(ended_at__lt=database_now() - VIOLATIONS_KEPT).delete()
