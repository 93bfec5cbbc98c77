"""The pruning of rows that will not be read again."""

from datetime import timedelta

from django.conf import settings
from django.db.models import Max

from scheduler.forecasts.services.questions import KEPT
from scheduler.jobs.archives.services import prune_archives
from scheduler.jobs.attempts.services.retention import thin_progress
from scheduler.jobs.sessions.services.opening import prune_sessions
from scheduler.jobs.sessions.services.port_passes import prune_passes
from scheduler.models.fairness import FairnessSample, FairnessViolation
from scheduler.models.forecasts import WhatIf
from scheduler.models.metrics import FragmentationSample, UsageSample
from scheduler.models.rounds import Round
from scheduler.notifications.services.dispatch import prune_deliveries
from scheduler.telemetry.events.services import prune_events
from scheduler.telemetry.logs.services.retention import prune_logs
from scheduler.telemetry.metrics.services import metrics_prune
from scheduler.telemetry.peaks.services import prune_peak_samples
from scheduler.telemetry.throughputs.services.measuring import prune_measurements
from scheduler.virtual_clusters.ledger.services import prune_ledger
from scheduler.wiring.clock import database_now
from scheduler.wiring.sweeps import for_each
from tenants.audit.entries import prune_audit_log
from tenants.housekeeping import delete_rows

_USAGE_KEPT = timedelta(days=7)
#: Samples of fairness, one a minute, and violations after their end.
SAMPLES_KEPT = timedelta(days=14)
VIOLATIONS_KEPT = timedelta(days=90)


def prune() -> None:
    """Take every step, also where one before it fails: what it leaves grows, and should not let all grow."""
    for_each("the housekeeping step", _STEPS, lambda step: step())


def _prune_rounds() -> None:
    newest = Round.objects.aggregate(newest=Max("number"))["newest"] or 0
    delete_rows(Round.objects.filter(number__lte=newest - settings.CONFIG.rounds_kept))


def _prune_usage() -> None:
    for samples in (UsageSample, FragmentationSample):
        delete_rows(samples.objects.filter(at__lt=database_now() - _USAGE_KEPT))


def _prune_questions() -> None:
    delete_rows(WhatIf.objects.filter(asked_at__lt=database_now() - KEPT))


def _prune_fairness() -> None:
    delete_rows(FairnessSample.objects.filter(at__lt=database_now() - SAMPLES_KEPT))
    delete_rows(FairnessViolation.objects.filter(ended_at__lt=database_now() - VIOLATIONS_KEPT))


_STEPS = (
    _prune_rounds,
    _prune_usage,
    _prune_questions,
    prune_measurements,
    metrics_prune,
    prune_peak_samples,
    prune_ledger,
    prune_audit_log,
    prune_deliveries,
    prune_logs,
    prune_events,
    thin_progress,
    prune_archives,
    prune_sessions,
    prune_passes,
    _prune_fairness,
)
