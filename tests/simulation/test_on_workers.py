"""A sweep over Celery workers gives what it gives here; the worker of these tests is a function call."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler import tasks
from scheduler.core.sim.result import Result
from scheduler.management.commands import simulate
from scheduler.simulation.result_files import case_from_json, case_to_json, result_in, run_to_file
from scheduler.simulation.sweep import Case, Failed, run_case


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


def test_a_worker_that_dies_costs_its_case_and_no_patience(tmp_path: Path) -> None:
    """Nothing else would end the wait: a worker that was killed sends no word."""
    trace, target = tmp_path / "jobs.csv", str(tmp_path / "0")
    os.mkfifo(trace)  # So that the worker waits for jobs, amid its case.
    case = Case(trace=str(trace), format="allot", cluster="v100=4:4")
    worker = multiprocessing.get_context("spawn").Process(
        target=run_to_file, args=(case_to_json(case), target)
    )
    assert result_in(target) is None
    worker.start()
    with trace.open("w"):
        assert result_in(target) is None
        worker.kill()
        worker.join()
    result = result_in(target)
    assert isinstance(result, Failed)
    assert "its worker ended" in result.why


def test_a_case_of_a_sweep_that_was_given_up_is_not_run(tmp_path: Path) -> None:
    case = Case(trace=str(tmp_path / "missing.csv"), format="allot", cluster="v100=4:4")
    run_to_file(case_to_json(case), str(tmp_path / "gone" / "0"))
    assert not list(tmp_path.iterdir())
