"""Virtual clusters: everybody signed in sees them, operators manage them."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler import represent
from scheduler.api import virtual_cluster_schemas as schemas
from scheduler.api.lists import RepresentedList
from scheduler.plugins import described_plugins
from scheduler.selectors import virtual_cluster_get
from scheduler.services.virtual_clusters import (
    Wanted,
    virtual_cluster_create,
    virtual_cluster_delete,
    virtual_cluster_set,
)
from tenants.api.strict import StrictSerializer
from tenants.models import Scope, VirtualCluster
from tenants.selectors import Viewer, viewer

PLUGIN_MOST = 255
GPUS_MOST = 1_000_000
MODELS_MOST = 64
MEMBERS_MOST = 1_000
LONGEST_SECONDS = 365 * 86_400


class WeightedTenant(StrictSerializer):
    tenant = serializers.CharField(max_length=63)
    weight = serializers.FloatField(default=1.0, min_value=1e-6, max_value=1e6)


class VirtualClusterChange(StrictSerializer):
    """What is left out stays as it is."""

    title = serializers.CharField(required=False, max_length=120, allow_blank=True)
    policy = serializers.CharField(
        required=False, max_length=PLUGIN_MOST, help_text="Its name, or `name:parameter=value,...`."
    )
    policy_parameters = serializers.DictField(
        required=False, help_text="Left out with another policy: its defaults."
    )
    placer = serializers.CharField(
        required=False, max_length=PLUGIN_MOST, help_text="Its name, or `name:parameter=value,...`."
    )
    default_time_limit_seconds = serializers.FloatField(
        required=False, min_value=1, max_value=LONGEST_SECONDS, help_text="For jobs that state no limit."
    )
    min_run_seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=LONGEST_SECONDS,
        help_text="An attempt that has run for less is not stopped, moved or resized by a policy.",
    )
    reclaim_min_run_seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=LONGEST_SECONDS,
        help_text="Nor is an opportunistic one for GPUs that others are guaranteed; 0: they return at once.",
    )
    guaranteed = serializers.DictField(
        required=False,
        child=serializers.IntegerField(min_value=0, max_value=GPUS_MOST),
        help_text="GPUs by model that it owns, lent or not.",
    )
    members = WeightedTenant(many=True, required=False)
    version = serializers.IntegerField(
        required=False, min_value=1, help_text="Refuse with 409 if it was changed since this version."
    )

    def validate_guaranteed(self, guaranteed: dict[str, int]) -> dict[str, int]:
        return _at_most(guaranteed, MODELS_MOST)

    def validate_members(self, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = [member["tenant"] for member in _at_most(members, MEMBERS_MOST)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise serializers.ValidationError(f"names tenant {twice[0]!r} twice")
        return members


class VirtualClusterInput(VirtualClusterChange):
    """What is left out takes its default."""

    name = serializers.CharField(max_length=63)
    version = None


def _at_most(values: Any, most: int) -> Any:
    if len(values) > most:
        raise serializers.ValidationError(f"has {len(values)} entries, more than {most}")
    return values


class VirtualClusters(RepresentedList):
    """All virtual clusters, by name."""

    scope = Scope.OPERATE
    queryset = VirtualCluster.objects.none()
    serializer_class = schemas.VirtualCluster
    ordering = "name"
    represent = staticmethod(represent.virtual_clusters)

    def get_queryset(self) -> QuerySet[VirtualCluster]:
        return VirtualCluster.objects.only("id", "name")

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        answer = super().list(request, *args, **kwargs)
        by = viewer(request)
        shown = [represent.virtual_cluster_seen(each, by) for each in answer.data["results"]]
        return Response({**answer.data, "results": shown})

    @extend_schema(request=VirtualClusterInput, responses={201: schemas.VirtualCluster})
    def post(self, request: Request) -> Response:
        """Create a virtual cluster. All guarantees together must fit the cluster. For operators."""
        by = _operator(request)
        given = VirtualClusterInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = virtual_cluster_create(wanted=_wanted(given.validated_data, {}), actor=by.actor)
        return Response(represent.virtual_clusters([row.id])[0], status=201)


class VirtualClusterDetail(APIView):
    scope = Scope.OPERATE

    @extend_schema(responses=schemas.VirtualCluster)
    def get(self, request: Request, name: str) -> Response:
        """One virtual cluster, with what it uses."""
        [shown] = represent.virtual_clusters([virtual_cluster_get(name).id])
        return Response(represent.virtual_cluster_seen(shown, viewer(request)))

    @extend_schema(request=VirtualClusterChange, responses=schemas.VirtualCluster)
    def put(self, request: Request, name: str) -> Response:
        """Change a virtual cluster; members and guarantees are replaced as a whole. For operators."""
        by = _operator(request)
        row = virtual_cluster_get(name)
        given = VirtualClusterChange(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = dict(given.validated_data)
        version = wanted.pop("version", None)
        row = virtual_cluster_set(
            virtual_cluster=row,
            wanted=_wanted({**wanted, "name": name}, represent.virtual_clusters([row.id])[0]),
            actor=by.actor,
            version=version,
        )
        return Response(represent.virtual_clusters([row.id])[0])

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Delete a virtual cluster that never had a job. For operators."""
        by = _operator(request)
        virtual_cluster_delete(virtual_cluster=virtual_cluster_get(name), actor=by.actor)
        return Response(status=204)


class Policies(APIView):
    @extend_schema(responses=schemas.Plugins)
    def get(self, request: Request) -> Response:
        """List the policies and placers that a virtual cluster can use, with their parameters."""
        return Response(described_plugins())


def _operator(request: Request) -> Viewer:
    by = viewer(request)
    by.require_operator()
    return by


def _wanted(given: dict[str, Any], current: dict[str, Any]) -> Wanted:
    """Fill in what was left out: from the present state, else from the defaults."""
    kept = {name: current[name] for name in VirtualClusterChange().fields if name in current}
    if current:
        # Not what is in force while GPUs are lent or borrowed.
        kept["guaranteed"] = current["own_guaranteed"]
    if given.get("policy", kept.get("policy")) != kept.get("policy"):
        kept.pop("policy_parameters", None)  # Those of one policy mean nothing to another.
    merged = {**kept, **given}
    merged.pop("version", None)
    members = {member["tenant"]: member["weight"] for member in merged.pop("members", [])}
    return Wanted(**merged, members=members)
