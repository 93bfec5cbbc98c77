"""Words for people."""

from __future__ import annotations

import pytest

from scheduler.core.model import wording


@pytest.mark.parametrize("seconds", [253_402_300_800.0, 1e12, 1e308, float("inf"), float("nan")])
def test_an_instant_without_a_date_is_said_in_words(seconds: float) -> None:
    assert wording.instant(seconds) == "a time after the year 9999"


def test_an_instant_has_time_and_date() -> None:
    assert wording.instant(253_402_300_799.0) == "23:59:59 UTC on 31 December"
