"""The instant at which a job may start, as sbatch(1) and people write it: `now+1hour`, `16:00`, `2h`."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta

from allot.errors import WrongUse
from allot.times import instant, is_span

_DAY_TIMES = {
    "midnight": time(0),
    "noon": time(12),
    "elevenses": time(11),
    "fika": time(15),
    "teatime": time(16),
}
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 7 * 86_400}
_NOW_PLUS = re.compile(r"now(?:\+(\d{1,9})\s*(second|minute|hour|day|week|)s?)?", re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*([ap]m)?", re.IGNORECASE)
_DATE = re.compile(r"(\d{1,2})[/.](\d{1,2})(?:[/.](\d{2}))?|(\d{2})(\d{2})(\d{2})?")
_EXPECTED = "such as 2h, now+1hour, 16:00, tomorrow or 2026-12-01T18:00"
#: A sum beyond it is not a time that a job could wait for.
_MOST_SECONDS = 366 * 86_400


def begin_at(text: str, option: str = "--begin", *, now: datetime | None = None) -> str:
    """Return the instant that is meant in ISO 8601 with its zone; without one it is this machine's.

    A time of day that has passed is that of the next day, as in Slurm.
    """
    now = now or datetime.now().astimezone()
    wanted = text.strip()
    if match := _NOW_PLUS.fullmatch(wanted):
        seconds = int(match[1] or 0) * _UNITS[(match[2] or "second").lower()]
        if seconds > _MOST_SECONDS:
            raise WrongUse(f"{option}: {text} is longer than a year.")
        return _written(now + timedelta(seconds=seconds))
    if is_span(wanted) or re.match(r"\d{4}-", wanted):
        return _written(instant(wanted, option, after=now))
    try:
        found = _of_the_calendar(wanted, now)
    except ValueError as error:
        raise WrongUse(f"{option}: {text!r} is not a time: {error}.") from None
    if found is not None:
        return _written(found)
    raise WrongUse(f"{option}: {text!r} is not a time; expected one {_EXPECTED}.")


def _of_the_calendar(text: str, now: datetime) -> datetime | None:
    """Return the instant of a word, a time of day, a date, or a date and a time of day; None: it
    is not one.
    """
    word = text.lower()
    if word == "today":
        # In Slurm it is the midnight before, so that the job may start at once.
        return now
    if word == "tomorrow":
        return _on(now.date() + timedelta(days=1), time(0))
    of_day = _DAY_TIMES.get(word) or _time_of_day(text)
    if of_day is not None:
        return _next(of_day, now)
    written, _, rest = text.partition("-")
    if not rest:
        written, _, rest = text.partition(" ")
    match = _DATE.fullmatch(written)
    of_day = time(0) if not rest else _DAY_TIMES.get(rest.lower()) or _time_of_day(rest)
    if match is None or of_day is None:
        return None
    month, day, year = match.groups()[:3] if match[1] else match.groups()[3:]
    found = _on(date(2000 + int(year) if year else now.year, int(month), int(day)), of_day)
    # Without a year it is the next such day.
    return found if year or found >= now else found.replace(year=found.year + 1, tzinfo=None).astimezone()


def _time_of_day(text: str) -> time | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, half = int(match[1]), (match[4] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            raise ValueError("hours with AM or PM are 1 to 12")
        hour = hour % 12 + (12 if half == "pm" else 0)
    return time(hour, int(match[2]), int(match[3] or 0))


def _next(of_day: time, now: datetime) -> datetime:
    found = _on(now.date(), of_day)
    return found if found >= now else _on(now.date() + timedelta(days=1), of_day)


def _on(day: date, of_day: time) -> datetime:
    # By the wall clock, so that a change to summer time shifts nothing.
    return datetime.combine(day, of_day).astimezone()


def _written(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
