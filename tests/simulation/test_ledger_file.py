"""`manage.py simulate --ledger`: every line of every round, as a table."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from scheduler.simulation.command import main

HEADER = "submitted_at,tenant,user,gpus,duration_seconds,throughput"
JOBS = (
    *["0,vision,ada,1,600,V100=6|K80=1" for _ in range(8)],
    *["0,speech,,1,600,V100=1.5|K80=1" for _ in range(16)],
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([HEADER, *JOBS]) + "\n")
    return path


def simulate(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_entitlements_and_trades_of_a_run_are_written(trace: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.csv"
    code = simulate(
        "--trace", trace, "--cluster", "V100=4:4,K80=8:8", "--policy", "gandiva_fair", "--ledger", ledger
    )
    assert code == 0
    with ledger.open() as file:
        lines = list(csv.DictReader(file))
    first = [line for line in lines if line["round_number"] == "1"]
    assert [(line["kind"], line["party"]) for line in first] == [
        ("entitled", "speech"),
        ("entitled", "vision"),
        ("trade", "vision"),
    ]
    trade = first[-1]
    assert (trade["at"], trade["position"], trade["counterparty"]) == ("0.0", "2", "speech")
    assert (json.loads(trade["gpus"]), json.loads(trade["given"])) == ({"V100": 2.0}, {"K80": 3.0})
    assert float(trade["price"]) == 1.5
    assert json.loads(trade["details"])["user"] == "ada"
    # At the end nobody is entitled to anything any more.
    assert json.loads(lines[-1]["gpus"]) == {}


@pytest.mark.parametrize(
    "more", [["--policy", "fifo", "--policy", "sjf"], ["--seed", "1", "--seed", "2"], ["--rounds", "gavel"]]
)
def test_it_is_for_one_run_of_the_platforms_rounds(
    more: list[str], trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate("--trace", trace, "--cluster", "V100=4", "--ledger", tmp_path / "out.csv", *more) == 2
    refusal = "--ledger is not for --rounds" if "--rounds" in more else "--ledger is for one run"
    assert refusal in capsys.readouterr().err
