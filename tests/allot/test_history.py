"""hist and usage: which jobs and GPU-hours are asked for, and how they are printed."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from allot.columns import COLUMNS, chosen
from allot.errors import WrongUse
from allot.times import past
from tests.allot.fake_api import NOW, FakeApi, ended, make_attempt, running
from tests.allot.in_process import Allot


@pytest.fixture
def asked(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The queries of the list of jobs so far."""
    queries: list[dict[str, str]] = []
    answer = api._list

    def listed(query: dict[str, str]) -> Any:
        queries.append(query)
        return answer(query)

    monkeypatch.setattr(api, "_list", listed)
    return queries


def finished(number: int = 1, **changes: Any) -> dict[str, Any]:
    attempt = make_attempt(1, state="ended", failure="import_error", ended_at="2026-01-31T12:30:00+00:00")
    return {**running(), **ended("failed", 3), "attempt": attempt, "service_gpu_seconds": 3600.0, **changes}


def test_the_server_filters_by_all_that_is_asked(
    allot: Allot, api: FakeApi, asked: list[dict[str, str]]
) -> None:
    before = datetime.now().astimezone()
    flags = (
        "--since 7d --until yesterday --state failed --state running --user ann --tenant research --vc shared"
    )
    flags += " --label sweep=3 --failure import_error --name tr --model V100"
    result = allot("hist", *flags.split())
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "No jobs in this time.\n"
    (query,) = asked
    since = datetime.fromisoformat(query.pop("since"))
    assert timedelta(days=7) - timedelta(minutes=5) < before - since <= timedelta(days=7)
    midnight = datetime.fromisoformat(query.pop("until")).astimezone()
    assert (midnight.hour, midnight.date()) == (0, before.date() - timedelta(days=1))
    assert query == {
        "page_size": "51",
        "state": "failed,running",
        "submitted_by": "ann",
        "tenant": "research",
        "virtual_cluster": "shared",
        "label": "sweep=3",
        "failure": "import_error",
        "q": "tr",
        "gpu_model": "V100",
    }


def test_without_options_it_is_what_ran_within_a_day(
    allot: Allot, api: FakeApi, asked: list[dict[str, str]]
) -> None:
    api.add(1)
    api.add(2, **finished())
    result = allot("hist")
    assert asked[0]["state"] == "running,succeeded,failed,cancelled"
    header, line = result.stdout.splitlines()
    assert " ".join(header.split()) == "ID NAME USER STATE GPUS MODEL VC STARTED ENDED TIME GPU_HOURS EXIT"
    assert line.split()[:6] == ["2", "train", "ann", "FAILED", "2", "V100"]
    assert line.split()[-3:] == ["30m", "1.00", "3"]


def test_columns_are_chosen_and_csv_is_for_programs(allot: Allot, api: FakeApi) -> None:
    api.add(1, **finished(labels={"sweep": "3"}, name='a "b", c'))
    columns = "id,name,failure,label:sweep,time,started,gpu_hours,waited"
    assert allot("hist", "--format", columns).stdout.splitlines()[0].split() == [
        name.upper() for name in columns.split(",")
    ]
    (line,) = csv.DictReader(io.StringIO(allot("hist", "--csv", "-F", columns).stdout))
    assert line == {
        "id": "1",
        "name": 'a "b", c',
        "failure": "import_error",
        "label:sweep": "3",
        "time": "1800.0",
        "started": NOW,
        "gpu_hours": "1.0",
        "waited": "0.0",
    }


def test_json_is_the_whole_object_and_pages_are_followed(allot: Allot, api: FakeApi) -> None:
    for number in range(1, 452):
        api.add(number, **finished())
    found = json.loads(allot("hist", "--json", "--all").stdout)
    assert [job["id"] for job in found] == list(range(451, 0, -1))
    result = allot("hist", "-n", "3", "--csv", "-F", "id")
    assert result.stdout.split() == ["id", "451", "450", "449"]
    assert "there are more" in allot("hist", "-n", "3").stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--format", "id,stat"], "there is no column 'stat'. Did you mean state?"),
        (["--format", ","], "--format names no column"),
        (["--since", "soon"], "--since: 'soon' is not a time"),
        (["--csv", "--json"], "Give one of --csv, --parquet, --json and -o."),
    ],
)
def test_wrong_use_is_told_by_the_option(allot: Allot, flags: list[str], says: str) -> None:
    result = allot("hist", *flags)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_can_be_shown_of_jobs_in_every_state(name: str, api: FakeApi) -> None:
    column = chosen(name)[name]
    for changes in ({}, running(), finished(), ended("cancelled", None)):
        job = api.add(1, **changes)
        if job["attempt"]:
            job["attempt"].setdefault("failure", "")
        for plain in (True, False):
            assert column.value(job, plain=plain) is not None  # type: ignore[arg-type]


def test_times_of_the_past() -> None:
    now = datetime.now().astimezone()
    assert abs(now - past("2h", "--since") - timedelta(hours=2)) < timedelta(minutes=5)
    assert past("2026-01-02", "--since").date().isoformat() == "2026-01-02"
    assert past("today", "--since") <= now
    with pytest.raises(WrongUse):
        past("in 2h", "--since")


REPORT: dict[str, Any] = {
    "since": NOW,
    "until": NOW,
    "by": ["virtual_cluster", "gpu_model"],
    "rows": [
        {
            "virtual_cluster": "shared", "gpu_model": "V100", "jobs": 1200, "gpu_hours": 1300.5,
            "guaranteed_gpu_hours": 1000.5, "opportunistic_gpu_hours": 300.0, "wasted_gpu_hours": 12.0,
            "cost": 2600.0, "currency": None,
            "entitled_gpu_hours": 2001.0,
        }
    ],
    "total": {
        "jobs": 1200, "gpu_hours": 1300.5, "guaranteed_gpu_hours": 1000.5, "opportunistic_gpu_hours": 300.0,
        "wasted_gpu_hours": 12.0, "cost": 2600.0, "currency": None,
    },
}  # fmt: skip


@pytest.fixture
def questions(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The queries of GET /usage so far."""
    queries: list[dict[str, str]] = []

    def on_usage(method: str, parts: list[str], query: dict[str, str], *_: Any) -> Any:
        queries.append(query)
        return REPORT if not parts else "virtual_cluster,jobs\nshared,1200\n"

    monkeypatch.setattr(api, "on_usage", on_usage, raising=False)
    return queries


def test_usage_is_shown_beside_what_was_guaranteed(allot: Allot, questions: list[dict[str, str]]) -> None:
    result = allot("usage", "--by", "vc,model", "--mine", "--tenant", "research")
    assert result.exit_code == 0, result.stderr
    assert questions == [{"by": "virtual_cluster,gpu_model", "tenant": "research", "user": "ann"}]
    header, line, total = result.stdout.splitlines()
    assert (
        " ".join(header.split())
        == "VC MODEL JOBS GPU-HOURS GUARANTEED OPPORTUNISTIC WASTED COST ENTITLED USED"
    )
    assert " ".join(line.split()) == "shared V100 1,200 1,300.50 1,000.50 300.00 12.00 2,600.00 2,001.00 50%"
    assert " ".join(total.split()) == "total 1,200 1,300.50 1,000.50 300.00 12.00 2,600.00"


def test_usage_for_programs(allot: Allot, questions: list[dict[str, str]]) -> None:
    assert json.loads(allot("usage", "--json", "--since", "30d").stdout) == REPORT
    assert "since" in questions[0]
    assert allot("usage", "--by", "nobody").exit_code == 2
    for command in ("usage", "hist"):
        assert "either --mine or --user" in allot(command, "--mine", "--user", "bob").stderr
    assert len(questions) == 1
