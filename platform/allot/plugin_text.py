"""A policy or placer with its parameters in one line, as people type it: "gavel:objective=max_min,alpha=2".

A name; after a colon parameters, separated by commas. A value is a number, `true` or `false`, a list with "|"
between its values (behind it, when there is only one), or a string. The API has the name and JSON values.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from allot.errors import AllotError

if TYPE_CHECKING:
    from allot.schema import ChosenPlugin

_PARAMETER = re.compile(r"[a-z][a-z0-9_]*")
_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def plugin_of(text: str) -> ChosenPlugin:
    """Return what the API takes; raise AllotError that names the parameter at fault."""
    name, colon, rest = text.partition(":")
    if not name.strip():
        raise AllotError(f"{text!r} has no name: write NAME or NAME:parameter=value,...")
    parameters: dict[str, Any] = {}
    for assignment in rest.split(",") if colon else ():
        parameter, equals, value = (part.strip() for part in assignment.partition("="))
        if not _PARAMETER.fullmatch(parameter):
            raise AllotError(f"{text!r}: {assignment.strip()!r} names no parameter: write parameter=value")
        if not equals or not value:
            raise AllotError(f"{text!r}: parameter {parameter} has no value: write {parameter}=value")
        if parameter in parameters:
            raise AllotError(f"{text!r}: parameter {parameter} is given twice")
        try:
            parameters[parameter] = _value(value)
        except (ValueError, OverflowError):
            raise AllotError(f"{name.strip()}: the number of parameter {parameter} is too large") from None
    return {"name": name.strip(), "parameters": parameters}


def text_of(plugin: ChosenPlugin) -> str:
    """Return the line that stands for it."""
    given = ",".join(assignments(plugin))
    return f"{plugin['name']}:{given}" if given else plugin["name"]


def assignments(plugin: ChosenPlugin) -> list[str]:
    """Return "parameter=value" of each parameter."""
    return [f"{parameter}={value_text(value)}" for parameter, value in plugin["parameters"].items()]


def value_text(value: Any) -> str:
    """Write a value as it is written after a parameter's name."""
    if isinstance(value, list):
        return "|".join(map(value_text, value)) + ("|" if len(value) == 1 else "")
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(text: str) -> Any:
    text = text.strip()
    if "|" in text:
        entries = text.split("|")
        return [_value(entry) for entry in (entries if entries[-1].strip() else entries[:-1])]
    if text in ("true", "false"):
        return text == "true"
    if not _DECIMAL.fullmatch(text):
        return text
    number = int(text) if _WHOLE.fullmatch(text) else float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
