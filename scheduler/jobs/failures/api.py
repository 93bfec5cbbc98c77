"""The site's own rules for failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.core.failures.site_rules import Retry, Severity
from scheduler.core.failures.taxonomy import CLASSES, Layer
from scheduler.jobs.failures.services import (
    TEXT_CHARACTERS_MOST,
    rules_in_force,
    rules_replace,
    rules_try,
    rules_written,
)
from tenants.api.editions import Edited
from tenants.api.queries import refuse_unknown
from tenants.api.strict import StrictSerializer
from tenants.models import Scope
from tenants.selectors import viewer


class FailureRule(serializers.Serializer[Mapping[str, object]]):
    """A rule: a failed attempt is of the class if the pattern is found and the attempt ended in one of these
    ways.
    """

    is_stored = True
    name = serializers.CharField(max_length=40)
    retry = serializers.ChoiceField(
        choices=[retry.value for retry in Retry],
        required=False,
        allow_null=True,
        help_text=(
            "Whether a job that failed so is retried, for a class of your own; null: the default "
            "of the class."
        ),
    )
    says = serializers.CharField(
        required=False, allow_blank=True, max_length=80, help_text="Meaning of the class, in a few words."
    )
    pattern = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=500,
        help_text=(
            "Regular expression searched in the last 8 KiB of the output, with the syntax of the "
            "output search."
        ),
    )
    exit_codes = serializers.ListField(
        child=serializers.IntegerField(),
        required=False,
        help_text="Exit codes. If exit_codes or signals are given, the attempt ended with one of them.",
    )
    signals = serializers.ListField(
        child=serializers.IntegerField(), required=False, help_text="Numbers of signals, as for exit_codes."
    )
    severity = serializers.ChoiceField(choices=[severity.value for severity in Severity], required=False)
    advice = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=300,
        help_text="What the job's owner can do about it.",
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # A keyword of Python: it cannot be declared as the others are.
        said = "Failure class: a built-in one, or one of your own."
        return {**super().get_fields(), "class": serializers.CharField(max_length=40, help_text=said)}


class BuiltInClass(serializers.Serializer[Mapping[str, object]]):
    name = serializers.CharField()
    layer = serializers.ChoiceField(choices=[layer.value for layer in Layer])
    says = serializers.CharField()


class FailureRuleList(serializers.Serializer[Mapping[str, object]]):
    rules = FailureRule(
        many=True, help_text="The rules in the order in which they are tried; the first match decides."
    )
    classes = BuiltInClass(
        many=True, read_only=True, help_text="The built-in classes, which a rule may name without `retry`."
    )


class FailureRulesInput(StrictSerializer):
    # Read by the service, which names every wrong field and what would be right.
    rules = serializers.JSONField()


class FailureRulesTrial(StrictSerializer):
    rules = serializers.JSONField(required=False, help_text="Rules to test. Default: the rules in force.")
    log = serializers.CharField(
        allow_blank=True,
        trim_whitespace=False,
        max_length=TEXT_CHARACTERS_MOST,
        help_text="End of a job's output.",
    )
    exit_code = serializers.IntegerField(
        default=1, min_value=1, max_value=255, help_text="Exit code; 128 + N if signal N ended the job."
    )


class FailureRuleMatch(serializers.Serializer[Mapping[str, object]]):
    rule = FailureRule(
        allow_null=True,
        help_text=(
            "Name of the first rule that matches; null: no rule of the site, so the built-in rules decide."
        ),
    )
    layer = serializers.CharField(allow_blank=True)
    tried_again = serializers.BooleanField(
        allow_null=True,
        help_text="Whether a job is retried after its first failure of this kind; null if no rule matches.",
    )


class FailureRules(Edited):
    scope = Scope.OPERATE

    @extend_schema(responses=FailureRuleList)
    def get(self, request: Request) -> Response:
        """List the site's failure classification rules, at most 100. They are tried before the built-in
        rules.
        """
        refuse_unknown(request, ())
        return Response(_answer(rules_in_force()))

    @extend_schema(request=FailureRuleList, responses=FailureRuleList)
    def put(self, request: Request) -> Response:
        """Replace all failure classification rules of the site. For operators."""
        by = viewer(request)
        by.require_operator()
        given = FailureRulesInput(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(_answer(rules_replace(given.validated_data["rules"], by=by)))


class FailureRulesTest(APIView):
    scope = Scope.OPERATE
    is_heavy = True

    @extend_schema(request=FailureRulesTrial, responses=FailureRuleMatch)
    def post(self, request: Request) -> Response:
        """Test rules on the end of an output. Changes nothing. For operators."""
        viewer(request).require_operator()
        given = FailureRulesTrial(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(rules_try(**given.validated_data))


def _answer(rules: Any) -> dict[str, Any]:
    classes = [
        {"name": known.name, "layer": str(known.layer), "says": known.words} for known in CLASSES.values()
    ]
    return {"rules": rules_written(rules), "classes": classes}
