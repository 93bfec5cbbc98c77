"""Instants as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, overload


@overload
def iso(at: datetime) -> str: ...


@overload
def iso(at: None) -> None: ...


@overload
def iso(at: datetime | None) -> str | None: ...


def iso(at: datetime | None) -> str | None:
    """Return an instant as everything that the server writes states it: in UTC, ending with Z, as Django REST
    framework does; None stays None.
    """
    return None if at is None else at.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def in_words(at: datetime) -> str:
    """Return "2026-11-21 14:05:30 UTC", without the seconds where they are zero."""
    at = at.astimezone(UTC)
    return f"{at:%Y-%m-%d %H:%M}" + (f":{at:%S}" if at.second else "") + " UTC"


#: An instant as PostgreSQL writes it into JSON, in the time zone of the session.
_IN_JSON = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d:\d\d")


def restated(value: Any) -> Any:
    """Return an instant that PostgreSQL wrote into JSON as `iso` states it, and any other value as it is."""
    if not isinstance(value, str) or not _IN_JSON.fullmatch(value):
        return value
    try:
        return iso(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        return value  # Someone's own text that only looks like one.
