"""A sweep over Celery workers gives what it gives here; the worker of these tests is a function call."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler import tasks
from scheduler.core.sim.result import Result
from scheduler.management.commands import simulate
from scheduler.simulation.sweep import Case, Failed, case_from_json, case_to_json, run_case


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker that does what it is sent at once; what it is sent goes through JSON, as over the broker."""

    def send_task(name: str, arguments: list[str]) -> None:
        assert name == tasks.simulate_case.name
        tasks.simulate_case(*json.loads(json.dumps(arguments)))

    monkeypatch.setattr(simulate.current_app, "send_task", send_task)
    monkeypatch.setattr(simulate.settings, "ALLOT_HOME", tmp_path / "home")


def untimed(result: Result) -> Result:
    return replace(result, elapsed_seconds=0.0, decide_seconds=0.0)


def test_gives_the_same_results(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("submitted_at,gpus,duration_seconds\n0,4,100\n1,4,50\n2,2,10\n")
    cases = [
        Case(
            trace=str(trace), format="allot", cluster="v100=4:4", policy=policy, costs={"start_seconds": 3.0}
        )
        for policy in ("fifo", "srtf:by_service=true")
    ]
    assert [case_from_json(case_to_json(case)) for case in cases] == cases
    done = dict(simulate.run_on_workers(cases))
    assert [untimed(done[place]) for place in (0, 1)] == [untimed(run_case(case)) for case in cases]
    assert not list((tmp_path / "home").iterdir())


def test_a_case_that_cannot_be_run_is_said(tmp_path: Path) -> None:
    case = Case(trace=str(tmp_path / "missing.csv"), format="allot", cluster="v100=4:4")
    [(place, failed)] = simulate.run_on_workers([case])
    assert place == 0
    assert isinstance(failed, Failed)
    assert "missing.csv" in failed.why
