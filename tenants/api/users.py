"""Accounts. For operators."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.api.strict import StrictSerializer
from tenants.models import Scope, User
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
        text = "The caller's own; needed to make operators and reset passwords when signed in by a token."
        super().__init__(max_length=200, trim_whitespace=False, required=False, help_text=text)


class UserInput(StrictSerializer):
    username = serializers.CharField(validators=[USERNAME])
    email = serializers.EmailField(max_length=254, allow_blank=True, default="")
    password = serializers.CharField(
        max_length=200,
        trim_whitespace=False,
        required=False,
        allow_null=True,
        help_text="A random one is made, and told once, when this is absent.",
    )
    is_operator = serializers.BooleanField(default=False)
    your_password = YourPassword()


class UserChange(StrictSerializer):
    email = serializers.EmailField(max_length=254, allow_blank=True, required=False)
    is_active = serializers.BooleanField(required=False)
    is_operator = serializers.BooleanField(required=False)
    password = serializers.CharField(max_length=200, trim_whitespace=False, required=False)
    end_tokens = serializers.BooleanField(
        default=True, help_text="With a new password: whether the user's API tokens end, too."
    )
    your_password = YourPassword()


class UserOutput(serializers.ModelSerializer[User]):
    class Meta:
        model = User
        fields = ["username", "email", "is_operator", "is_active", "date_joined", "last_login"]


class NewUserOutput(UserOutput):
    password = serializers.CharField(allow_null=True, help_text="The random one, in this answer only.")

    class Meta(UserOutput.Meta):
        fields = [*UserOutput.Meta.fields, "password"]


class UsersView(ListAPIView[User]):
    """All accounts, the newest first. For operators."""

    scope = Scope.OPERATE
    serializer_class = UserOutput
    queryset = User.objects.none()

    def get_queryset(self) -> QuerySet[User]:
        viewer(self.request).require_operator()
        return User.objects.all()

    @extend_schema(request=UserInput, responses={201: NewUserOutput})
    def post(self, request: Request) -> Response:
        """Create a user."""
        by = viewer(request)
        by.require_operator()
        given = UserInput(data=request.data)
        given.is_valid(raise_exception=True)
        body = dict(given.validated_data)
        by = with_password(request._request, by, body.pop("your_password", None))
        user, password = user_create(by=by, **body)
        return Response({**UserOutput(user).data, "password": password}, status=201)


class UserView(APIView):
    scope = Scope.OPERATE

    @extend_schema(request=UserChange, responses=UserOutput)
    def patch(self, request: Request, username: str) -> Response:
        """Change an account; one that is made inactive is signed out at once, tokens included."""
        by = viewer(request)
        by.require_operator()
        given = UserChange(data=request.data)
        given.is_valid(raise_exception=True)
        body = dict(given.validated_data)
        by = with_password(request._request, by, body.pop("your_password", None))
        return Response(UserOutput(user_change(by=by, username=username, **body)).data)
