"""What a monitoring system collects, in Prometheus's text format.

Everything is counted in the database when it is asked for, so that every web process answers the same. There
is a line for each GPU model, each virtual cluster and each node, and none for each job or tenant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db.models import Count, Q
from django.http import HttpResponse
from django.utils.crypto import constant_time_compare
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.views import APIView

from nodeagent.measures import GPU_MEASURES
from scheduler.core.model.lifecycle import JobState
from scheduler.models.fairness import FairnessState, FairnessViolation
from scheduler.models.jobs import Job
from scheduler.models.nodes import Gpu, Node, NodeCheck, Verdict
from scheduler.models.rounds import Leadership, Round, RoundState, ViewComputing
from scheduler.models.selectors.jobs import SPARE_VIEW
from scheduler.models.selectors.nodes import gpu_states
from scheduler.models.selectors.peaks import violation_rates
from scheduler.telemetry.metrics.selectors.buckets import values_of
from scheduler.telemetry.metrics.selectors.now import newest_readings
from scheduler.wiring.clock import database_now
from tenants.models import VirtualCluster
from tenants.selectors import viewer

#: The metrics cover the times of this many rounds, the newest.
ROUNDS_TIMED = 100
_PARTS = ("snapshot", "decide", "apply")
_QUANTILES = (0.5, 0.95, 1.0)


class _CollectorUser:
    """A client with ALLOT_METRICS_TOKEN: it has no account, and may use this route only."""

    is_authenticated = True


class _MetricsToken(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[_CollectorUser, None] | None:
        expected = settings.CONFIG.metrics_token.get_secret_value()
        given = request.META.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
        return (_CollectorUser(), None) if expected and constant_time_compare(given, expected) else None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class _OneFormat(BaseContentNegotiation):
    """The answer is text whatever is asked for, and an error JSON as everywhere."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]


class Metrics(APIView):
    """For operators, and for clients with the token of the settings."""

    is_heavy = True
    schema = None
    authentication_classes = [_MetricsToken, *APIView.authentication_classes]
    content_negotiation_class = _OneFormat

    def get(self, request: Request) -> HttpResponse:
        if not isinstance(request.user, _CollectorUser):
            viewer(request).require_operator()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Database())
        return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)


class _Database(Collector):
    def collect(self) -> Iterator[Metric]:
        yield _jobs()
        yield _gpus()
        yield from _health()
        yield from _rounds()
        yield from _views()
        yield from _fairness()
        yield from _overcommitment()
        yield from _nodes()

    def describe(self) -> Iterator[Metric]:
        # Nothing is counted until it is asked for.
        return iter(())


def _jobs() -> Metric:
    counts = dict(Job.objects.values_list("state").annotate(jobs=Count("id")).order_by())
    metric = GaugeMetricFamily("allot_jobs", "Jobs, those that have ended included", labels=["state"])
    for state in JobState:
        metric.add_metric([state.value], counts.get(state.value, 0))
    return metric


def _gpus() -> Metric:
    states = gpu_states(gpu__present=True)
    counts: Counter[tuple[str, str]] = Counter()
    present = Gpu.objects.filter(present=True).values_list("id", "node__gpu_model__name", "healthy")
    for gpu, model, is_healthy in present:
        counts[model, states.get(gpu) or ("free" if is_healthy else "unhealthy")] += 1
    metric = GaugeMetricFamily("allot_gpus", "GPUs of the cluster", labels=["gpu_model", "state"])
    for model in sorted({model for model, _ in counts}):
        for state in ("held", "planned", "free", "unhealthy"):
            metric.add_metric([model, state], counts[model, state])
    return metric


def _health() -> Iterator[Metric]:
    """Count nodes by the worst of their checks, and name the checks that are not ok."""
    nodes = GaugeMetricFamily(
        "allot_nodes", "Nodes by state and the worst verdict of their checks", labels=["state", "health"]
    )
    rows = Node.objects.annotate(
        failed=Count("checks", filter=Q(checks__verdict=Verdict.FAILED)),
        warned=Count("checks", filter=Q(checks__verdict=Verdict.WARNING)),
        checked=Count("checks"),
    )
    counts = Counter(
        (state, "failed" if failed else "warning" if warned else "ok" if checked else "unknown")
        for state, failed, warned, checked in rows.values_list("state", "failed", "warned", "checked")
    )
    for (state, health), count in sorted(counts.items()):
        nodes.add_metric([state, health], count)
    wrong = GaugeMetricFamily(
        "allot_node_health", "A check that is not ok: 1 warning, 2 failed", labels=["node", "check"]
    )
    ill = NodeCheck.objects.exclude(verdict=Verdict.OK).order_by("node__name", "name")
    for node, check, verdict in ill.values_list("node__name", "name", "verdict"):
        wrong.add_metric([node, check], 2 if verdict == Verdict.FAILED else 1)
    yield from (nodes, wrong)


def _rounds() -> Iterator[Metric]:
    number = Leadership.objects.values_list("number", flat=True).first() or 0
    yield CounterMetricFamily("allot_rounds", "Rounds begun", value=number)
    counts = dict(Round.objects.values_list("state").annotate(rounds=Count("number")).order_by())
    kept = GaugeMetricFamily("allot_rounds_kept", "Rounds whose record is kept", labels=["state"])
    for state in RoundState:
        kept.add_metric([state.value], counts.get(state.value, 0))
    yield kept
    applied = Round.objects.filter(state=RoundState.APPLIED).order_by("-number")
    yield GaugeMetricFamily(
        "allot_rounds_corrected",
        "Kept rounds in which the engine of earlier rounds decided differently from a new one",
        value=applied.exclude(error="").count(),
    )
    newest = applied.values_list("started_at", *(f"{part}_seconds" for part in _PARTS))[:ROUNDS_TIMED]
    rows = list(newest)
    if rows:
        yield GaugeMetricFamily(
            "allot_round_newest_timestamp_seconds",
            "When the newest round was applied",
            value=rows[0][0].timestamp(),
        )
    seconds = GaugeMetricFamily(
        "allot_round_seconds",
        f"Seconds that parts of a round took, of the newest {ROUNDS_TIMED}",
        labels=["part", "quantile"],
    )
    for column, part in enumerate(_PARTS, start=1):
        values = sorted(row[column] for row in rows)
        for quantile in _QUANTILES if values else ():
            place = min(int(quantile * len(values)), len(values) - 1)
            seconds.add_metric([part, f"{quantile:g}"], values[place])
    yield seconds


def _views() -> Iterator[Metric]:
    names = [*VirtualCluster.objects.order_by("name").values_list("name", flat=True), SPARE_VIEW]
    rows = {row.view: row for row in ViewComputing.objects.filter(view__in=names)}
    newest = Round.objects.filter(state=RoundState.APPLIED).order_by("-number")
    degraded = newest.values_list("degraded", flat=True).first() or {}
    computations = CounterMetricFamily(
        "allot_view_computations", "Computations that a view's policy began", labels=["view"]
    )
    overruns = CounterMetricFamily(
        "allot_view_overruns",
        "Rounds in which a view's policy or placer took too long or broke down",
        labels=["view"],
    )
    seconds = GaugeMetricFamily(
        "allot_view_computing_seconds", "Seconds of the newest round that computed", labels=["view"]
    )
    is_degraded = GaugeMetricFamily(
        "allot_view_degraded",
        "Whether a policy other than its own, or none, decided in the newest round",
        labels=["view"],
    )
    for name in names:
        row = rows.get(name) or ViewComputing(view=name)
        computations.add_metric([name], row.computations)
        overruns.add_metric([name], row.overruns)
        seconds.add_metric([name], row.last_seconds)
        is_degraded.add_metric([name], int(name in degraded))
    yield from (computations, overruns, seconds, is_degraded)


def _fairness() -> Iterator[Metric]:
    counts = dict(
        FairnessViolation.objects.filter(ended_at__isnull=True)
        .values_list("virtual_cluster")
        .annotate(violations=Count("id"))
        .order_by()
    )
    violations = GaugeMetricFamily(
        "allot_fairness_violations",
        "Tenants whose jobs do less than they would on their own part alone",
        labels=["virtual_cluster"],
    )
    worst = GaugeMetricFamily(
        "allot_rho_worst", "Worst finish-time fairness of its apps", labels=["virtual_cluster"]
    )
    for state in FairnessState.objects.order_by("virtual_cluster"):
        violations.add_metric([state.virtual_cluster], counts.get(state.virtual_cluster, 0))
        known = [row["rho_worst"] for row in state.tenants if row["rho_worst"] is not None]
        if known:
            worst.add_metric([state.virtual_cluster], max(known))
    yield from (violations, worst)


def _overcommitment() -> Iterator[Metric]:
    rates = violation_rates()
    names = dict(VirtualCluster.objects.values_list("id", "name"))
    violations = GaugeMetricFamily(
        "allot_overcommit_violation_ratio",
        "Fraction of the samples of the last seven days in which nodes used more than was predicted",
        labels=["virtual_cluster"],
    )
    for row, rate in sorted(rates.items()):
        if row in names:  # Not deleted meanwhile.
            violations.add_metric([names[row]], rate.rate)
    yield violations


def _nodes() -> Iterator[Metric]:
    """What agents read last; a node that no longer reports has no line."""
    names = dict(Node.objects.values_list("id", "name"))
    readings = newest_readings(names, database_now())
    labels = ["node", "simulated"]
    for place, measure in enumerate(GPU_MEASURES):
        if measure.node is None:
            continue
        family = GaugeMetricFamily(f"allot_node_gpu_{measure.name}", measure.node.help, labels=labels)
        for node, row in sorted(readings.items(), key=lambda item: names[item[0]]):
            if figures := values_of(row.values["gpus"].values(), place):
                own = [names[node], "true" if row.simulated else "false"]
                family.add_metric(own, measure.node.total.of(figures))
        yield family
