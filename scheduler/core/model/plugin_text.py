"""A policy or placer with its parameters in one line of text, as people type it.

    fifo
    fifo:backfill=false
    delay:relax_after_seconds=600
    fgd:workload=1:4:70|8:64:30

A name; after a colon parameters, separated by commas; each parameter is its name, "=" and its value. A value
is a whole number, a decimal number, `true` or `false`, a list of values with "|" between them (behind it,
when there is only one), or a string.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from scheduler.core.model.errors import UnknownPlugin

Value = bool | int | float | str | tuple["Value", ...]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def parse_plugin(text: str) -> tuple[str, dict[str, Value]]:
    """Return the name and the parameters; raise UnknownPlugin that names the parameter at fault."""
    name, colon, rest = text.partition(":")
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise UnknownPlugin(f"{text!r} has no name: write NAME or NAME:parameter=value,...")
    parameters: dict[str, Value] = {}
    for assignment in rest.split(",") if colon else ():
        parameter, equals, value = assignment.partition("=")
        parameter = parameter.strip()
        if not _NAME.fullmatch(parameter):
            raise UnknownPlugin(f"{text!r}: {assignment.strip()!r} names no parameter: write parameter=value")
        if not equals or not value.strip():
            raise UnknownPlugin(f"{text!r}: parameter {parameter} has no value: write {parameter}=value")
        if parameter in parameters:
            raise UnknownPlugin(f"{text!r}: parameter {parameter} is given twice")
        try:
            parameters[parameter] = parse_value(value)
        except ValueError:
            raise UnknownPlugin(f"{name}: the number of parameter {parameter} is too large") from None
    return name, parameters


def parse_value(text: str) -> Value:
    """Return the value that a text stands for: a boolean, a number, a tuple or a string.

    Raises ValueError for a number that is too large: no policy counts with infinity.
    """
    text = text.strip()
    if "|" in text:
        entries = text.split("|")
        return tuple([parse_value(entry) for entry in (entries if entries[-1].strip() else entries[:-1])])
    if text in ("true", "false"):
        return text == "true"
    if not _DECIMAL.fullmatch(text):
        return text
    number = int(text) if _WHOLE.fullmatch(text) else float(text)
    if not is_finite(number):
        raise ValueError(text)
    return number


def is_finite(value: Any) -> bool:
    """Return whether all numbers of a parameter can be counted with as decimal numbers."""
    if isinstance(value, tuple | list):
        return all(map(is_finite, value))
    try:
        return not isinstance(value, int | float) or math.isfinite(value)
    except OverflowError:
        return False


def format_plugin(name: str, parameters: Mapping[str, Any]) -> str:
    """Return the text that `parse_plugin` reads as this name and these parameters; lists are as tuples."""
    given = ",".join(f"{parameter}={_text_of(value)}" for parameter, value in parameters.items())
    return f"{name}:{given}" if given else name


def _text_of(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "|".join(map(_text_of, value)) + ("|" if len(value) == 1 else "")
    return str(value).lower() if isinstance(value, bool) else str(value)
