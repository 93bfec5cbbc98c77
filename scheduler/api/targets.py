"""Which part of its time each job of a virtual cluster should spend on which GPU model, by its policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler import represent
from scheduler.clock import database_now
from scheduler.core.model.lifecycle import AttemptState, JobState
from scheduler.models import Attempt, Job
from scheduler.selectors import OTHERS, ViewTargets, jobs_visible, view_targets, virtual_cluster_get
from tenants.selectors import Viewer, viewer


class TenantTargets(serializers.Serializer):
    tenant = serializers.CharField(help_text=f'"{OTHERS}": all tenants together that are not the reader\'s.')
    jobs = serializers.IntegerField()
    gpus = serializers.DictField(
        child=serializers.FloatField(), help_text="GPUs meant for them on average, by model."
    )


class Targets(serializers.Serializer):
    objective = serializers.CharField(allow_null=True, help_text="What the shares are the optimum of.")
    decided_at = serializers.DateTimeField(allow_null=True, help_text="When shares were computed last.")
    tenants = TenantTargets(many=True)


class JobTargets(serializers.Serializer):
    job = serializers.IntegerField()
    name = serializers.CharField()
    tenant = serializers.CharField()
    application = serializers.CharField(allow_blank=True)
    gpus = serializers.IntegerField()
    gpu_model = serializers.CharField(allow_null=True, help_text="Where it runs now.")
    targets = serializers.DictField(child=serializers.FloatField(), help_text="Parts of its time, by model.")
    received = serializers.DictField(
        child=serializers.FloatField(), help_text="Parts of the time since shares were computed, by model."
    )


class VirtualClusterTargets(APIView):
    @extend_schema(responses=Targets)
    def get(self, request: Request, name: str) -> Response:
        """How a virtual cluster's GPUs shall be divided among tenants, if its policy sets targets."""
        known = view_targets(virtual_cluster_get(name).name)
        return Response(
            {
                "objective": known.objective,
                "decided_at": represent.iso(known.decided_at),
                "tenants": _by_tenant(known, viewer(request)),
            }
        )


class VirtualClusterJobTargets(ListAPIView):
    """The jobs of a virtual cluster that have targets, the newest first: those the reader may see."""

    queryset = Job.objects.none()
    serializer_class = JobTargets

    def get_queryset(self) -> QuerySet[Job]:
        return _unfinished(jobs_visible(viewer(self.request))).select_related("tenant")

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        known = view_targets(virtual_cluster_get(self.kwargs["name"]).name)
        page = self.paginate_queryset(self.get_queryset().filter(id__in=list(known.shares)))
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
            "application": job.shape.get("application") or "",
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
