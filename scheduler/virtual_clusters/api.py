"""Virtual clusters, which operators manage, and how each job's time should be divided among GPU models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import fields
from typing import Any, TypeVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.model.lifecycle import AttemptState, JobState
from scheduler.models.attempts import Attempt
from scheduler.models.jobs import Job
from scheduler.models.selectors.jobs import jobs_visible
from scheduler.models.selectors.virtual_clusters import ViewTargets, view_targets, virtual_cluster_get
from scheduler.models.virtual_clusters import OVERCOMMIT
from scheduler.virtual_clusters import representations, schemas
from scheduler.virtual_clusters.representations import virtual_cluster_seen
from scheduler.virtual_clusters.services import (
    VirtualClusterSettings,
    virtual_cluster_create,
    virtual_cluster_delete,
    virtual_cluster_set,
)
from scheduler.wiring.clock import database_now
from scheduler.wiring.plugins import ChosenPlugin, described_plugins
from scheduler.wiring.representation import OTHERS
from scheduler.wiring.rest import RepresentedList
from scheduler.wiring.schemas import ChosenPlugin as ChosenPluginSchema
from tenants.api.answers import created
from tenants.api.editions import Edited
from tenants.api.queries import ByName
from tenants.api.strict import StrictSerializer
from tenants.models import SHARING, Scope, VirtualCluster
from tenants.selectors import Viewer, viewer
from tenants.times import iso

T = TypeVar("T", bound=Sized)

GPUS_MOST = 1_000_000
MODELS_MOST = 64
MEMBERS_MOST = 1_000
LONGEST_SECONDS = 365 * 86_400


class WeightedTenant(StrictSerializer):
    tenant = serializers.CharField(max_length=63)
    weight = serializers.FloatField(default=1.0, min_value=1e-6, max_value=1e6)


class VirtualClusterChange(StrictSerializer):
    """Changes to an object. Fields that are left out stay as they are."""

    title = serializers.CharField(required=False, max_length=120, allow_blank=True)
    policy_plugin = ChosenPluginSchema(required=False)
    placer_plugin = ChosenPluginSchema(required=False)
    default_time_limit_seconds = serializers.FloatField(
        required=False,
        min_value=1,
        max_value=LONGEST_SECONDS,
        help_text="Time limit in seconds for jobs that state none.",
    )
    sharing = serializers.ChoiceField(required=False, choices=SHARING, help_text=schemas.SHARING_HELP)
    min_run_seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=LONGEST_SECONDS,
        help_text="Minimum run time in seconds before a policy may stop, move or resize an attempt.",
    )
    reclaim_min_run_seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=LONGEST_SECONDS,
        help_text=(
            "Minimum run time in seconds before a guarantee may reclaim the GPUs of an "
            "opportunistic attempt; 0: they are reclaimed at once."
        ),
    )
    longest_wait_seconds = serializers.FloatField(
        required=False, min_value=0, max_value=LONGEST_SECONDS, help_text=schemas.LONGEST_WAIT_HELP
    )
    overcommit = serializers.ChoiceField(
        required=False, choices=OVERCOMMIT, help_text=schemas.OVERCOMMIT_HELP
    )
    overcommit_margin = serializers.FloatField(
        required=False, min_value=0, max_value=0.9, help_text=schemas.MARGIN_HELP
    )
    guaranteed = serializers.DictField(
        required=False,
        child=serializers.IntegerField(min_value=0, max_value=GPUS_MOST),
        help_text="GPUs that it owns, by model, including lent GPUs.",
    )
    members = WeightedTenant(many=True, required=False)
    version = serializers.IntegerField(
        required=False,
        min_value=1,
        help_text="Version that you read. If it has changed since, the answer is 409.",
    )

    def validate_guaranteed(self, guaranteed: dict[str, int]) -> dict[str, int]:
        return _at_most(guaranteed, MODELS_MOST)

    def validate_members(self, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = [member["tenant"] for member in _at_most(members, MEMBERS_MOST)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise serializers.ValidationError(f"names tenant {twice[0]!r} twice")
        return members


class VirtualClusterInput(VirtualClusterChange):
    """A virtual cluster to create. Fields that are left out take their defaults."""

    name = serializers.CharField(max_length=63)
    # Leaves out the field of the class above.
    version = None  # type: ignore[assignment]


def _at_most(values: T, most: int) -> T:
    if len(values) > most:
        raise serializers.ValidationError(f"has {len(values)} entries, more than {most}")
    return values


class VirtualClusters(RepresentedList):
    """List all virtual clusters by name."""

    scope = Scope.OPERATE
    queryset = VirtualCluster.objects.none()
    serializer_class = schemas.VirtualCluster
    ordering = "name"
    filterset_class = ByName
    represent = staticmethod(representations.virtual_clusters)

    def get_queryset(self) -> QuerySet[VirtualCluster]:
        return VirtualCluster.objects.only("id", "name")

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        answer = super().list(request, *args, **kwargs)
        by = viewer(request)
        shown = [virtual_cluster_seen(each, by) for each in answer.data["results"]]
        return Response({**answer.data, "results": shown})

    @extend_schema(request=VirtualClusterInput, responses={201: schemas.VirtualCluster})
    def post(self, request: Request) -> Response:
        """Create a virtual cluster. The cluster must have the GPUs for all guarantees together. For
        operators.
        """
        by = _operator(request)
        given = VirtualClusterInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = virtual_cluster_create(desired=_desired(given.validated_data, {}), actor=by.actor)
        return created(request, representations.virtual_clusters([row.id])[0], row.name)


class VirtualClusterDetail(Edited):
    scope = Scope.OPERATE
    edition = ("name", "version")

    @extend_schema(responses=schemas.VirtualCluster)
    def get(self, request: Request, name: str) -> Response:
        """Get one virtual cluster, with what it uses."""
        [shown] = representations.virtual_clusters([virtual_cluster_get(name).id])
        return Response(virtual_cluster_seen(shown, viewer(request)))

    @extend_schema(request=VirtualClusterChange, responses=schemas.VirtualCluster)
    def put(self, request: Request, name: str) -> Response:
        """Change a virtual cluster. Members and guarantees are replaced as a whole. For operators."""
        by = _operator(request)
        row = virtual_cluster_get(name)
        given = VirtualClusterChange(data=request.data)
        given.is_valid(raise_exception=True)
        desired = dict(given.validated_data)
        version = desired.pop("version", None)
        row = virtual_cluster_set(
            virtual_cluster=row,
            desired=_desired({**desired, "name": name}, representations.virtual_clusters([row.id])[0]),
            actor=by.actor,
            version=version,
        )
        return Response(representations.virtual_clusters([row.id])[0])

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


def _desired(given: dict[str, Any], current: dict[str, Any]) -> VirtualClusterSettings:
    """Fill in what was left out: from the present state, else from the defaults."""
    kept = {each.name: current[each.name] for each in fields(VirtualClusterSettings) if each.name in current}
    if current:
        # Not what is in force while GPUs are lent or borrowed.
        kept["guaranteed"] = current["own_guaranteed"]
    merged = {**kept, **given}
    for at in ("policy_plugin", "placer_plugin"):
        if at in merged:
            merged[at] = ChosenPlugin(**merged[at])
    members = {member["tenant"]: member["weight"] for member in merged.pop("members", [])}
    return VirtualClusterSettings(**merged, members=members)


class TenantTargets(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField(
        help_text=f'Name, or "{OTHERS}": all tenants together that are not the reader\'s.'
    )
    jobs = serializers.IntegerField()
    gpus = serializers.DictField(
        child=serializers.FloatField(), help_text="Target number of GPUs on average, by model."
    )


class Targets(serializers.Serializer[Mapping[str, object]]):
    objective = serializers.CharField(allow_null=True, help_text="Objective that the shares optimise.")
    decided_at = serializers.DateTimeField(allow_null=True, help_text="When shares were last computed.")
    tenants = TenantTargets(many=True)


class JobTargets(serializers.Serializer[Job]):
    job = serializers.IntegerField()
    name = serializers.CharField()
    tenant = serializers.CharField()
    application = serializers.CharField(allow_blank=True)
    gpus = serializers.IntegerField()
    gpu_model = serializers.CharField(allow_null=True, help_text="GPU model that it runs on now.")
    targets = serializers.DictField(
        child=serializers.FloatField(), help_text="Target fractions of its time, by GPU model."
    )
    received = serializers.DictField(
        child=serializers.FloatField(),
        help_text="Fractions of the time since shares were computed that it received, by GPU model.",
    )


class VirtualClusterTargets(APIView):
    @extend_schema(responses=Targets)
    def get(self, request: Request, name: str) -> Response:
        """Show each tenant's target share of a virtual cluster's GPUs, if its policy sets targets."""
        known = view_targets(virtual_cluster_get(name).name)
        return Response(
            {
                "objective": known.objective,
                "decided_at": iso(known.decided_at),
                "tenants": _by_tenant(known, viewer(request)),
            }
        )


class VirtualClusterJobTargets(ListAPIView[Job]):
    """List the jobs of a virtual cluster that have targets, newest first. Only jobs that the reader may see
    are listed.
    """

    queryset = Job.objects.none()
    serializer_class = JobTargets

    def get_queryset(self) -> QuerySet[Job]:
        return _unfinished(jobs_visible(viewer(self.request))).select_related("tenant")

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        known = view_targets(virtual_cluster_get(self.kwargs["name"]).name)
        jobs = self.filter_queryset(self.get_queryset()).filter(id__in=list(known.shares))
        page = self.paginate_queryset(jobs)
        return self.get_paginated_response(_represented(page or (), known))


def _unfinished(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Leave out those that ended since their policy decided."""
    return jobs.filter(state__in=[JobState.QUEUED, JobState.RUNNING])


def _by_tenant(known: ViewTargets, by: Viewer) -> list[dict[str, Any]]:
    sums: dict[str, dict[str, Any]] = {}
    jobs = _unfinished(Job.objects.all()).filter(id__in=list(known.shares))
    for job, tenant_id, tenant, gpus in jobs.values_list("id", "tenant_id", "tenant__name", "gpus"):
        name = tenant if by.is_operator or tenant_id in by.roles else OTHERS
        line = sums.setdefault(name, {"tenant": name, "jobs": 0, "gpus": {}})
        line["jobs"] += 1
        for model, share in known.shares[job].items():
            line["gpus"][model] = line["gpus"].get(model, 0.0) + share * gpus
    return sorted(sums.values(), key=lambda line: (line["tenant"] == OTHERS, line["tenant"]))


def _represented(jobs: Iterable[Job], known: ViewTargets) -> list[dict[str, Any]]:
    rows = list(jobs)
    live = Attempt.objects.filter(job__in=rows).exclude(state__in=[AttemptState.PLANNED, AttemptState.ENDED])
    runs_on: Mapping[int, str] = dict(live.values_list("job_id", "allocation__gpu_model"))
    since = known.decided_at
    passed_seconds = (database_now() - since).total_seconds() if since else 0.0
    return [
        {
            "job": job.id,
            "name": job.name,
            "tenant": job.tenant.name,
            "application": job.needs.application,
            "gpus": job.gpus,
            "gpu_model": runs_on.get(job.id),
            "targets": known.shares[job.id],
            "received": {
                model: min(1.0, seconds / passed_seconds)
                for model, seconds in known.received_seconds.get(job.id, {}).items()
                if passed_seconds > 0
            },
        }
        for job in rows
    ]
