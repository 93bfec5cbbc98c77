"""Templates of a tenant: specifications that its members start from, each under a name."""

import json
import re
from typing import Any

from django.core.validators import RegexValidator
from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.jobs.schemas import JobSpec
from scheduler.jobs.services.submission import Submission
from scheduler.models.jobs import JobTemplate
from tenants.api.editions import Edited
from tenants.api.strict import StrictSerializer
from tenants.errors import Conflict, FieldError, Invalid, NotFound
from tenants.models import Role, Scope, Tenant
from tenants.selectors import Viewer, tenant_get, viewer

#: The most of one tenant.
MOST = 100
#: The most of a specification, as JSON.
MOST_BYTES = 64 * 1024
NAME = RegexValidator(
    r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$",
    "Use 1 to 63 letters, digits, '.', '_' and '-', with a letter or digit at both ends.",
)


@extend_schema_field(JobSpec)
class Specification(serializers.JSONField):
    """A specification as it was written; it is checked as a submission is."""


class JobTemplateInput(StrictSerializer):
    summary = serializers.CharField(
        max_length=200, allow_blank=True, default="", help_text="What it is for, in one sentence."
    )
    spec = Specification()


class JobTemplateRow(serializers.Serializer[JobTemplate]):
    name = serializers.CharField()
    summary = serializers.CharField()
    owner = serializers.CharField(
        source="owner.username",
        default=None,
        allow_null=True,
        help_text="User who created it; null: a user who was deleted.",
    )
    changed_at = serializers.DateTimeField()
    may_change = serializers.SerializerMethodField()

    def get_may_change(self, row: JobTemplate) -> bool:
        return _may_change(viewer(self.context["request"]), row)


class JobTemplateOutput(JobTemplateRow):
    spec = serializers.DictField(help_text="The specification as written, not in normal form.")


class JobTemplates(ListAPIView[JobTemplate]):
    """List the templates of a tenant by name, without their specifications."""

    queryset = JobTemplate.objects.none()
    serializer_class = JobTemplateRow
    ordering = "name"

    def get_queryset(self) -> QuerySet[JobTemplate]:
        return _of(tenant_get(viewer(self.request), self.kwargs["name"])).defer("spec")


class JobTemplateDetail(Edited):
    scope = Scope.SUBMIT
    edition = ("summary", "spec")

    @extend_schema(responses=JobTemplateOutput)
    def get(self, request: Request, name: str, template: str) -> Response:
        """Get a template with its specification."""
        return self._answer(request, _get(tenant_get(viewer(request), name), template))

    @extend_schema(request=JobTemplateInput, responses={200: JobTemplateOutput, 201: JobTemplateOutput})
    def put(self, request: Request, name: str, template: str) -> Response:
        """Save a specification as a template, or replace the template of that name. For members of the
        tenant; only admins can replace another member's template. The specification is checked as a
        submission is.
        """
        by = viewer(request)
        tenant = tenant_get(by, name)
        by.require(tenant, Role.MEMBER)
        if not re.fullmatch(NAME.regex, template):
            raise Invalid.of(FieldError("name", "is not a name of a template", str(NAME.message)))
        given = JobTemplateInput(data=request.data)
        given.is_valid(raise_exception=True)
        spec = _checked(by, tenant, given.validated_data["spec"])
        row, is_new = _put(by, tenant, template, given.validated_data["summary"], spec)
        return self._answer(request, row, 201 if is_new else 200)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, template: str) -> Response:
        """Delete a template that you wrote, or as an admin any of the tenant's."""
        by = viewer(request)
        row = _get(tenant_get(by, name), template)
        _require_change(by, row)
        row.delete()
        return Response(status=204)

    def _answer(self, request: Request, row: JobTemplate, status: int = 200) -> Response:
        return Response(JobTemplateOutput(row, context={"request": request}).data, status=status)


def _of(tenant: Tenant) -> QuerySet[JobTemplate]:
    return JobTemplate.objects.filter(tenant=tenant).select_related("owner", "tenant")


def _get(tenant: Tenant, name: str) -> JobTemplate:
    row = _of(tenant).filter(name=name).first()
    if row is None:
        raise NotFound(f"Tenant {tenant.name} has no template {name!r}.")
    return row


def _checked(by: Viewer, tenant: Tenant, spec: Any) -> Any:
    """Return a specification that could be submitted for the tenant; raise Invalid with every wrong field."""
    if len(json.dumps(spec)) > MOST_BYTES:
        raise Invalid.of(FieldError("spec", "is too long", f"at most {MOST_BYTES // 1024} KiB as JSON"))
    Submission(by, tenant.name).check(spec, where="spec")
    return spec


@transaction.atomic
def _put(by: Viewer, tenant: Tenant, name: str, summary: str, spec: Any) -> tuple[JobTemplate, bool]:
    """Raises Conflict where a tenant has enough of them already."""
    # One after the other, so that the limit holds.
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    row = _of(tenant).filter(name=name).first()
    if row is None:
        if _of(tenant).count() >= MOST:
            raise Conflict(f"Tenant {tenant.name} can have {MOST} templates: delete one first.")
        row = JobTemplate.objects.create(tenant=tenant, owner=by.user, name=name, summary=summary, spec=spec)
        return row, True
    _require_change(by, row)
    row.summary, row.spec = summary, spec
    row.save(update_fields=["summary", "spec", "changed_at"])
    return row, False


def _may_change(by: Viewer, row: JobTemplate) -> bool:
    """A template belongs to its author, while a member, and to admins."""
    return by.may(row.tenant, Role.MEMBER if row.owner_id == by.user.pk else Role.ADMIN)


def _require_change(by: Viewer, row: JobTemplate) -> None:
    by.require(row.tenant, Role.MEMBER if row.owner_id == by.user.pk else Role.ADMIN)
