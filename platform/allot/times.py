"""Times as people write them: `2h`, `1h30m`, or an instant such as 2026-12-01T18:00."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta

from allot.errors import WrongUse

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_DAYS_AGO = {"today": 0, "midnight": 0, "yesterday": 1}
#: As sacct(1) has it.
_NOW_LESS = re.compile(r"now-(\d{1,9})(second|minute|hour|day|week)s?")
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
#: A year is longer than anything takes here, and short enough to be added to any date.
_LONGEST_SECONDS = 366 * 86_400


def is_span(text: str) -> bool:
    return _SPAN.fullmatch(text) is not None


def span_seconds(text: str, option: str) -> float:
    """Return how long `1h30m` is; `option` names what was wrong."""
    if not _SPAN.fullmatch(text):
        raise WrongUse(f"{option}: {text!r} is not a duration; expected one such as 30m, 2h or 1d12h.")
    seconds = sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(text))
    if seconds > _LONGEST_SECONDS:
        raise WrongUse(f"{option}: {text} is longer than a year.")
    return seconds


def instant(text: str, option: str, *, after: datetime | None = None) -> datetime:
    """Return the instant that is meant: this long after `after` (or now), or the one that is written.

    An instant without a time zone is one of this machine's.
    """
    if _SPAN.fullmatch(text):
        begin = after if after is not None else datetime.now().astimezone()
        return begin + timedelta(seconds=span_seconds(text, option))
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise WrongUse(
            f"{option}: {text!r} is not a time; expected one such as 2h, 1d12h or 2026-12-01T18:00."
        ) from None


def past(text: str, option: str) -> datetime:
    """Return the instant of the past that is meant: that long ago, a day's beginning, or what is written."""
    now = datetime.now().astimezone()
    if _SPAN.fullmatch(text):
        return now - timedelta(seconds=span_seconds(text, option))
    if match := _NOW_LESS.fullmatch(text):
        return now - timedelta(seconds=span_seconds(f"{match[1]}{match[2][0]}", option))
    if text in _DAYS_AGO:
        day = now.date() - timedelta(days=_DAYS_AGO[text])
        return datetime.combine(day, time(0)).astimezone()
    if text == "now":
        return now
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise WrongUse(
            f"{option}: {text!r} is not a time; expected one such as 7d (that long ago), today, yesterday or"
            " 2026-12-01T18:00."
        ) from None
