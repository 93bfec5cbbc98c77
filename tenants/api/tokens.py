"""API tokens: one's own, and for operators those of all users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.api.answers import created
from tenants.api.strict import StrictSerializer
from tenants.models import Scope, Token
from tenants.selectors import viewer
from tenants.services import token_create, token_revoke, token_rotate
from tenants.signin import with_password

DAYS_MOST = 3_650
OVERLAP_SECONDS, OVERLAP_SECONDS_MOST = 86_400, 7 * 86_400


class TokenInput(StrictSerializer):
    name = serializers.CharField(max_length=80, help_text="Purpose, in your own words.")
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=Scope.choices),
        required=False,
        max_length=len(Scope),
        help_text="Scopes of the token; each includes read. Default: read and submit.",
    )
    expires_in_days = serializers.IntegerField(
        min_value=1,
        max_value=DAYS_MOST,
        required=False,
        allow_null=True,
        help_text=(
            "Days for which the token works. Default: as GET /tokens/terms reports; null: it "
            "never expires, if that is allowed there."
        ),
    )
    your_password = serializers.CharField(
        max_length=200,
        trim_whitespace=False,
        required=False,
        help_text=(
            "The caller's own password; required if a token creates one that has more scopes or outlives it."
        ),
    )


class Rotation(StrictSerializer):
    overlap_seconds = serializers.IntegerField(
        min_value=0,
        max_value=OVERLAP_SECONDS_MOST,
        default=OVERLAP_SECONDS,
        help_text="Seconds for which the old token still works.",
    )
    your_password = serializers.CharField(
        max_length=200,
        trim_whitespace=False,
        required=False,
        help_text="The caller's own password; required for a new token that outlives the token in use.",
    )


class TokenOutput(serializers.ModelSerializer[Token]):
    user = serializers.CharField(source="user.username")
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.choices))
    replaced_by = serializers.CharField(
        source="replaced_by.key",
        allow_null=True,
        default=None,
        help_text="Key of the token that replaces it.",
    )

    class Meta:
        model = Token
        fields = [
            "key",
            "user",
            "name",
            "scopes",
            "created_at",
            "first_used_at",
            "first_used_from",
            "last_used_at",
            "last_used_from",
            "expires_at",
            "replaced_by",
        ]
        read_only_fields = fields


class NewTokenOutput(TokenOutput):
    token = serializers.CharField(allow_null=True, help_text="The whole token, in this answer only.")

    class Meta(TokenOutput.Meta):
        fields = [*TokenOutput.Meta.fields, "token"]


class TokenTerms(serializers.Serializer[Mapping[str, object]]):
    default_days = serializers.IntegerField(help_text="Default lifetime of a token, in days.")
    most_days = serializers.IntegerField()
    may_never_expire = serializers.BooleanField()


class TokenFilter(filters.FilterSet):
    user = filters.CharFilter(
        field_name="user__username", help_text="List the tokens of this user. For operators."
    )
    everybody = filters.BooleanFilter(
        method="by_nobody", help_text="List the tokens of all users. For operators."
    )

    class Meta:
        model = Token
        fields: list[str] = []

    def by_nobody(self, queryset: QuerySet[Token], name: str, value: bool) -> QuerySet[Token]:
        return queryset


class TokensView(ListAPIView[Token]):
    """List the caller's API tokens, newest first; operators can also list those of others."""

    scope = Scope.MANAGE
    serializer_class = TokenOutput
    queryset = Token.objects.none()
    filterset_class = TokenFilter

    def get_queryset(self) -> QuerySet[Token]:
        by = viewer(self.request)
        found = Token.objects.select_related("user", "replaced_by")
        of_others = self.request.query_params.get("everybody", "").lower() == "true"
        if not of_others and self.request.query_params.get("user", by.user.username) == by.user.username:
            return found.filter(user=by.user)
        by.require_operator()
        return found

    @extend_schema(request=TokenInput, responses={201: NewTokenOutput})
    def post(self, request: Request) -> Response:
        """Create an API token. It is shown only in this answer."""
        given = TokenInput(data=request.data)
        given.is_valid(raise_exception=True)
        body = dict(given.validated_data)
        by = with_password(request._request, viewer(request), body.pop("your_password", None))
        # Left out and null say different things.
        never = "expires_in_days" in body and body["expires_in_days"] is None
        token, text = token_create(by=by, never_expires=never, **body)
        return created(request, _new(token, text), token.key)


class TokenView(APIView):
    # A token may always end itself; the service asks more of one that ends others.
    scope = Scope.READ

    @extend_schema(responses={204: None})
    def delete(self, request: Request, key: str) -> Response:
        """Revoke an API token at once. Operators can revoke the tokens of any user.

        A token without the scope manage can revoke only itself.
        """
        token_revoke(by=viewer(request), key=key)
        return Response(status=204)


class TokenRotation(APIView):
    scope = Scope.READ

    @extend_schema(request=Rotation, responses={201: NewTokenOutput})
    def post(self, request: Request, key: str) -> Response:
        """Replace a token of your own by a new one; for a while both work. The new token is shown only in
        this answer.

        A token without the scope manage can rotate only itself, and its successor expires when it would have
        expired.
        """
        given = Rotation(data=request.data)
        given.is_valid(raise_exception=True)
        by = with_password(request._request, viewer(request), given.validated_data.get("your_password"))
        token, text = token_rotate(by=by, key=key, overlap_seconds=given.validated_data["overlap_seconds"])
        return Response(_new(token, text), status=201)


class TokenTermsView(APIView):
    @extend_schema(responses=TokenTerms)
    def get(self, request: Request) -> Response:
        """Show how long a new token may last."""
        config = settings.CONFIG
        return Response(
            {
                "default_days": config.token_days,
                "most_days": config.token_days_most,
                "may_never_expire": config.tokens_may_never_expire,
            }
        )


def _new(token: Token, text: str) -> dict[str, Any]:
    token.token = text  # type: ignore[attr-defined]
    return dict(NewTokenOutput(token).data)
