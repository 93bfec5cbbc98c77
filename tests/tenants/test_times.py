"""Instants have one form in all that the server writes."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tenants.times import iso, restated


def test_an_instant_is_stated_in_utc_with_z() -> None:
    assert iso(datetime(2026, 12, 1, 18, tzinfo=UTC)) == "2026-12-01T18:00:00Z"
    berlin = timezone(timedelta(hours=1))
    assert iso(datetime(2026, 12, 1, 18, 0, 0, 5, tzinfo=berlin)) == "2026-12-01T17:00:00.000005Z"
    assert iso(None) is None


@pytest.mark.parametrize(
    ("stored", "stated"),
    [
        ("2026-12-01T18:00:00.25+00:00", "2026-12-01T18:00:00.250000Z"),
        ("2026-12-01T18:00:00+01:00", "2026-12-01T17:00:00Z"),
        ("2026-12-01T18:00:00Z", "2026-12-01T18:00:00Z"),
        # What people wrote, and what is no text, stays.
        ("since 2026-12-01T18:00:00+00:00", "since 2026-12-01T18:00:00+00:00"),
        ("2026-99-01T18:00:00+00:00", "2026-99-01T18:00:00+00:00"),
        (7, 7),
        (None, None),
    ],
)
def test_what_postgresql_wrote_into_json_is_stated_so_too(stored: object, stated: object) -> None:
    assert restated(stored) == stated
