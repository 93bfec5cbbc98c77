"""Who waits longer here than in a private cluster: everybody signed in sees it, members ask for it anew."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.adviser import schemas
from scheduler.adviser.models import AnomalyReport
from scheduler.adviser.services.anomalies import HOURS, MOST_HOURS, comparison_ask
from scheduler.adviser.services.comparisons import represented
from scheduler.virtual_clusters.selectors import virtual_cluster_get
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import viewer


class ComparisonQuestion(StrictSerializer):
    hours = serializers.FloatField(
        required=False, min_value=0.1, max_value=MOST_HOURS, default=HOURS, help_text="Up to now."
    )


class Anomalies(APIView):
    scope = Scope.SUBMIT
    is_heavy = True

    @extend_schema(responses=schemas.Anomalies)
    def get(self, request: Request, name: str) -> Response:
        """The guaranteed jobs of a virtual cluster here and in its private cluster, as compared last. It is
        compared anew every ten minutes. Of others' jobs, names and reasons are left out."""
        virtual_cluster = virtual_cluster_get(name)
        report = AnomalyReport.objects.filter(virtual_cluster=virtual_cluster).first()
        return Response(represented(virtual_cluster, report, viewer(request)))

    @extend_schema(request=ComparisonQuestion, responses={202: schemas.Anomalies})
    def post(self, request: Request, name: str) -> Response:
        """Compare anew, over so many hours. For members of the virtual cluster's tenants, and operators."""
        by = viewer(request)
        virtual_cluster = virtual_cluster_get(name)
        given = ComparisonQuestion(data=request.data)
        given.is_valid(raise_exception=True)
        report = comparison_ask(
            viewer=by, virtual_cluster=virtual_cluster, hours=given.validated_data["hours"]
        )
        return Response(represented(virtual_cluster, report, by), status=202)
