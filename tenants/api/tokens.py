"""One's own API tokens."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.api.strict import StrictSerializer
from tenants.models import Token
from tenants.selectors import viewer
from tenants.services import token_create, token_revoke


class TokenInput(StrictSerializer):
    name = serializers.CharField(max_length=80, help_text="What it is for.")
    expires_in_days = serializers.IntegerField(min_value=1, max_value=3650, required=False, allow_null=True)
    read_only = serializers.BooleanField(required=False, default=False)


class TokenOutput(serializers.ModelSerializer):
    class Meta:
        model = Token
        fields = ["key", "name", "read_only", "created_at", "last_used_at", "expires_at"]


class NewTokenOutput(TokenOutput):
    token = serializers.CharField(allow_null=True, help_text="The whole token, in this answer only.")

    class Meta(TokenOutput.Meta):
        fields = [*TokenOutput.Meta.fields, "token"]


class TokensView(ListAPIView):
    """The caller's own API tokens, the newest first."""

    serializer_class = TokenOutput
    queryset = Token.objects.none()

    def get_queryset(self) -> QuerySet[Token]:
        return Token.objects.filter(user=viewer(self.request).user)

    @extend_schema(request=TokenInput, responses={201: NewTokenOutput})
    def post(self, request: Request) -> Response:
        """Create a token; its text is shown once."""
        given = TokenInput(data=request.data)
        given.is_valid(raise_exception=True)
        token, text = token_create(by=viewer(request), **given.validated_data)
        token.token = text  # type: ignore[attr-defined]
        return Response(NewTokenOutput(token).data, status=201)


class TokenView(APIView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, key: str) -> Response:
        """Revoke a token; it ends at once."""
        token_revoke(by=viewer(request), key=key)
        return Response(status=204)
