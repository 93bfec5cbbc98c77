"""Speeds of job classes: members see those of their tenants, admins correct them, operators all."""

from collections.abc import Iterable
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.pagination import ByPosition
from scheduler.core.perf.tables import MOST_GPUS
from scheduler.core.perf.throughput import HIGHEST, Setting
from scheduler.jobs.selectors import job_get
from scheduler.nodes import schemas as node_schemas
from scheduler.nodes.models import GPU_MODEL_NAME
from scheduler.nodes.selectors import gpu_models
from scheduler.representation import iso
from scheduler.rest.queries import checked
from scheduler.speeds import schemas
from scheduler.speeds.models import SpeedCorrection
from scheduler.speeds.services.files import Change, speeds_export, speeds_import
from scheduler.speeds.services.of_jobs import job_speeds
from scheduler.speeds.services.rows import (
    KIND_NAME,
    Cell,
    Row,
    Speeds,
    price_set,
    speed_correct,
    speed_correction_remove,
)
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import tenant_get, viewer

CHANGES_SHOWN = 200
RENAMED_SHOWN = 100
CONTENT_MOST = 4_000_000
PRICE_MOST = 1e9


class SpeedQuery(serializers.Serializer):
    tenant = serializers.CharField(required=False, max_length=63)
    application = serializers.CharField(required=False, max_length=68, help_text="A part of it.")
    gpu_model = serializers.CharField(
        required=False, max_length=63, help_text="Only rows that know it, and only its cell."
    )
    gpus = serializers.IntegerField(required=False, min_value=1, max_value=MOST_GPUS)
    partners = serializers.BooleanField(
        default=False, help_text="Only speeds beside partners, or only others."
    )


class SettingInput(StrictSerializer):
    tenant = serializers.CharField(max_length=63)
    application = serializers.CharField(max_length=68, validators=[KIND_NAME])
    gpu_model = serializers.CharField(max_length=63, validators=[GPU_MODEL_NAME])
    gpus = serializers.IntegerField(min_value=1, max_value=MOST_GPUS)
    spread = serializers.BooleanField(default=False)
    partner = serializers.CharField(default="", max_length=68, allow_blank=True, validators=[KIND_NAME])


class CorrectionInput(SettingInput):
    value = serializers.FloatField(
        min_value=0,
        max_value=HIGHEST,
        help_text="Samples a second of the gang, 0 to 1 beside a partner; 0: it does not run there.",
    )
    reason = serializers.CharField(default="", max_length=200, allow_blank=True)


class SettingQuery(serializers.Serializer):
    tenant = serializers.CharField(max_length=63)
    application = serializers.CharField(max_length=68)
    gpu_model = serializers.CharField(max_length=63)
    gpus = serializers.IntegerField(min_value=1, max_value=MOST_GPUS)
    spread = serializers.BooleanField(default=False)
    partner = serializers.CharField(default="", max_length=68, allow_blank=True)


class ExportQuery(serializers.Serializer):
    tenant = serializers.CharField(max_length=63)
    layout = serializers.ChoiceField(choices=schemas.LAYOUTS, default="csv")


class ImportInput(StrictSerializer):
    tenant = serializers.CharField(max_length=63)
    content = serializers.CharField(
        max_length=CONTENT_MOST,
        trim_whitespace=False,
        help_text="The text of the file: our CSV or Gavel's JSON, told apart by their content.",
    )
    dry_run = serializers.BooleanField(default=False, help_text="Only say what would change.")
    reason = serializers.CharField(default="", max_length=200, allow_blank=True)


class PriceInput(StrictSerializer):
    price_per_hour = serializers.FloatField(min_value=0, max_value=PRICE_MOST)


class SpeedList(GenericAPIView):
    """What is known of speeds, by job class."""

    queryset = SpeedCorrection.objects.none()
    pagination_class = ByPosition
    serializer_class = schemas.SpeedRow

    @extend_schema(parameters=[SpeedQuery], responses=schemas.SpeedRow(many=True))
    def get(self, request: Request) -> Response:
        query = checked(SpeedQuery, request)
        by = viewer(request)
        if "tenant" in query:
            tenant_get(by, query["tenant"])
        speeds = Speeds.seen_by(by, query.get("tenant"))
        rows = [row for row in speeds.rows() if _is_asked_for(row, query, speeds)]
        pages = ByPosition()
        page = [rows[position] for position in pages.page_of(len(rows), request)]
        return pages.get_paginated_response(_rows(speeds, page, query.get("gpu_model")))


class SpeedCorrectionView(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=CorrectionInput, responses=schemas.SpeedRow)
    def put(self, request: Request) -> Response:
        """Say what a speed is, whatever was measured. For admins of the tenant, and operators."""
        by = viewer(request)
        given = CorrectionInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = dict(given.validated_data)
        tenant = tenant_get(by, wanted.pop("tenant"))
        value, reason = wanted.pop("value"), wanted.pop("reason")
        application = wanted.pop("application")
        speed_correct(
            by=by,
            tenant=tenant,
            application=application,
            setting=Setting(**wanted),
            value=value,
            reason=reason,
        )
        row = Row(tenant.name, application, wanted["gpus"], wanted["spread"], wanted["partner"])
        return Response(_rows(Speeds.seen_by(by, tenant.name), [row], None)[0])

    @extend_schema(parameters=[SettingQuery], responses={204: None})
    def delete(self, request: Request) -> Response:
        """Take a correction back. For admins of the tenant, and operators."""
        by = viewer(request)
        wanted = dict(checked(SettingQuery, request))
        tenant = tenant_get(by, wanted.pop("tenant"))
        application = wanted.pop("application")
        speed_correction_remove(by=by, tenant=tenant, application=application, setting=Setting(**wanted))
        return Response(status=204)


class SpeedExport(APIView):
    is_heavy = True

    @extend_schema(
        parameters=[ExportQuery],
        responses={
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR),
            (200, "application/json"): OpenApiResponse(OpenApiTypes.OBJECT),
        },
    )
    def get(self, request: Request) -> HttpResponse:
        """What is corrected, measured or declared of a tenant's job classes, as a file."""
        by = viewer(request)
        query = checked(ExportQuery, request)
        tenant = tenant_get(by, query["tenant"])
        ending, kind = {"csv": ("csv", "text/csv"), "gavel": ("json", "application/json")}[query["layout"]]
        text = speeds_export(viewer=by, tenant=tenant, layout=query["layout"])
        name = f'attachment; filename="speeds-{tenant.name}.{ending}"'
        return HttpResponse(text, content_type=kind, headers={"Content-Disposition": name})


class SpeedImportView(APIView):
    scope = Scope.MANAGE
    is_heavy = True

    @extend_schema(request=ImportInput, responses={200: schemas.SpeedImport})
    def post(self, request: Request) -> Response:
        """Take a file of speeds over as corrections, as a whole or not at all. For admins of the tenant, and
        operators."""
        by = viewer(request)
        given = ImportInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = dict(given.validated_data)
        done = speeds_import(by=by, tenant=tenant_get(by, wanted.pop("tenant")), **wanted)
        added = sum(change.before is None for change in done.changes)
        renamed = [{"from": was, "to": now} for was, now in sorted(done.renamed.items())]
        return Response(
            {
                "dry_run": wanted["dry_run"],
                "layout": done.layout,
                "added": added,
                "changed": len(done.changes) - added,
                "unchanged": done.unchanged,
                "unknown_models": done.unknown_models,
                "renamed": renamed[:RENAMED_SHOWN],
                "changes": [_change(change) for change in done.changes[:CHANGES_SHOWN]],
            }
        )


class JobSpeeds(APIView):
    @extend_schema(responses=schemas.JobSpeeds)
    def get(self, request: Request, job_id: int) -> Response:
        """Say how fast the job is on each GPU model, what its policy aims at, and what it received there."""
        return Response(job_speeds(job_get(viewer(request), job_id)))


class GpuModelDetail(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=PriceInput, responses=node_schemas.GpuModel)
    def patch(self, request: Request, name: str) -> Response:
        """Say what a GPU of this model costs for an hour. For operators."""
        by = viewer(request)
        by.require_operator()
        given = PriceInput(data=request.data)
        given.is_valid(raise_exception=True)
        price_set(by=by, gpu_model=name, **given.validated_data)
        return Response(next(model for model in gpu_models() if model["name"] == name))


def _is_asked_for(row: Row, query: dict[str, Any], speeds: Speeds) -> bool:
    return (
        bool(row.partner) == query["partners"]
        and query.get("application", "").lower() in row.application.lower()
        and query.get("gpus") in (None, row.gpus)
        and ("gpu_model" not in query or query["gpu_model"] in speeds.models_known(row))
    )


def _rows(speeds: Speeds, rows: Iterable[Row], only: str | None) -> list[dict[str, Any]]:
    return [
        {**row._asdict(), "may_correct": speeds.may_correct(row), "speeds": _cells(cells, only)}
        for row, cells in speeds.cells(rows).items()
    ]


def _cells(cells: list[Cell], only: str | None) -> list[dict[str, Any]]:
    fastest = max((cell.speed.value for cell in cells if cell.speed), default=0.0)
    return [_cell(cell, fastest) for cell in cells if only in (None, cell.gpu_model)]


def _cell(cell: Cell, fastest: float) -> dict[str, Any]:
    speed, measured, corrected = cell.speed, cell.measurement, cell.correction
    return {
        "gpu_model": cell.gpu_model,
        "value": speed.value if speed else None,
        "source": speed.source.value if speed else None,
        "samples": speed.samples if speed else 0,
        "confidence": round(speed.confidence, 3) if speed else 0.0,
        "relative": speed.value / fastest if speed and fastest else None,
        "measured": measured
        and {
            "average": measured.average,
            "deviation": measured.variance**0.5,
            "samples": measured.samples,
            "updated_at": iso(measured.updated_at),
        },
        "declared": cell.declared,
        "correction": corrected
        and {
            "value": corrected.value,
            "reason": corrected.reason,
            "by": f"user {corrected.by.username}",
            "at": iso(corrected.at),
        },
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "application": change.application,
        **change.setting._asdict(),
        "before": change.before,
        "after": change.after,
    }
