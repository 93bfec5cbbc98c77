"""The cluster as a whole: GPU models, a summary, usage over time."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.building_blocks.auxiliary_division import DIVISIONS
from scheduler.jobspec import WATCHED_THEN
from scheduler.models.selectors import jobs as job_selectors
from scheduler.models.selectors.cluster import cluster_settings, cluster_summary
from scheduler.models.selectors.rounds import overruns
from scheduler.rounds.cluster import schemas
from scheduler.rounds.cluster.services import cluster_settings_change
from scheduler.telemetry.metrics.selectors.fragmentation import fragmentation
from scheduler.telemetry.metrics.selectors.series import usage_points
from scheduler.wiring.clock import database_now
from scheduler.wiring.plugins import ChosenPlugin
from scheduler.wiring.rest import checked
from scheduler.wiring.schemas import ChosenPlugin as ChosenPluginSchema
from tenants.api.editions import Edited
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import viewer

POINTS_MOST = 720
MINUTES_MOST = 7 * 24 * 60


class UsageQuery(serializers.Serializer[Mapping[str, object]]):
    minutes = serializers.IntegerField(default=60, min_value=1, max_value=MINUTES_MOST)


class ClusterSummary(APIView):
    @extend_schema(responses=schemas.Cluster)
    def get(self, request: Request) -> Response:
        """Summarise the cluster in a few numbers. Only jobs that the caller may see are counted."""
        return Response(cluster_summary(viewer(request)))


PREEMPTIONS_MOST = 1_000_000
BACKOFF_MOST_SECONDS = 7 * 86_400
#: Readings of GPUs are seconds apart.
IDLE_LEAST_SECONDS = 60


class ClusterSettingsChange(StrictSerializer):
    """Changes to an object. Fields that are left out stay as they are."""

    spare_policy_plugin = ChosenPluginSchema(required=False, help_text="Policy of opportunistic jobs.")
    spare_placer_plugin = ChosenPluginSchema(required=False, help_text="Placer of opportunistic jobs.")
    auxiliary = serializers.ChoiceField(
        choices=list(DIVISIONS),
        required=False,
        help_text="How a node's CPUs and memory are divided among jobs that leave them to the platform.",
    )
    currency = serializers.RegexField(
        r"^([A-Z]{3})?\Z",
        required=False,
        allow_blank=True,
        error_messages={"invalid": "a code of ISO 4217, such as EUR or USD"},
        help_text=(
            "Currency of prices and costs as an ISO 4217 code; empty: cost units without a "
            "currency. No price is converted."
        ),
    )
    preemptions_per_round = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=PREEMPTIONS_MOST,
        help_text=(
            "Maximum number of jobs that policies preempt in one scheduling round; null: "
            "unlimited. Preemptions for guarantees are not limited."
        ),
    )
    backoff_seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=BACKOFF_MOST_SECONDS,
        help_text="Seconds for which a job gets no spare GPUs after an early preemption; doubles each time.",
    )
    most_backoff_seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=BACKOFF_MOST_SECONDS,
        help_text="Maximum of this back-off, in seconds.",
    )
    idle_gpus_seconds = serializers.FloatField(
        required=False,
        allow_null=True,
        min_value=IDLE_LEAST_SECONDS,
        max_value=BACKOFF_MOST_SECONDS,
        help_text=(
            "Seconds of idle GPUs after which a job counts as stuck, unless its specification "
            "states otherwise; null: never."
        ),
    )
    idle_gpus_below_percent = serializers.FloatField(
        required=False,
        min_value=0.1,
        max_value=100,
        help_text="A GPU counts as idle below this utilisation, in percent.",
    )
    idle_gpus_then = serializers.ChoiceField(
        choices=WATCHED_THEN, required=False, help_text="What happens to the job then."
    )


class ClusterSettings(Edited):
    scope = Scope.OPERATE
    # Without `overrun`, which comes and goes with the rounds.
    edition = tuple(ClusterSettingsChange().fields)

    @extend_schema(responses=schemas.ClusterSettings)
    def get(self, request: Request) -> Response:
        """Show the settings of the cluster, such as how spare GPUs are given to opportunistic jobs."""
        return Response(_represented(cluster_settings()))

    @extend_schema(request=ClusterSettingsChange, responses=schemas.ClusterSettings)
    def patch(self, request: Request) -> Response:
        """Change the settings of the cluster. For operators."""
        by = viewer(request)
        by.require_operator()
        given = ClusterSettingsChange(data=request.data)
        given.is_valid(raise_exception=True)
        changes = dict(given.validated_data)
        for at in ("spare_policy_plugin", "spare_placer_plugin"):
            if at in changes:
                changes[at] = ChosenPlugin(**changes[at])
        return Response(_represented(cluster_settings_change(by=by, changes=changes)))


def _represented(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as the API returns them."""
    return {
        **settings,
        "overrun": overruns([job_selectors.SPARE_VIEW]).get(job_selectors.SPARE_VIEW),
    }


class ClusterUsage(APIView):
    is_heavy = True

    @extend_schema(parameters=[UsageQuery], responses=schemas.Usage)
    def get(self, request: Request) -> Response:
        """Show GPUs in use over time, by tenant. Members see other tenants as one sum."""
        minutes = checked(UsageQuery, request)["minutes"]
        points = usage_points(viewer(request), now=database_now(), minutes=minutes, most=POINTS_MOST)
        return Response({"points": points})


class ClusterFragmentation(APIView):
    is_heavy = True

    @extend_schema(parameters=[UsageQuery], responses=schemas.Fragmentation)
    def get(self, request: Request) -> Response:
        """Show how many idle GPUs the usual jobs cannot use (fragmentation), and why. For operators."""
        viewer(request).require_operator()
        minutes = checked(UsageQuery, request)["minutes"]
        return Response(fragmentation(database_now(), minutes=minutes, most=POINTS_MOST))
