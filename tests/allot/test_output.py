"""Words for times and amounts, and text of other people in one's own terminal."""

import json

import pytest
import yaml

from allot.commands.logs import hit_lines
from allot.output import Format, WithoutEscapes, duration, plural, print_objects, printable, since, visible
from allot.schema import LogHit


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


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("größe 日本\tand\nlines", "größe 日本\tand\nlines"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x1b[2J\x9b31m\x7f\r", "␛[2J\ufffd31m␡␍"),
        ("admin\u202eecila\u2066", "admin\ufffdecila\ufffd"),
        ("a\u00a0b", "a b"),
    ],
)
def test_text_of_others_does_nothing_to_the_terminal(text: str, seen: str) -> None:
    assert visible(text) == seen


HOSTILE = {"description": "\x1b[2J\x9b31m\u202e", "labels": {"größe": "日本"}}


@pytest.mark.parametrize("value", [HOSTILE, {"labels": {"größe": "日本"}}])
def test_programs_get_the_very_text_without_what_acts_on_a_terminal(capsys, value: dict) -> None:
    print_objects(value, Format.json)
    text = capsys.readouterr().out
    assert json.loads(text) == value
    assert visible(text) == text
    print_objects(value, Format.yaml)
    text = capsys.readouterr().out
    assert yaml.safe_load(text) == value
    assert visible(text) == text


@pytest.mark.parametrize(
    ("output", "seen"),
    [
        ("\x1b[1;31mred\x1b[0m and 50%\r60%\n", "red and 50%\r60%\n"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1bPq\x1b\\c", "abc"),
        ("\x9b2Ja\x9d0;title\x9cb", "ab"),
        ("\x1b(Ba\x1bMb\x1b7c\u202ed", "abc\ufffdd"),
        ("a\x1b[\nb", "a␛[\nb"),
        ("\x9dtitle\x9b1mred\n", "\ufffdtitlered\n"),
    ],
)
def test_a_jobs_output_loses_its_escape_sequences_wherever_it_is_cut(output: str, seen: str) -> None:
    for size in range(1, len(output) + 1):
        plain = WithoutEscapes()
        pieces = [output[start : start + size] for start in range(0, len(output), size)]
        assert "".join(map(plain, pieces)) == seen, size


@pytest.mark.parametrize("size", [1, 3, 100])
def test_progress_bars_below_each_other_stay_where_they_are(size: int) -> None:
    bars = "\router 0%\n\rinner 0%\x1b[A\n\x1b[32m\rinner 50%\x1b[1A\router 10%"
    plain = WithoutEscapes()
    pieces = [bars[start : start + size] for start in range(0, len(bars), size)]
    seen = "\router 0%\n\rinner 0%\x1b[1A\n\rinner 50%\x1b[1A\router 10%"
    assert "".join(map(plain, pieces)) == seen
    # What is above the output's own lines is not its own.
    assert plain("\x1b[99A") == ""
    assert plain("a\nb\n\x1b[99Ac") == "a\nb\n\x1b[2Ac"
    plain("d\n")
    plain.interrupted()
    assert plain("\x1b[A") == ""


def test_what_only_begins_like_an_escape_sequence_is_not_kept_back_for_ever() -> None:
    plain = WithoutEscapes()
    assert plain("\x1b]" + "a" * 5000) == "␛]" + "a" * 5000


@pytest.mark.parametrize("beginning", ["\x1b", "\x1b]", "\x1b[", "\x90", "\x9b", "\x9d", "\x9b1", "\x9b "])
@pytest.mark.parametrize("ending", ["", "\n"])
def test_an_output_of_nothing_but_beginnings_of_sequences_is_read_once(beginning: str, ending: str) -> None:
    """Read again from each of them, this would take many minutes."""
    output = beginning * 100_000 + ending
    assert len(WithoutEscapes()(output)) <= len(output)


def log_hit(line: int, before: list[str], after: list[str], rank: int = 0) -> LogHit:
    return {
        "rank": rank,
        "task": "main",
        "line": line,
        "sequence": 0,
        "chunk_line": line,
        "text": f"hit {line}",
        "start": 0,
        "end": 3,
        "before": before,
        "after": after,
    }


def test_a_line_found_beside_another_is_printed_once_as_found() -> None:
    hits = [
        log_hit(2, ["one"], ["hit 3", "hit 4"]),
        log_hit(3, ["one", "hit 2"], ["hit 4", "five"]),
        log_hit(4, ["hit 2", "hit 3"], ["five", "six"]),
        log_hit(8, ["six", "seven"], ["nine", "ten"]),
        log_hit(20, ["eighteen", "nineteen"], []),
        log_hit(1, [], ["two"], rank=1),
    ]
    expected = "1-one 2:hit_2 3:hit_3 4:hit_4 5-five 6-six 7-seven 8:hit_8 9-nine 10-ten --"
    expected += " 18-eighteen 19-nineteen 20:hit_20 -- 1:hit_1 2-two"
    assert [line.replace(" ", "_") for line in hit_lines(iter(hits), has_names=False)] == expected.split()
    assert [*hit_lines(iter([log_hit(3, [], []), log_hit(4, [], [])]), has_names=True)] == [
        "[main 0] 3:hit 3",
        "[main 0] 4:hit 4",
    ]
