"""Throughputs of job classes: members see those of their tenants, admins correct them, operators all."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.pagination import ByPosition
from scheduler.core.model.gpu_parts import WHOLE_GPU
from scheduler.core.perf.tables import MOST_GPUS
from scheduler.core.perf.throughput import HIGHEST, MOST_TOGETHER, Setting, beside, partners_of
from scheduler.models.nodes import GPU_MODEL_NAME, Gpu
from scheduler.models.selectors.jobs import job_get
from scheduler.models.selectors.nodes import gpu_models
from scheduler.models.throughputs import MOST_PARTNERS, SpeedCorrection
from scheduler.nodes import schemas as node_schemas
from scheduler.telemetry.throughputs import schemas
from scheduler.telemetry.throughputs.services.files import Change, throughputs_export, throughputs_import
from scheduler.telemetry.throughputs.services.interference import interference_report
from scheduler.telemetry.throughputs.services.of_jobs import job_throughputs
from scheduler.telemetry.throughputs.services.rows import (
    JOB_CLASS_NAME,
    Cell,
    Row,
    Throughputs,
    price_set,
    throughput_correct,
    throughput_correction_remove,
)
from scheduler.telemetry.throughputs.services.shared_gpus import gpus_shared, shared_gpus
from scheduler.wiring.rest import checked
from tenants.api.queries import refuse_unknown
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import tenant_get, viewer
from tenants.times import iso

CHANGES_SHOWN = 200
RENAMED_SHOWN = 100
CONTENT_MOST = 4_000_000
PRICE_MOST = 1e9


class ThroughputQuery(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField(required=False, max_length=63)
    application = serializers.CharField(
        required=False, max_length=68, help_text="Only applications whose name contains this text."
    )
    gpu_model = serializers.CharField(
        required=False,
        max_length=63,
        help_text="Only rows with a throughput on this GPU model, and only that throughput.",
    )
    gpus = serializers.IntegerField(required=False, min_value=1, max_value=MOST_GPUS)
    partners = serializers.BooleanField(
        default=False,
        help_text=(
            "true: only throughputs beside other applications on the same GPUs; false: only those alone."
        ),
    )


class PartnerField(serializers.CharField):
    """Applications that share all GPUs of a gang, in any order; a value is as `beside` has them."""

    def __init__(self, **options: Any) -> None:
        most = MOST_TOGETHER - 1
        help_text = f"The application that shares all its GPUs; several (at most {most}) are joined by +."
        super().__init__(max_length=MOST_PARTNERS, help_text=help_text, **options)

    def to_internal_value(self, data: Any) -> str:
        partners = partners_of(super().to_internal_value(data))
        for partner in partners:
            JOB_CLASS_NAME(partner)
        if len(partners) >= MOST_TOGETHER:
            raise serializers.ValidationError(
                f"{len(partners)} applications; at most {MOST_TOGETHER - 1} share the GPUs of one."
            )
        return beside(partners)


class SettingInput(StrictSerializer):
    tenant = serializers.CharField(max_length=63)
    application = serializers.CharField(max_length=68, validators=[JOB_CLASS_NAME])
    gpu_model = serializers.CharField(max_length=63, validators=[GPU_MODEL_NAME])
    gpus = serializers.IntegerField(min_value=1, max_value=MOST_GPUS)
    spread = serializers.BooleanField(default=False)
    partner = PartnerField(default="", allow_blank=True)


class CorrectionInput(SettingInput):
    value = serializers.FloatField(
        min_value=0,
        max_value=HIGHEST,
        help_text=(
            "Samples per second of the gang; beside a partner, speed relative to running alone, "
            "0 to 1. 0: it does not run there."
        ),
    )
    reason = serializers.CharField(default="", max_length=200, allow_blank=True)


class SettingQuery(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField(max_length=63)
    application = serializers.CharField(max_length=68)
    gpu_model = serializers.CharField(max_length=63)
    gpus = serializers.IntegerField(min_value=1, max_value=MOST_GPUS)
    spread = serializers.BooleanField(default=False)
    partner = PartnerField(default="", allow_blank=True)


class ExportQuery(serializers.Serializer[Mapping[str, object]]):
    tenant = serializers.CharField(max_length=63)
    layout = serializers.ChoiceField(choices=schemas.LAYOUTS, default="csv")


class ImportInput(StrictSerializer):
    tenant = serializers.CharField(max_length=63)
    content = serializers.CharField(
        max_length=CONTENT_MOST,
        trim_whitespace=False,
        help_text="Text of the file: CSV of this platform or Gavel's JSON, recognised by its content.",
    )
    dry_run = serializers.BooleanField(default=False, help_text="Change nothing; return what would change.")
    reason = serializers.CharField(default="", max_length=200, allow_blank=True)


class PriceInput(StrictSerializer):
    price_per_hour = serializers.FloatField(min_value=0, max_value=PRICE_MOST)


class ThroughputList(GenericAPIView[Any]):
    """List known throughputs by job class."""

    queryset = SpeedCorrection.objects.none()
    pagination_class = ByPosition
    serializer_class = schemas.ThroughputRow

    @extend_schema(parameters=[ThroughputQuery], responses=schemas.ThroughputRow(many=True))
    def get(self, request: Request) -> Response:
        query = checked(ThroughputQuery, request)
        by = viewer(request)
        if "tenant" in query:
            tenant_get(by, query["tenant"])
        throughputs = Throughputs.seen_by(by, query.get("tenant"))
        rows = [row for row in throughputs.rows() if _matches(row, query, throughputs)]
        pages = ByPosition()
        page = [rows[position] for position in pages.page_of(len(rows), request)]
        return pages.get_paginated_response(_rows(throughputs, page, query.get("gpu_model")))


class ThroughputCorrectionView(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=CorrectionInput, responses=schemas.ThroughputRow)
    def put(self, request: Request) -> Response:
        """Correct a throughput; this overrides measurements. For admins of the tenant, and operators."""
        by = viewer(request)
        given = CorrectionInput(data=request.data)
        given.is_valid(raise_exception=True)
        fields = dict(given.validated_data)
        tenant = tenant_get(by, fields.pop("tenant"))
        value, reason = fields.pop("value"), fields.pop("reason")
        application = fields.pop("application")
        throughput_correct(
            by=by,
            tenant=tenant,
            application=application,
            setting=Setting(**fields),
            value=value,
            reason=reason,
        )
        row = Row(tenant.name, application, fields["gpus"], fields["spread"], fields["partner"])
        return Response(_rows(Throughputs.seen_by(by, tenant.name), [row], None)[0])

    @extend_schema(parameters=[SettingQuery], responses={204: None})
    def delete(self, request: Request) -> Response:
        """Remove a correction. For admins of the tenant, and operators."""
        by = viewer(request)
        fields = dict(checked(SettingQuery, request))
        tenant = tenant_get(by, fields.pop("tenant"))
        application = fields.pop("application")
        throughput_correction_remove(by=by, tenant=tenant, application=application, setting=Setting(**fields))
        return Response(status=204)


class ThroughputExport(APIView):
    is_heavy = True

    @extend_schema(
        parameters=[ExportQuery],
        responses={
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR),
            (200, "application/json"): OpenApiResponse(OpenApiTypes.OBJECT),
        },
    )
    def get(self, request: Request) -> HttpResponse:
        """Export the corrected, measured and declared throughputs of a tenant as a file."""
        by = viewer(request)
        query = checked(ExportQuery, request)
        tenant = tenant_get(by, query["tenant"])
        ending, content_type = {"csv": ("csv", "text/csv"), "gavel": ("json", "application/json")}[
            query["layout"]
        ]
        text = throughputs_export(viewer=by, tenant=tenant, layout=query["layout"])
        name = f'attachment; filename="throughputs-{tenant.name}.{ending}"'
        return HttpResponse(text, content_type=content_type, headers={"Content-Disposition": name})


class ThroughputImportView(APIView):
    scope = Scope.MANAGE
    is_heavy = True

    @extend_schema(request=ImportInput, responses={200: schemas.ThroughputImport})
    def post(self, request: Request) -> Response:
        """Import a file of throughputs as corrections, all or none. For admins of the tenant, and
        operators."""
        by = viewer(request)
        given = ImportInput(data=request.data)
        given.is_valid(raise_exception=True)
        fields = dict(given.validated_data)
        done = throughputs_import(by=by, tenant=tenant_get(by, fields.pop("tenant")), **fields)
        added = sum(change.before is None for change in done.changes)
        renamed = [{"from": was, "to": now} for was, now in sorted(done.renamed.items())]
        return Response(
            {
                "dry_run": fields["dry_run"],
                "layout": done.layout,
                "added": added,
                "changed": len(done.changes) - added,
                "unchanged": done.unchanged,
                "unknown_models": done.unknown_models,
                "renamed": renamed[:RENAMED_SHOWN],
                "changes": [_change(change) for change in done.changes[:CHANGES_SHOWN]],
            }
        )


class Interference(APIView):
    @extend_schema(responses=schemas.Interference)
    def get(self, request: Request) -> Response:
        """Show the predicted speed of jobs that share GPUs, where it was not measured. For operators."""
        viewer(request).require_operator()
        refuse_unknown(request, ())
        return Response(interference_report())


class JobThroughputs(APIView):
    @extend_schema(responses=schemas.JobThroughputs)
    def get(self, request: Request, job_id: int) -> Response:
        """Show the job's throughput on each GPU model. Also shows the shares that its policy aims at, and the
        shares it received.
        """
        return Response(job_throughputs(job_get(viewer(request), job_id)))


class GpuModelDetail(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=PriceInput, responses=node_schemas.GpuModel)
    def patch(self, request: Request, name: str) -> Response:
        """Set the price of one GPU-hour of this model. For operators."""
        by = viewer(request)
        by.require_operator()
        given = PriceInput(data=request.data)
        given.is_valid(raise_exception=True)
        price_set(by=by, gpu_model=name, **given.validated_data)
        return Response(next(model for model in gpu_models() if model["name"] == name))


class SharedGpus(ListAPIView[Gpu]):
    """List shared GPUs: each job's part, and how much sharing slows the job down."""

    queryset = Gpu.objects.none()
    serializer_class = schemas.SharedGpu
    ordering = "id"

    def get_queryset(self) -> QuerySet[Gpu]:
        return gpus_shared().only("id")

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(shared_gpus(viewer(request), [gpu.id for gpu in page or ()]))


def _matches(row: Row, query: dict[str, Any], throughputs: Throughputs) -> bool:
    return (
        bool(row.partner) == query["partners"]
        and query.get("application", "").lower() in row.application.lower()
        and query.get("gpus") in (None, row.gpus)
        and ("gpu_model" not in query or query["gpu_model"] in throughputs.models_known(row))
    )


def _rows(throughputs: Throughputs, rows: Iterable[Row], only: str | None) -> list[dict[str, Any]]:
    return [
        {
            **row._asdict(),
            "gpu_limit": row.gpu_limit / WHOLE_GPU,
            "may_correct": throughputs.may_correct(row),
            "throughputs": _cells(cells, only),
        }
        for row, cells in throughputs.cells(rows).items()
    ]


def _cells(cells: list[Cell], only: str | None) -> list[dict[str, Any]]:
    fastest = max((cell.throughput.value for cell in cells if cell.throughput), default=0.0)
    return [_cell(cell, fastest) for cell in cells if only in (None, cell.gpu_model)]


def _cell(cell: Cell, fastest: float) -> dict[str, Any]:
    throughput, measured, corrected = cell.throughput, cell.measurement, cell.correction
    return {
        "gpu_model": cell.gpu_model,
        "value": throughput.value if throughput else None,
        "source": throughput.source.value if throughput else None,
        "samples": throughput.samples if throughput else 0,
        "confidence": round(throughput.confidence, 3) if throughput else 0.0,
        "relative": throughput.value / fastest if throughput and fastest else None,
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
        "gpu_model": change.setting.gpu_model,
        "gpus": change.setting.gpus,
        "spread": change.setting.spread,
        "partner": change.setting.partner,
        "before": change.before,
        "after": change.after,
    }
