"""Predicted starts and what-if questions on the command line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import Result

from allot.forecasts import clock, prediction_line
from tests.allot.fake_api import FakeApi

Allot = Callable[..., Result]

MADE_AT = "2026-01-31T12:00:00+00:00"
ASSUMPTION = "if jobs run half of their time limit, and nothing new is submitted"


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("allot.commands.what_if.PAUSE_SECONDS", 0.0)
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def at(text: str) -> str:
    return f"2026-01-31T{text}:00+00:00"


def foreseen(starts: str | None, *, why_not: str = "") -> dict[str, Any]:
    when = at(starts) if starts else None
    return {"starts_at": when, "earliest": when, "latest": when, "position": 1, "why_not": why_not}


def effect(job: int | None, name: str, before: Any, after: Any, *, runs_now: bool = False) -> dict[str, Any]:
    return {"job": job, "name": name, "runs_now": runs_now, "before": before, "after": after}


def answer(**fields: Any) -> dict[str, Any]:
    blank = {
        "id": "q1", "state": "done", "problem": "", "fields": [], "asked_at": MADE_AT, "expires_at": MADE_AT,
        "made_at": MADE_AT, "round": 7, "assumption": ASSUMPTION, "subjects": [], "later": [], "sooner": [],
        "later_count": 0, "sooner_count": 0, "others_later": 0, "others_sooner": 0,
    }  # fmt: skip
    return {**blank, **fields}


def prediction(**fields: Any) -> Any:
    blank = {"starts_at": at("14:32"), "earliest": at("14:10"), "latest": at("16:05"), "position": 3}
    return {**blank, "assumption": ASSUMPTION, "made_at": MADE_AT, "round": 7, **fields}


NOW = datetime(2026, 1, 31, 14, 12, tzinfo=UTC)


def test_a_prediction_in_a_line() -> None:
    assert prediction_line(prediction(), NOW) == (
        "Expected to start at 14:32, in 20m (between 14:10 and 16:05), if jobs run half of their time limit,"
        " and nothing new is submitted."
    )


def test_a_start_that_is_due() -> None:
    line = prediction_line(prediction(starts_at=at("14:11"), latest=at("14:10")), NOW)
    assert line == f"Expected to start any moment, {ASSUMPTION}."


def test_a_latest_start_that_nobody_knows() -> None:
    line = prediction_line(prediction(latest=None), NOW)
    assert " (not before 14:10, perhaps more than 30 days from now), if" in line


def test_another_day_is_named() -> None:
    assert clock("2026-02-02T09:05:00+00:00", NOW) == "2026-02-02 09:05"


def test_why_tells_reasons_and_prediction_together(allot: Allot, api: FakeApi) -> None:
    api.add(1)
    api.prediction = prediction()
    lines = allot("why", "1").stdout.splitlines()
    assert lines[1] == "  1. All V100 are in use."
    assert lines[4].startswith("Expected to start ")
    assert json.loads(allot("why", "1", "--json").stdout)["prediction"] == api.prediction


def test_a_changed_job_before_and_after_and_who_pays(allot: Allot, api: FakeApi) -> None:
    api.answer = answer(
        subjects=[effect(1, "train", foreseen("14:32"), foreseen("12:00"))],
        later=[effect(5, "mine", foreseen("13:00"), foreseen("15:00"))],
        later_count=3,
        others_later=2,
        others_sooner=1,
    )
    flags = ["--gpus", "4", "--gpu-model", "P100,V100", "--time-limit", "1h", "--opportunistic"]
    assert allot("what-if", "1", *flags).stdout.splitlines() == [
        "Job 1 train: 14:32 -> at once",
        "3 jobs would start later:",
        "  Job 5 mine: 13:00 -> 15:00",
        "  and 2 more",
        "2 jobs of others would start later.",
        "1 job of others would start sooner.",
        f"As foreseen {ASSUMPTION}.",
    ]
    assert api.questions == [
        {
            "job": 1,
            "changes": {
                "gpus": 4,
                "gpu_models": ["P100", "V100"],
                "time_limit": "1h",
                "guarantee": "opportunistic",
            },
        }
    ]


def test_a_job_of_a_file(allot: Allot, api: FakeApi) -> None:
    api.answer = answer(subjects=[effect(None, "new", None, foreseen(None, why_not="It is on hold."))])
    spec = {"name": "new", "gpus": 2, "command": "true", "tenant": "research"}
    lines = allot("what-if", "--submit", "-", stdin=json.dumps(spec)).stdout.splitlines()
    assert lines[:2] == [
        "New job new: no start predicted (It is on hold)",
        "No other job would start later.",
    ]
    assert api.questions == [{"tenant": "research", "spec": {k: v for k, v in spec.items() if k != "tenant"}}]


def test_a_changed_cluster(allot: Allot, api: FakeApi) -> None:
    api.answer = answer(
        later=[effect(4, "ran", None, foreseen("18:00"), runs_now=True)], later_count=1, sooner_count=0
    )
    stdout = allot("what-if", "--drain", "n1", "--drain", "n2", "--enlarge", "research", "V100=8").stdout
    assert "  Job 4 ran: runs now; would go back into the queue and start 18:00" in stdout.splitlines()
    assert api.questions == [
        {
            "cluster": {
                "drain": ["n1", "n2"],
                "enlarge": [{"virtual_cluster": "research", "gpu_model": "V100", "more_gpus": 8}],
            }
        }
    ]


def test_json_is_the_whole_answer(allot: Allot, api: FakeApi) -> None:
    api.answer = answer()
    assert json.loads(allot("what-if", "1", "--gpus", "1", "--json").stdout) == api.answer


def test_no_answer_is_an_error(allot: Allot, api: FakeApi, capfd: pytest.CaptureFixture[str]) -> None:
    api.answer = answer(state="failed", problem="It took too long to work out.")
    result = allot("what-if", "1", "--gpus", "1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "It took too long to work out." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "State what to ask"),
        (("1",), "what is to be different"),
        (("--gpus", "4"), "which job"),
        (("--enlarge", "research", "V100"), "KEY=VALUE"),
        (("--enlarge", "research", "V100=x"), "not a number of GPUs"),
    ],
)
def test_wrong_use_is_explained(allot: Allot, arguments: tuple[str, ...], words: str) -> None:
    result = allot("what-if", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
