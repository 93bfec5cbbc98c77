"""The cluster as a whole: GPU models, a summary, usage over time."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.api import schemas
from scheduler.api.job_details import checked
from scheduler.clock import database_now
from scheduler.selectors import cluster_summary, gpu_models, usage_points
from tenants.selectors import viewer

POINTS_MOST = 720
MINUTES_MOST = 7 * 24 * 60


class UsageQuery(serializers.Serializer):
    minutes = serializers.IntegerField(default=60, min_value=1, max_value=MINUTES_MOST)


class GpuModels(APIView):
    @extend_schema(responses=schemas.GpuModels)
    def get(self, request: Request) -> Response:
        """List the GPU models of the cluster, by name, with how many are free."""
        return Response({"results": gpu_models(), "next": None, "previous": None})


class ClusterSummary(APIView):
    @extend_schema(responses=schemas.Cluster)
    def get(self, request: Request) -> Response:
        """The cluster in a few numbers; jobs are counted as far as the caller may see them."""
        return Response(cluster_summary(viewer(request)))


class ClusterUsage(APIView):
    @extend_schema(parameters=[UsageQuery], responses=schemas.Usage)
    def get(self, request: Request) -> Response:
        """GPUs in use over time by tenant; members see other tenants as one sum."""
        minutes = checked(UsageQuery, request)["minutes"]
        points = usage_points(viewer(request), now=database_now(), minutes=minutes, most=POINTS_MOST)
        return Response({"points": points})
