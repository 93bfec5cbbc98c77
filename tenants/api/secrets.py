"""Secrets for jobs: a tenant's, and one's own. Values come in, and never go out."""

from __future__ import annotations

import re
from typing import Any

from django.core.validators import RegexValidator
from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants import SECRET_SCOPES
from tenants.api.strict import StrictSerializer
from tenants.errors import FieldError, Invalid
from tenants.models import Scope, Secret, Tenant
from tenants.secrets import secret_delete, secret_set, secrets_of
from tenants.selectors import tenant_get, viewer

SECRET_NAME = RegexValidator(
    r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$",
    "Use 1 to 63 letters, digits, '.', '_' and '-', with a letter or digit at both ends.",
)


@extend_schema_field(OpenApiTypes.STR)
class SecretText(serializers.Field[Any, Any, Any, Any]):
    """Text that no error message repeats, as those of other fields do."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError("is not text")
        return data


class SecretInput(StrictSerializer):
    value = SecretText(
        write_only=True, help_text="Value of the secret, at most 32 KiB. It is never shown again."
    )


class SecretOutput(serializers.ModelSerializer[Secret]):
    scope = serializers.ChoiceField(
        choices=SECRET_SCOPES,
        help_text="user: a secret of the caller; tenant: a secret for all members' jobs.",
    )

    class Meta:
        model = Secret
        fields = ["name", "scope", "created_at", "changed_at", "changed_by", "last_used_at"]


class OwnSecretsView(ListAPIView[Secret]):
    """List the caller's own secrets, newest first, without their values."""

    serializer_class = SecretOutput
    queryset = Secret.objects.none()

    def get_queryset(self) -> QuerySet[Secret]:
        return secrets_of(viewer(self.request), None)


class OwnSecretView(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=SecretInput, responses={200: SecretOutput, 201: SecretOutput})
    def put(self, request: Request, name: str) -> Response:
        """Store a secret of your own, or replace its value."""
        return _set(request, None, name)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Delete a secret of your own. Jobs that name it and have not started will fail."""
        secret_delete(by=viewer(request), tenant=None, name=name)
        return Response(status=204)


class TenantSecretsView(ListAPIView[Secret]):
    """List the secrets of a tenant, newest first, without their values."""

    serializer_class = SecretOutput
    queryset = Secret.objects.none()

    def get_queryset(self) -> QuerySet[Secret]:
        by = viewer(self.request)
        return secrets_of(by, tenant_get(by, self.kwargs["name"]))


class TenantSecretView(APIView):
    scope = Scope.MANAGE

    @extend_schema(request=SecretInput, responses={200: SecretOutput, 201: SecretOutput})
    def put(self, request: Request, name: str, secret: str) -> Response:
        """Store a secret for the jobs of a tenant, or replace its value. For its admins."""
        return _set(request, tenant_get(viewer(request), name), secret)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, secret: str) -> Response:
        """Delete a secret of a tenant. Jobs that name it and have not started will fail. For its admins."""
        by = viewer(request)
        secret_delete(by=by, tenant=tenant_get(by, name), name=secret)
        return Response(status=204)


def _set(request: Request, tenant: Tenant | None, name: str) -> Response:
    if not re.fullmatch(SECRET_NAME.regex, name):
        problem = "is not a name of a secret"
        raise Invalid.of(FieldError("name", problem, str(SECRET_NAME.message)))
    given = SecretInput(data=request.data)
    given.is_valid(raise_exception=True)
    secret, is_new = secret_set(
        by=viewer(request), tenant=tenant, name=name, value=given.validated_data["value"]
    )
    return Response(SecretOutput(secret).data, status=201 if is_new else 200)
