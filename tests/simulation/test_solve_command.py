"""`manage.py solve`: the allocation, or every mistake with its job and field."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.simulation.solve_command import main

ROOT = Path(__file__).resolve().parents[2]

#: The paper's example, and a job for a model that is not there.
DOCUMENT: dict[str, Any] = {
    "models": {"V100": {"gpus": 1, "price_per_hour": 3.0}, "K80": 1},
    "jobs": [
        {"name": "a", "throughput": {"V100": 40, "K80": 10}, "steps_left": 1000},
        {"name": "b", "throughput": {"V100": 12, "K80": 4}, "steps_left": 2000, "slo_seconds": -1},
        {"name": "c", "throughput": {"V100": 100, "K80": 50}, "steps_left": 3000, "entity": "team"},
        {"name": "d", "throughput": {"A100": 7}, "steps_left": 10},
    ],
    "entities": {"team": 2},
    "pairs": [
        {"job_classes": ["a", "b"], "throughput": {"V100": [38, 11]}},
        {"job_classes": ["a", "elsewhere"], "throughput": {"V100": [1, 1]}},
    ],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path, DOCUMENT)


def write(folder: Path, document: Any) -> Path:
    path = folder / "instance.json"
    path.write_text(json.dumps(document))
    return path


def changed(**fields: Any) -> dict[str, Any]:
    """Return the document with job a changed."""
    first, *others = DOCUMENT["jobs"]
    return {**DOCUMENT, "jobs": [{**first, **fields}, *others]}


def nobody_counts() -> dict[str, Any]:
    return {**DOCUMENT, "jobs": [{**job, "weight": 0} for job in DOCUMENT["jobs"]]}


def pair(job_classes: list[str], throughput: dict[str, Any]) -> dict[str, Any]:
    return {**DOCUMENT, "pairs": [{"job_classes": job_classes, "throughput": throughput}]}


def test_prints_the_objective_the_shares_and_who_is_left_out(file: Path, capsys: Any) -> None:
    assert main(["--policy", "gavel:objective=max_min", "--instance", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "max_min: 0.727273" in printed
    assert "a       1   45.45%         0.00%       18.1818" in printed
    assert "job d runs on none of the models" in printed


def test_json_says_it_all(file: Path, capsys: Any) -> None:
    policy = "gavel:objective=max_min,sharing=true"
    assert main(["--policy", policy, "--instance", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["policy"] == policy
    assert report["objective"] > 0.727273
    assert report["seconds"] > 0
    assert report["runs_nowhere"] == ["d"]
    assert report["shared"][0]["first"] == ["a"]
    assert report["jobs"][0]["shares"]["V100"] == pytest.approx(report["shared"][0]["time"]["V100"])


def test_an_agnostic_policy_is_told_what_really_comes_of_it(file: Path, capsys: Any) -> None:
    assert main(["--policy", "gavel:objective=makespan,aware=false", "--instance", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "makespan: 166.667" in printed
    assert "really: 250" in printed


def test_an_slo_already_missed_is_named(file: Path, capsys: Any) -> None:
    assert main(["--policy", "gavel:objective=min_cost_slo", "--instance", str(file)]) == 0
    assert "job b misses its SLO" in capsys.readouterr().out


def test_runs_without_settings_or_database(file: Path) -> None:
    command = [sys.executable, "manage.py", "solve", "--policy", "gavel", "--instance", str(file)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env={})
    assert "max_min: 0.727273" in found.stdout


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (changed(throughput={"V100": -1}), "job a: throughput on V100: is -1 (steps per second"),
        (changed(throughput={"V100": float("nan")}), "job a: throughput on V100: is nan"),
        (changed(throughput={"V100": 1e30}), "job a: throughput on V100: is 1e+30"),
        (changed(throughput={"V100": "fast"}), "job a: throughput on V100: is 'fast' (a number)"),
        (changed(throughput=[1, 2]), "job a: throughput: is not an object"),
        (changed(gang=0), "job a: gang: is 0 (GPUs, or a part of one: 0.001 or more)"),
        (changed(weight=-2), "job a: weight: is -2"),
        (changed(steps_left=0), "job a: steps_left: is 0"),
        (changed(slo_seconds=float("nan")), "job a: slo_seconds: is nan"),
        (changed(priority=3), "job a: priority: is not known here (one of name, throughput"),
        (changed(name="b"), "names: two jobs have the same name"),
        (nobody_counts(), "weights of all jobs sum to zero"),
        ({**DOCUMENT, "models": {"V100": 0}}, "gpus: there is not one GPU"),
        ({**DOCUMENT, "models": {"V100": 1.5}}, "model V100: gpus: is 1.5 (a whole number"),
        ({**DOCUMENT, "models": {"V100": {"gpus": 1, "price_per_hour": 0}}}, "model V100: price: is 0"),
        ({"jobs": []}, "models: is missing"),
        ([], "is not an object"),
        (pair(["a"], {}), "pair 1: job_classes: are 1 (the classes of two jobs)"),
        (changed(kind="x"), "job a: kind: is not known here"),
        (pair(["a", "b"], {"V100": [1]}), "pair 1: throughput on V100: has 1 numbers (two:"),
        ({**DOCUMENT, "pairs": DOCUMENT["pairs"][:1] * 2}, "pair of a and b: job_classes: is given twice"),
        (
            {**changed(gang=2), "models": {"V100": 2}},
            "pair of a and b: job_classes: have gangs of 1 and 2 GPUs",
        ),
    ],
)
def test_names_what_is_wrong(document: Any, message: str, tmp_path: Path, capsys: Any) -> None:
    assert main(["--policy", "gavel:objective=max_min", "--instance", str(write(tmp_path, document))]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("policy", "message", "code"),
    [
        ("gavel:objective=fastest", "objective: there is no 'fastest'; there are fifo, finish_time", 2),
        ("gavel:speed=3", "gavel has no parameter 'speed'; it has objective, aware", 2),
        ("gavel:aware=3", "aware: is 3; write true or false", 2),
        ("fifo", "policy: 'fifo' cannot be solved by itself", 2),
        ("gavel:objective", "parameter objective has no value", 2),
        ("gavel:objective=shortest_job,sharing=true", "sharing: shortest_job cannot share GPUs", 1),
        ("gavel:sharing=true,aware=false", "an agnostic policy knows no pairs", 1),
        ("gavel:parts=0", "parts: is 0", 1),
        ("gavel:parts=3", "parts: with 3 of them job", 1),
    ],
)
def test_names_what_is_wrong_with_the_policy(
    policy: str, message: str, code: int, file: Path, capsys: Any
) -> None:
    assert main(["--policy", policy, "--instance", str(file)]) == code
    assert message in capsys.readouterr().err


def test_needs_steps_only_where_they_matter(tmp_path: Path, capsys: Any) -> None:
    document = changed()
    del document["jobs"][0]["steps_left"]
    path = write(tmp_path, document)
    assert main(["--policy", "gavel:objective=makespan", "--instance", str(path)]) == 1
    assert "job a: steps_left: is not given" in capsys.readouterr().err
    assert main(["--policy", "gavel:objective=fifo", "--instance", str(path)]) == 0


def test_a_file_that_is_no_json_or_not_there(tmp_path: Path, capsys: Any) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"models":\n oops}')
    assert main(["--policy", "gavel", "--instance", str(broken)]) == 2
    assert "broken.json:2: is not JSON" in capsys.readouterr().err
    assert main(["--policy", "gavel", "--instance", str(tmp_path / "absent.json")]) == 2
    assert "absent.json" in capsys.readouterr().err
