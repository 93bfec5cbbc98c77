"""Words for times and amounts."""

import pytest

from allot.output import duration, plural, printable, since


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (59, "59s"),
        (60, "1m"),
        (310, "5m10s"),
        (3599, "59m"),
        (3600, "1h"),
        (11520, "3h12m"),
        (86400, "1d"),
        (187200, "2d4h"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_since() -> None:
    assert since(None) == "-"
    assert since("2026-01-31T12:00:00Z", until="2026-01-31T12:05:10+00:00") == "5m10s"


def test_printable_removes_what_moves_the_cursor() -> None:
    assert printable("a\x1b[2Jb\rc\nd") == "a [2Jb c d"
    assert printable("größe 日本") == "größe 日本"


def test_plural() -> None:
    assert (plural(1, "job"), plural(1200, "job")) == ("1 job", "1,200 jobs")
