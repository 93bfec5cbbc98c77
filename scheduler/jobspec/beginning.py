"""The earliest start of a job, as its specification states it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from scheduler.jobspec.fields import Fields, described, seconds_of
from scheduler.jobspec.kind import Kind, Schema
from scheduler.jobspec.kinds import MOST_SECONDS, plain
from tenants.times import iso

#: Seconds from its submission, or an instant.
Begin = float | datetime
_EXPECTED = 'an instant with its time zone, such as "2026-12-01T18:00+01:00", or a duration such as "2h"'
#: A later instant does not fit into every form in which instants are stored.
_LATEST = datetime(2999, 12, 31, tzinfo=UTC)


class Beginning(Kind):
    """An instant in ISO 8601 with its zone, or a duration from the submission on."""

    expected = _EXPECTED
    takes = "instant"

    def check(self, fields: Fields, name: str, value: object) -> Begin | None:
        if not isinstance(value, str) or seconds_of(value) is not None:
            return fields.checked_duration(name, value, least_seconds=1, most_seconds=MOST_SECONDS)
        try:
            instant = datetime.fromisoformat(value)
            if instant.tzinfo is None:
                fields.refuse(name, f"{described(value)} has no time zone", _EXPECTED)
                return None
            instant = instant.astimezone(UTC)
        except (ValueError, OverflowError):
            fields.refuse(name, f"{described(value)} is not a time", _EXPECTED)
            return None
        if not 1970 < instant.year <= _LATEST.year:
            fields.refuse(name, f"{described(value)} is not in the years 1971 to 2999", _EXPECTED)
            return None
        return instant

    def write(self, value: Begin | None) -> Any:
        if value is None:
            return None
        return iso(value) if isinstance(value, datetime) else plain(value)

    def schema(self, definitions: Any) -> Schema:
        seconds: Schema = {"type": "number", "minimum": 1, "maximum": MOST_SECONDS}
        return {"anyOf": [{"type": "string", "maxLength": 40}, seconds]}


def begins_at(begin: Begin | None, submitted_at: datetime) -> datetime | None:
    """Return the earliest start of a job submitted at `submitted_at`; None: it has none."""
    return begin if begin is None or isinstance(begin, datetime) else submitted_at + timedelta(seconds=begin)
