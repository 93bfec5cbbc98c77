"""Begin times as people and sbatch(1) write them."""

from datetime import date, datetime, time, timedelta, timezone

import pytest

from allot.beginning import begin_at
from allot.errors import WrongUse


def at(year: int, month: int, *rest: int) -> datetime:
    """Return an instant of this machine's zone."""
    day, *of_day = rest
    return datetime.combine(date(year, month, day), time(*of_day)).astimezone()


#: A Thursday afternoon.
NOW = at(2026, 11, 26, 14, 30)


@pytest.mark.parametrize(
    ("written", "begins"),
    [
        ("now", NOW),
        ("now+60", NOW + timedelta(seconds=60)),
        ("now+1hour", NOW + timedelta(hours=1)),
        ("now+2days", NOW + timedelta(days=2)),
        ("now+3weeks", NOW + timedelta(weeks=3)),
        ("1h30m", NOW + timedelta(minutes=90)),
        ("16:00", at(2026, 11, 26, 16)),
        ("4:05:06pm", at(2026, 11, 26, 16, 5, 6)),
        ("12:00 AM", at(2026, 11, 27)),
        ("14:29", at(2026, 11, 27, 14, 29)),
        ("midnight", at(2026, 11, 27)),
        ("noon", at(2026, 11, 27, 12)),
        ("elevenses", at(2026, 11, 27, 11)),
        ("fika", at(2026, 11, 26, 15)),
        ("teatime", at(2026, 11, 26, 16)),
        ("today", NOW),
        ("tomorrow", at(2026, 11, 27)),
        ("12/24/27", at(2027, 12, 24)),
        ("01.15-16:00", at(2027, 1, 15, 16)),
        ("1224", at(2026, 12, 24)),
        ("2026-12-01", at(2026, 12, 1)),
        ("2026-12-01T18:00", at(2026, 12, 1, 18)),
        ("2026-12-01T18:00+05:00", datetime(2026, 12, 1, 18, tzinfo=timezone(timedelta(hours=5)))),
    ],
)
def test_each_form_is_one_instant_with_its_zone(written: str, begins: datetime) -> None:
    read = datetime.fromisoformat(begin_at(written, now=NOW))
    assert read.tzinfo is not None
    assert read == begins.astimezone()


@pytest.mark.parametrize(
    "written",
    ["soon", "25:00", "13:00 pm", "now+", "now+1fortnight", "02/30", "2026-13-01", "", "now+99999999"],
)
def test_anything_else_is_refused_with_the_options_name(written: str) -> None:
    with pytest.raises(WrongUse, match="--begin"):
        begin_at(written, now=NOW)
