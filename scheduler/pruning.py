"""The pruning of what nobody will read again."""

from datetime import timedelta

from django.conf import settings
from django.db.models import Max

from scheduler.attempts.services.profiling import prune_class_profiles
from scheduler.clock import database_now
from scheduler.fairness.models import FairnessSample, FairnessViolation
from scheduler.forecasts.models import WhatIf
from scheduler.forecasts.services.questions import KEPT
from scheduler.ledger.services import prune_ledger
from scheduler.logs.services.retention import prune_logs
from scheduler.metrics.models import FragmentationSample, UsageSample
from scheduler.metrics.services import metrics_prune
from scheduler.notifications.services.dispatch import prune_deliveries
from scheduler.rounds.models import Round
from scheduler.sessions.services.opening import prune_sessions
from scheduler.sessions.services.port_passes import prune_passes
from scheduler.throughputs.services.measuring import prune_measurements
from tenants.audit.entries import prune_audit_log

_USAGE_KEPT = timedelta(days=7)
#: Samples of fairness, one a minute, and violations after their end.
SAMPLES_KEPT = timedelta(days=14)
VIOLATIONS_KEPT = timedelta(days=90)


def prune() -> None:
    newest = Round.objects.aggregate(newest=Max("number"))["newest"] or 0
    Round.objects.filter(number__lte=newest - settings.CONFIG.rounds_kept).delete()
    UsageSample.objects.filter(at__lt=database_now() - _USAGE_KEPT).delete()
    FragmentationSample.objects.filter(at__lt=database_now() - _USAGE_KEPT).delete()
    WhatIf.objects.filter(asked_at__lt=database_now() - KEPT).delete()
    prune_measurements()
    prune_class_profiles()
    metrics_prune()
    prune_ledger()
    prune_audit_log()
    prune_deliveries()
    prune_logs()
    prune_sessions()
    prune_passes()
    FairnessSample.objects.filter(at__lt=database_now() - SAMPLES_KEPT).delete()
    FairnessViolation.objects.filter(ended_at__lt=database_now() - VIOLATIONS_KEPT).delete()
