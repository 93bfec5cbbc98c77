"""How the API describes itself: stable operation ids, the one error format, Idempotency-Key.

`manage.py spectacular --validate --fail-on-warn --file docs/api/openapi.yaml` writes the committed copy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import force_instance
from drf_spectacular.utils import Direction, OpenApiParameter, OpenApiResponse
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS, AllowAny

from controlplane.auth import scopes_needed
from controlplane.idempotency import HEADER, KEPT, KEY_CHARACTERS
from tenants.api.editions import CHANGES, Edited
from tenants.api.problems import CONTENT_TYPE

_OWN_PASSWORD = frozenset({"current", "your_password"})
VERBS = {"GET": "get", "POST": "create", "PUT": "set", "PATCH": "change", "DELETE": "delete"}


#: Documentation shows a list of summaries; a longer one is cut there.
SUMMARY_CHARACTERS = 90
#: Of answers with status 429.
WHEN_TO_RETRY = [
    OpenApiParameter(
        name=name, location=OpenApiParameter.HEADER, type=kind, response=["429"], description=description
    )
    for name, kind, description in (
        ("Retry-After", int, "Seconds to wait."),
        ("RateLimit-Policy", str, "The limit that was met: its name, `q` requests, and what these are."),
        ("RateLimit", str, "The same limit now: `r` requests are left, in `t` seconds there are more."),
    )
]


EDITION = OpenApiParameter(
    name="ETag",
    location=OpenApiParameter.HEADER,
    type=str,
    response=["200"],
    description="Version of the object; it changes whenever the object does.",
)
EDITION_MADE_FROM = OpenApiParameter(
    name="If-Match",
    location=OpenApiParameter.HEADER,
    type=str,
    description="ETag of the version that you read. If the object has changed since, the answer is 412.",
)


class FieldErrorSchema(serializers.Serializer[Mapping[str, object]]):
    field = serializers.CharField(help_text="Dotted path of the field, such as tasks.0.resources.gpu.")
    problem = serializers.CharField()
    expected = serializers.CharField(help_text="What a correct value would be; may be empty.")

    class Meta:
        ref_name = "FieldError"


class ErrorSchema(serializers.Serializer[Mapping[str, object]]):
    type = serializers.CharField(help_text="Address of the explanation of the code, relative to the server.")
    title = serializers.CharField(help_text="Title of the code, the same for each error of that code.")
    status = serializers.IntegerField(help_text="HTTP status of the answer.")
    detail = serializers.CharField(help_text="The problem with this request, in one or two sentences.")
    code = serializers.CharField(help_text="Code for programs, such as invalid, not_found or quota_exceeded.")
    fields = FieldErrorSchema(many=True, help_text="The wrong fields; empty if there are none.")  # type: ignore[assignment]

    class Meta:
        ref_name = "Error"


class Schema(AutoSchema):
    """Adds to each operation what holds for all, so that no view has to repeat it."""

    def get_operation_id(self) -> str:
        """`jobs_list`, `jobs_create`, `jobs_get`, and `jobs_cancel` for POST /jobs/{id}/cancel."""
        words = [word.replace("-", "_") for word in self._tokenize_path()] or ["root"]
        if self.method == "GET" and self._is_list_view():
            return "_".join([*words, "list"])
        if self.method == "POST" and len(words) > 1:
            return "_".join(words)
        return "_".join([*words, VERBS[self.method]])

    def get_summary(self) -> str:
        """The first sentence of its description where that is short, else the words of its id."""
        first = re.split(r"(?<=\w)[.:;](?:\s|$)", self.get_description() or "", maxsplit=1)[0].strip()
        if 0 < len(first) <= SUMMARY_CHARACTERS:
            return " ".join(first.split())
        return self.get_operation_id().replace("_", " ").capitalize()

    def get_serializer_name(self, serializer: serializers.Serializer[Any], direction: str) -> str:
        """The object's name: TokenOutput is what the API calls a Token."""
        return type(serializer).__name__.removesuffix("Output")

    def _map_basic_serializer(
        self, serializer: serializers.Serializer[Any], direction: str
    ) -> dict[str, Any]:
        schema: dict[str, Any] = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]  # it has no types
        # A stored object has a value in every field, also where a request may leave it to its default.
        is_row = isinstance(serializer, serializers.ModelSerializer)
        if direction == "response" and (is_row or getattr(serializer, "is_stored", False)):
            schema["required"] = sorted(schema["properties"])
        return schema

    def get_override_parameters(self) -> list[Any]:
        known = list(WHEN_TO_RETRY) if getattr(self.view, "is_heavy", False) else []
        if isinstance(self.view, Edited):
            known += [EDITION_MADE_FROM] if self.method in CHANGES else []
            known += [EDITION] if self.method != "DELETE" else []
        if self.method != "POST" or self._is_public():
            return known
        return [
            *known,
            OpenApiParameter(
                name=HEADER,
                location=OpenApiParameter.HEADER,
                type={"type": "string", "minLength": 1, "maxLength": KEY_CHARACTERS},
                description=(
                    "The same key with the same body is answered with the stored answer again "
                    f"(for {KEPT.total_seconds() / 3600:.0f} hours); secrets in it are null by then."
                ),
            ),
        ]

    def _get_response_bodies(self, direction: Direction = "response") -> dict[str, Any]:
        bodies = super()._get_response_bodies(direction)
        for status, description in self._errors().items():
            if str(status) not in bodies:
                stated = OpenApiResponse(response=ErrorSchema, description=description)
                bodies[str(status)] = self._get_response_for_code(  # type: ignore[no-untyped-call]  # it has no types
                    stated, str(status), media_types=[CONTENT_TYPE], direction=direction
                )
        return dict(sorted(bodies.items()))

    def _errors(self) -> dict[int, str]:
        errors = {400: "The request is malformed or has wrong fields."}
        if self._is_public():
            errors |= {401: "Wrong username or password.", 429: "Too many wrong passwords; see Retry-After."}
        else:
            refused = f"Your role or your token does not allow it.{self._scope()}"
            errors |= {401: "Not signed in.", 403: refused}
            errors[429] = "Too many requests are under way; see Retry-After."
        errors[404] = "Not found, or you may not see it."
        errors[406] = "No type in the Accept header is available."
        if self.method in ("POST", "PUT", "PATCH", "DELETE"):
            errors |= {409: "The state of the object, or a quota, does not allow it."}
        if isinstance(self.view, Edited) and self.method in CHANGES:
            errors[412] = "The object has changed since you read the version that If-Match names."
        if self.method in ("POST", "PUT", "PATCH"):
            errors |= {413: "The body is too large.", 415: "The body is not application/json."}
        if self._takes_password():
            errors[429] = "Too many wrong passwords; see Retry-After."
        # What only this view refuses, such as a read of something that is not there yet.
        errors |= getattr(self.view, "refusals", {})
        if self.method == "POST" and not self._is_public():
            errors[422] = f"This {HEADER} was used for another request."
        return errors

    def _takes_password(self) -> bool:
        """Whether a body may hold the caller's own password, which is checked as at signing in."""
        if self.method not in ("POST", "PUT", "PATCH"):
            return False
        body = force_instance(self.get_request_serializer())
        return isinstance(body, serializers.Serializer) and not _OWN_PASSWORD.isdisjoint(body.fields)

    def _scope(self) -> str:
        if self.method in SAFE_METHODS:
            return ""
        needed = ", ".join(scopes_needed(self.view, self.method))
        return f" A token needs the scope {needed}."

    def _is_public(self) -> bool:
        """Whether it needs no caller, as signing in does."""
        return any(isinstance(permission, AllowAny) for permission in self.view.get_permissions())


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = "controlplane.auth.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "alt_<key>_<secret>"}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "controlplane.auth.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "allot_session",
            "description": "Every changing method also needs the header X-CSRFToken.",
        }
