"""Serializers for input that refuse unknown fields and state for each wrong field what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.validators import RegexValidator
from rest_framework import serializers
from rest_framework.settings import api_settings

from tenants.errors import FieldError, Invalid

#: Name of the pseudo-field for errors of the body as a whole.
BODY = "body"

#: By the framework's codes, in place of its sentences.
PROBLEMS = {
    "required": "is missing",
    "null": "is null",
    "blank": "is empty",
    "min_value": "is too small",
    "max_value": "is too large",
    "max_string_length": "has too many digits",
    "max_length": "is too long",
    "min_length": "is too short",
    "not_a_dict": "is not an object",
    "not_a_list": "is not a list",
    "empty": "is empty",
    "overflow": "is out of range",
}

EXPECTED_BY_TYPE: Mapping[type[serializers.Field[Any, Any, Any, Any]], str] = {
    serializers.BooleanField: "true or false",
    serializers.EmailField: "an email address",
    serializers.IntegerField: "a whole number",
    serializers.FloatField: "a number",
    serializers.DateTimeField: "a date and time such as 2026-12-01T18:00:00Z",
    serializers.DateField: "a date such as 2026-12-01",
    serializers.DictField: "an object",
    serializers.ListField: "a list",
    serializers.CharField: "text",
}

# JSON's own types: the framework would also take "5" for 5, 1 for true and 5 for "5".
JSON_TYPES: Mapping[type[serializers.Field[Any, Any, Any, Any]], tuple[type, ...]] = {
    serializers.BooleanField: (bool,),
    serializers.IntegerField: (int,),
    serializers.FloatField: (int, float),
    serializers.CharField: (str,),
}


#: For `extend_schema`, whose annotation knows names only: an empty requirement, which requires nothing.
NO_AUTHENTICATION: list[Any] = [{}]


class StrictSerializer(serializers.Serializer[Mapping[str, object]]):
    """Unknown fields and values of a wrong type are refused."""

    def to_internal_value(self, data: Any) -> Any:
        wrong: dict[str, Any] = {}
        if isinstance(data, Mapping):
            wrong = {str(name): ["is not a field here"] for name in data if name not in self.fields}
            for name, field in self.fields.items():
                if errors := _type_errors(field, data.get(name)):
                    wrong[name] = errors
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            details: Any = error.detail
            raise serializers.ValidationError({**details, **wrong}) from None
        if wrong:
            raise serializers.ValidationError(wrong)
        return value

    def is_valid(self, *, raise_exception: bool = False) -> bool:
        valid = super().is_valid(raise_exception=False)
        if not valid and raise_exception:
            errors = tuple(field_errors(self.errors, self))
            raise Invalid(summary(errors), errors)
        return valid


def field_errors(detail: Any, field: Any = None, where: str = "") -> Iterator[FieldError]:
    """One FieldError for each message in the nested details of a serializer.

    Accepts both shapes of `many=True`: a list with an entry per item, and (from version 3.18 of the
    framework) a dictionary by index.
    """
    if isinstance(detail, Mapping):
        for key, inner in detail.items():
            if key == api_settings.NON_FIELD_ERRORS_KEY:
                yield from field_errors(inner, field, where)
            else:
                yield from field_errors(inner, _inner_field(field, key), f"{where}.{key}".lstrip("."))
    elif isinstance(detail, list | tuple):
        for index, inner in enumerate(detail):
            if isinstance(inner, Mapping | list | tuple):
                yield from field_errors(inner, _inner_field(field, index), f"{where}.{index}".lstrip("."))
            else:
                yield from field_errors(inner, field, where)
    else:
        yield FieldError(where or BODY, _problem(detail, field), expected(field))


def _problem(detail: Any, field: Any) -> str:
    code = getattr(detail, "code", "")
    # Our own messages have the code of the framework's "invalid", too.
    if code == "invalid" and _is_frameworks(str(detail), getattr(field, "error_messages", {}).get(code, "")):
        # What an object's fields are, and what a date may look like, stands beside it as expected.
        return f"is not {re.split(',? such as | with the fields ', expected(field))[0]}"
    return PROBLEMS.get(code, str(detail))


def _is_frameworks(said: str, template: object) -> bool:
    """Return whether a sentence is one of the framework's, which has places for values in braces."""
    literal = map(re.escape, re.split(r"\{\w+\}", str(template)))
    return re.fullmatch(".*".join(literal), said) is not None


def summary(errors: tuple[FieldError, ...]) -> str:
    """One sentence for all wrong fields."""
    first = f"{errors[0].field}: {errors[0].problem}"
    return first if len(errors) == 1 else f"{first} (and {len(errors) - 1} more)"


def expected(field: Any) -> str:
    """What a field accepts, in words; empty when the field is not known."""
    if field is None:
        return ""
    if isinstance(field, serializers.Serializer):
        return "an object with the fields " + ", ".join(field.fields)
    if isinstance(field, serializers.ChoiceField):
        return "one of " + ", ".join(str(choice) for choice in field.choices)
    patterns = [one for one in field.validators if isinstance(one, RegexValidator) and one.message]
    if patterns and not isinstance(field, serializers.EmailField):
        return str(patterns[0].message)
    text = next((text for kind, text in EXPECTED_BY_TYPE.items() if isinstance(field, kind)), "a value")
    if isinstance(field, serializers.IntegerField | serializers.FloatField):
        return text + _range(field.min_value, field.max_value)
    if isinstance(field, serializers.CharField):
        least = field.min_length or (0 if field.allow_blank else 1)
        return text if field.max_length is None else f"{text} of {least} to {field.max_length} characters"
    return text


def _type_errors(field: serializers.Field[Any, Any, Any, Any], value: Any) -> Any:
    """The framework's nested details for values of the wrong JSON type; empty when there are none."""
    if isinstance(field, serializers.DictField) and isinstance(value, Mapping):
        found = {str(key): _type_errors(field.child, inner) for key, inner in value.items()}
        return {key: errors for key, errors in found.items() if errors}
    if isinstance(field, serializers.ListField) and isinstance(value, list):
        found = {str(index): _type_errors(field.child, inner) for index, inner in enumerate(value)}
        return {key: errors for key, errors in found.items() if errors}
    for kind, types in JSON_TYPES.items():
        if isinstance(field, kind) and value is not None:
            right = isinstance(value, types) and (bool in types or not isinstance(value, bool))
            return [] if right else [f"{str(value)[:40]!r} has the wrong type"]
    return []


def _range(least: Any, most: Any) -> str:
    if most is not None:
        return f" from {least or 0} to {most}"
    return f" of at least {least}" if least is not None else ""


def _inner_field(field: Any, key: Any) -> Any:
    if isinstance(field, serializers.Serializer):
        # An unknown name: what would be right is one of the names there are.
        return field.fields.get(str(key)) or field
    return getattr(field, "child", None)
