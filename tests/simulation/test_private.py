"""`manage.py simulate --private`: what it says on the terminal, in the JSON and on the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.simulation.command import main
from scheduler.simulation.report.measure import measure
from scheduler.simulation.report.page import page
from scheduler.simulation.report.privately import against_private
from scheduler.simulation.result_files import (
    case_from_json,
    case_to_json,
    result_from_json,
    result_to_json,
)
from scheduler.simulation.sweep import Case, run_case

CLUSTER = """\
nodes:
  - {name: n, count: 2, gpu_model: V100, gpus: 8}
virtual_clusters:
  - {name: products, guaranteed: {V100: 8}}
  - {name: research, guaranteed: {V100: 8}}
"""
#: At 60 s both nodes have small jobs of products on them, and research wants a whole one.
JOBS = (
    (0, 2, 600, "products"),
    (0, 2, 600, "products"),
    (0, 4, 30, "research"),
    (0, 4, 30, "research"),
    (10, 2, 600, "products"),
    (10, 2, 600, "products"),
    (60, 8, 100, "research"),
)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    (tmp_path / "lab.yaml").write_text(CLUSTER)
    rows = [",".join(map(str, job)) for job in JOBS]
    header = "submitted_at,gpus,duration_seconds,virtual_cluster"
    (tmp_path / "jobs.csv").write_text("\n".join([header, *rows]) + "\n")
    return Case(
        cluster=str(tmp_path / "lab.yaml"),
        trace=str(tmp_path / "jobs.csv"),
        format="allot",
        round_seconds=10.0,
        private=True,
    )


def simulate(case: Case, *more: object) -> int:
    arguments: Sequence[object] = (
        "--cluster", case.cluster, "--trace", case.trace, "--round-seconds", 10, "--quiet", *more,
    )  # fmt: skip
    return main([str(argument) for argument in arguments])


def test_tells_who_waited_longer_and_why(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(case, "--private", "--json", tmp_path / "out.json") == 0
    (run,) = json.loads((tmp_path / "out.json").read_text())["policies"]
    products, research = run["private"]
    assert (products["jobs"], products["anomalies"]) == (4, 0)
    assert (research["anomalies"], research["hard_affinity"]) == (1, 1)
    assert research["causes"] == {"fragmentation": 1}
    (worst,) = research["worst"]
    assert (worst["job"], worst["real_seconds"], worst["private_seconds"]) == (7, 540.0, 0.0)
    said = capsys.readouterr().out
    assert "private cluster" in said
    assert "fragmentation 1" in said


def test_the_page_has_a_section_of_it(case: Case) -> None:
    result = run_case(case)
    text = page([measure(result)], [], private=[against_private(result)])
    assert "Against private clusters" in text
    assert "not as the job needs them" in text
    assert "private-section" not in page([measure(result)], [])


def test_says_nothing_of_it_unless_asked(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(case, "--json", tmp_path / "out.json") == 0
    assert "private" not in json.loads((tmp_path / "out.json").read_text())["policies"][0]
    assert "private cluster" not in capsys.readouterr().out


def test_is_not_for_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "story.yaml", "--private"]) == 2
    assert "--private is not for --scenario: it has no private clusters" in capsys.readouterr().err


def test_results_travel_between_processes(case: Case) -> None:
    assert case_from_json(case_to_json(case)) == case
    result = run_case(case)
    assert result_from_json(result_to_json(result)).private == result.private
    assert result.private[1].anomalies


def test_only_jobs_of_the_window_are_compared(case: Case) -> None:
    result = run_case(replace(case, window=(0, 4)))
    assert [one.jobs for one in result.private] == [2, 2]
