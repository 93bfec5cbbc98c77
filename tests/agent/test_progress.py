"""Progress lines: what a job may write, and what reaches the server."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from nodeagent.folder import AttemptFolder
from nodeagent.messages import PROGRESS_PER_REPORT, ProgressLine, Report, decode, encode
from nodeagent.output.progress import (
    LINE_LONGEST_BYTES,
    READ_BYTES,
    VALUES_MOST,
    ProgressFile,
    fitting,
    parse_line,
    thin_out,
)


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    return AttemptFolder(str(tmp_path))


def write(folder: AttemptFolder, text: str) -> None:
    with open(folder.progress(0), "a") as file:
        file.write(text)


def parse(text: str) -> ProgressLine:
    return parse_line(text.encode(), sequence=4, now=1000.0)


def test_a_line_with_everything() -> None:
    line = parse('{"step": 12, "samples": 768, "loss": 0.25, "batch_size": 64, "note": "x", "ok": true}')
    assert line == ProgressLine(
        sequence=4, at=1000.0, step=12, samples=768.0, values={"loss": 0.25, "batch_size": 64.0}
    )


def test_the_job_may_say_when_but_only_what_a_clock_can_have_said() -> None:
    now = 1_800_000_000.0

    def said(at: str) -> float:
        return parse_line(f'{{"step": 1, "at": {at}}}'.encode(), sequence=1, now=now).at

    assert said(str(now - 60)) == now - 60
    for impossible in (now + 60, -1e200, 0, 1e200, "NaN"):
        assert said(str(impossible)) == now


def test_progress_of_a_report_stays_within_its_bytes() -> None:
    many = {f"{'x' * 60}{number}": 1 / 3 for number in range(VALUES_MOST)}
    lines = [ProgressLine(sequence=step, at=1.0, step=step, values=many) for step in range(100)]
    fewer = fitting(lines, 50_000)
    assert len(json.dumps([encode(line) for line in fewer])) <= 50_000
    assert len(fewer) > 10
    assert fewer[-1].step == 99
    assert len(fitting(lines, 1)) == 1


def test_numbers_that_cannot_be_stored_are_left_out_and_the_step_counts() -> None:
    line = parse('{"step": 1, "loss": NaN, "norm": Infinity, "scale": 1e999, "lr": 0.1}')
    assert line.values == {"lr": 0.1}
    assert json.loads(json.dumps(encode(line), allow_nan=False))["step"] == 1


@pytest.mark.parametrize("name", [r"\ud800", r"a\udfffb", r"lo\u0000ss"])
def test_names_that_no_database_can_hold_are_left_out_and_the_step_counts(name: str) -> None:
    line = parse(f'{{"step": 1, "{name}": 1, "lr": 0.1}}')
    assert (line.step, line.values) == (1, {"lr": 0.1})


def test_bytes_that_are_half_a_surrogate_pair_are_left_out_too() -> None:
    line = parse_line(b'{"step": 1, "\xed\xa0\x80": 1}', sequence=4, now=1000.0)
    assert (line.step, line.values) == (1, {})


def test_values_are_limited() -> None:
    many = {f"name{number}": number for number in range(100)}
    assert len(parse(json.dumps({"step": 1, **many})).values) == VALUES_MOST
    assert parse(json.dumps({"step": 1, "x" * 65: 1.0})).values == {}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[1]", "not a JSON object"),
        ("{}", "step must be"),
        ('{"step": -1}', "step must be"),
        ('{"step": 1.5}', "step must be"),
        ('{"step": true}', "step must be"),
        ('{"step": 1', "delimiter"),
        (f'{{"step": 1, "x": "{"y" * LINE_LONGEST_BYTES}"}}', "longer than"),
    ],
)
def test_a_bad_line_says_what_is_wrong(line: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse(line)


def test_bad_lines_are_skipped_counted_and_said_once(
    folder: AttemptFolder, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder, 'oops\n{"step": 1}\n\nagain\n{"step": 2}\n')
    progress = ProgressFile(7, folder)
    with caplog.at_level(logging.WARNING):
        assert progress.read()
    assert [(line.sequence, line.step) for line in progress.pending] == [(2, 1), (5, 2)]
    assert progress.bad_lines == 2
    assert len(caplog.records) == 1
    assert "Attempt 7: line 1" in caplog.text


def test_half_a_line_is_waited_for(folder: AttemptFolder) -> None:
    progress = ProgressFile(1, folder)
    assert not progress.read()
    write(folder, '{"step": 1}\n{"st')
    assert progress.read()
    assert not progress.read()
    write(folder, 'ep": 2}\n')
    assert progress.read()
    assert [line.step for line in progress.pending] == [1, 2]


def test_lines_stay_until_they_are_reported_also_across_a_restart(folder: AttemptFolder) -> None:
    write(folder, '{"step": 1}\n{"step": 2}\n')
    progress = ProgressFile(1, folder)
    progress.read()
    write(folder, '{"step": 3}\n')
    progress.read()
    progress.reported(2)
    assert [line.sequence for line in progress.pending] == [3]
    again = ProgressFile(1, folder)
    again.read()
    assert again.pending[-1].sequence == 3
    again.reported(3)
    write(folder, '{"step": 4}\n')
    last = ProgressFile(1, folder)
    last.read()
    assert [(line.sequence, line.step) for line in last.pending] == [(4, 4)]


def test_many_lines_are_thinned_out_evenly_and_the_newest_stays(folder: AttemptFolder) -> None:
    write(folder, "".join(f'{{"step": {step}}}\n' for step in range(1, 1001)))
    progress = ProgressFile(1, folder)
    progress.read()
    steps = [line.step for line in progress.pending]
    assert len(steps) == PROGRESS_PER_REPORT
    assert steps[-1] == 1000
    assert {later - sooner for sooner, later in pairwise(steps)} == {10}


def test_thinning_out_an_odd_number() -> None:
    lines = [ProgressLine(sequence=number, at=0.0, step=number) for number in range(7)]
    assert [line.step for line in thin_out(lines, 3)] == [2, 4, 6]
    assert thin_out(lines, 7) == tuple(lines)


def test_lines_of_any_number_are_thinned_out_and_the_newest_stays() -> None:
    all_lines = [
        ProgressLine(sequence=step, at=0.0, step=step, samples=None, values={}) for step in range(2000)
    ]
    for count in (*range(1, 100), *range(100, 2000, 37)):
        lines = all_lines[:count]
        for most in (1, 3, 7, PROGRESS_PER_REPORT):
            steps = [line.step for line in thin_out(lines, most)]
            assert len(steps) == min(most, count)
            assert steps == sorted(set(steps))
            assert steps[-1] == count - 1


def test_a_line_without_an_end_does_not_stop_the_rest(folder: AttemptFolder) -> None:
    write(folder, "x" * (2 * READ_BYTES) + '\n{"step": 1}\n')
    progress = ProgressFile(1, folder)
    while progress.read():
        pass
    assert [line.step for line in progress.pending] == [1]


def test_binary_rubbish_is_only_bad_lines(folder: AttemptFolder) -> None:
    Path(folder.progress(0)).write_bytes(bytes(range(256)) * 10 + b"\n")
    progress = ProgressFile(1, folder)
    progress.read()
    assert progress.pending == []


def test_a_deeply_nested_line_is_only_a_bad_line(folder: AttemptFolder) -> None:
    write(folder, "[" * 4000 + "\n")
    progress = ProgressFile(1, folder)
    progress.read()
    assert progress.bad_lines == 1


def test_progress_survives_the_way_to_the_server() -> None:
    line = parse('{"step": 1, "samples": 2, "loss": 3}')
    assert decode(ProgressLine, json.loads(json.dumps(encode(line)))) == line
    assert decode(Report, encode(Report(protocol=1, boot="b", generation=0))).parts == ()


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/hostname", path)])
def test_what_a_job_puts_in_the_place_of_its_file_is_left_alone(
    folder: AttemptFolder, put: Callable[[str], None]
) -> None:
    put(folder.progress(0))
    assert not ProgressFile(1, folder).read()
