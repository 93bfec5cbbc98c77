"""Accounts. For operators."""

from __future__ import annotations

from collections.abc import Mapping

from django.core.validators import RegexValidator
from django.db.models import OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Greatest
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.api.answers import created
from tenants.api.editions import Edited
from tenants.api.session import MeTenant
from tenants.api.strict import StrictSerializer
from tenants.errors import FieldError, Invalid, NotFound
from tenants.models import Membership, Scope, Token, User
from tenants.selectors import viewer
from tenants.services import user_change, user_create
from tenants.signin import with_password

USERNAME = RegexValidator(
    r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$",
    "Use 1 to 64 letters, digits and '.', '_', '@', '+', '-', with a letter or digit in front.",
)


class YourPassword(serializers.CharField):
    """The operator's own; a token alone makes no operators and resets no passwords."""

    def __init__(self) -> None:
        text = (
            "The caller's own password; required to make operators and reset passwords if you "
            "are signed in with a token."
        )
        super().__init__(max_length=200, trim_whitespace=False, required=False, help_text=text)


class UserInput(StrictSerializer):
    username = serializers.CharField(validators=[USERNAME])
    email = serializers.EmailField(max_length=254, allow_blank=True, default="")
    password = serializers.CharField(
        max_length=200,
        trim_whitespace=False,
        required=False,
        allow_null=True,
        help_text="Password. Default: a random one, returned only in this answer.",
    )
    is_operator = serializers.BooleanField(default=False)
    your_password = YourPassword()


class UserChange(StrictSerializer):
    email = serializers.EmailField(max_length=254, allow_blank=True, required=False)
    is_active = serializers.BooleanField(
        required=False, help_text="true: reactivate it. POST /users/{username}/deactivate does the opposite."
    )
    is_operator = serializers.BooleanField(required=False)
    password = serializers.CharField(max_length=200, trim_whitespace=False, required=False)
    end_tokens = serializers.BooleanField(
        default=True, help_text="With a new password: whether the user's API tokens are revoked too."
    )
    your_password = YourPassword()


class UserOutput(serializers.ModelSerializer[User]):
    tenants = serializers.SerializerMethodField(help_text="Tenants that the user is a member of.")
    last_seen_at = serializers.DateTimeField(
        allow_null=True, help_text="Last sign-in or use of a token; null: never."
    )

    class Meta:
        model = User
        fields = [
            "username",
            "email",
            "is_operator",
            "is_active",
            "date_joined",
            "last_login",
            "last_seen_at",
            "tenants",
        ]

    @extend_schema_field(MeTenant(many=True))
    def get_tenants(self, user: User) -> list[Mapping[str, str]]:
        return [{"name": one.tenant.name, "role": one.role} for one in user.memberships.all()]


class NewUserOutput(UserOutput):
    password = serializers.CharField(allow_null=True, help_text="The random password, in this answer only.")

    class Meta(UserOutput.Meta):
        fields = [*UserOutput.Meta.fields, "password"]


class UserFilter(filters.FilterSet):
    q = filters.CharFilter(
        method="by_text", help_text="Only users whose name or e-mail address contains this text."
    )
    tenant = filters.CharFilter(
        field_name="memberships__tenant__name", help_text="Only members of this tenant."
    )
    is_active = filters.BooleanFilter()
    is_operator = filters.BooleanFilter()

    class Meta:
        model = User
        fields: list[str] = []

    def by_text(self, users: QuerySet[User], name: str, value: str) -> QuerySet[User]:
        return users.filter(Q(username__icontains=value) | Q(email__icontains=value))


def users_shown() -> QuerySet[User]:
    """All users as `UserOutput` shows them, by three queries for however many."""
    used = Token.objects.filter(user=OuterRef("pk"), last_used_at__isnull=False).order_by("-last_used_at")
    memberships = Membership.objects.select_related("tenant").order_by("tenant__name")
    return User.objects.annotate(
        # PostgreSQL's own: the greatest of those that are not null.
        last_seen_at=Greatest("last_login", Subquery(used.values("last_used_at")[:1]))
    ).prefetch_related(Prefetch("memberships", memberships))


def user_shown(username: str) -> User:
    user = users_shown().filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username!r}.")
    return user


class UsersView(ListAPIView[User]):
    """List users, newest first. For operators."""

    scope = Scope.OPERATE
    serializer_class = UserOutput
    queryset = User.objects.none()
    filterset_class = UserFilter

    def get_queryset(self) -> QuerySet[User]:
        viewer(self.request).require_operator()
        return users_shown()

    @extend_schema(
        request=UserInput,
        responses={201: NewUserOutput},
        examples=[
            OpenApiExample(
                "A user with a password to hand over",
                value={"username": "carla", "email": "carla@example.org"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Create a user."""
        by = viewer(request)
        by.require_operator()
        given = UserInput(data=request.data)
        given.is_valid(raise_exception=True)
        body = dict(given.validated_data)
        by = with_password(request._request, by, body.pop("your_password", None))
        user, password = user_create(by=by, **body)
        shown = UserOutput(user_shown(user.username)).data
        return created(request, {**shown, "password": password}, user.username)


class UserView(Edited):
    scope = Scope.OPERATE
    edition = ("username", "email", "is_operator", "is_active")

    @extend_schema(responses=UserOutput)
    def get(self, request: Request, username: str) -> Response:
        """Get one user. For operators."""
        viewer(request).require_operator()
        return Response(UserOutput(user_shown(username)).data)

    @extend_schema(
        request=UserChange,
        responses=UserOutput,
        examples=[OpenApiExample("Let a user sign in again", value={"is_active": True}, request_only=True)],
    )
    def patch(self, request: Request, username: str) -> Response:
        """Change or reactivate a user. A reactivated user has the same memberships; tokens stay revoked. For
        operators.
        """
        by = viewer(request)
        by.require_operator()
        given = UserChange(data=request.data)
        given.is_valid(raise_exception=True)
        body = dict(given.validated_data)
        if body.get("is_active") is False:
            expected = "POST /users/{username}/deactivate, which says what becomes of jobs"
            raise Invalid(
                "is_active: cannot be made false here.",
                [FieldError("is_active", "cannot be made false here", expected)],
            )
        by = with_password(request._request, by, body.pop("your_password", None))
        user_change(by=by, username=username, **body)
        return Response(UserOutput(user_shown(username)).data)
