"""Every option of `manage.py simulate` in every way of using it changes what is done, or is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scheduler.core.sim.result import Result
from scheduler.simulation import command, replay
from scheduler.simulation.arguments import parser
from scheduler.simulation.experiment import Experiment
from scheduler.simulation.gavel.workload import KINDS
from scheduler.simulation.modes import typed
from scheduler.simulation.report import rendering
from scheduler.simulation.run import simulate
from scheduler.simulation.sweep import Case, run_all

#: A long job, then short ones, so that order, rates and costs show.
TRACE = """\
id,submitted_at,gpus,duration_seconds,application,virtual_cluster
a,0,4,900,LM (batch size 10),one
b,1,2,100,LM (batch size 10),one
c,2,1,50,ResNet-18 (batch size 32),two
"""
GENERATOR = {"jobs": 4, "sizes": {"1": 1, "2": 1}, "applications": [{"name": "A3C"}]}
STORY = """\
cluster: v100=4:2
policy: fifo
placer: consolidate
round_seconds: 10
events:
  - {at: 0, submit: {name: long, gpus: 2, duration_seconds: 900, application: LM (batch size 10)}}
  - {at: 1, submit: {name: wide, gpus: 4, duration_seconds: 100}}
  - {at: 2, submit: {name: short, gpus: 1, duration_seconds: 50}}
"""
#: What each way of using the command is given at least.
MODES: dict[str, tuple[str, ...]] = {
    "trace": ("--trace", "jobs.csv", "--cluster", "v100=4:2", "--json", "out.json"),
    "generator": ("--generate", "generator.json", "--cluster", "v100=4:2", "--json", "out.json"),
    "Gavel's rounds": (
        *("--rounds", "gavel", "--generate", "gavel:jobs=2", "--throughputs", "table.json"),
        *("--cluster", "v100=4:2", "--json", "out.json"),
    ),
    "scenario": ("--scenario", "story.yaml", "--json", "out.json"),
    "export": ("--trace", "jobs.csv", "--export", "copy.csv"),
    "export of a generator": ("--generate", "generator.json", "--export", "copy.csv"),
    "workers": ("--trace", "jobs.csv", "--cluster", "v100=4:2", "--json", "out.json", "--celery"),
}
#: What is given of each option; and what must be there for it to show, where it is not refused then.
OPTIONS: dict[str, tuple[str, ...]] = {
    "trace": ("--trace", "fewer.csv"),
    "format": ("--format", "helios"),
    "generate": ("--generate", "gavel:jobs=3"),
    "scenario": ("--scenario", "other.yaml"),
    "cluster": ("--cluster", "v100=2:1"),
    "cells": ("--cells",),
    "throughputs": ("--throughputs", "other.json"),
    "limit": ("--limit", "1"),
    "window": ("--window", "0:1"),
    "option": ("--option", "estimates=none"),
    "strict": ("--strict",),
    "policy": ("--policy", "sjf"),
    "placer": ("--placer", "spread"),
    "round_seconds": ("--round-seconds", "33"),
    "view_budget": ("--view-budget", "60"),
    "rounds": ("--rounds", "gavel:reallocate_seconds=360"),
    "seed": ("--seed", "7"),
    "cost": ("--cost", "start_seconds=40"),
    "failure": ("--failure", "probability=1"),
    "locality": ("--locality", "0.5"),
    "steps": ("--steps",),
    "goodput": ("--goodput", "true"),
    "interference": ("--interference", "0.3"),
    "autoscaling": ("--autoscaling", "min_nodes=1"),
    "moves": ("--no-moves",),
    "sweep": ("--sweep", "round_seconds=7,9"),
    "processes": ("--processes", "2"),
    "celery": ("--celery",),
    "report": ("--report", "report"),
    "json": ("--json", "other-out.json"),
    "private": ("--private",),
    "jobs": ("--jobs",),
    "export": ("--export", "other-copy.csv"),
    "ledger": ("--ledger", "ledger.csv"),
    "quiet": ("--quiet",),
}
NEEDS: dict[str, tuple[str, ...]] = {
    "seed": ("--option", "estimate_error=1"),
    "processes": ("--sweep", "round_seconds=7,9"),
    "strict": ("--trace", "wrong.csv"),
}
#: There is no bar of progress to leave out.
QUIET_BY_ITSELF = ("scenario", "export", "export of a generator")


@dataclass
class Seen:
    """What came of a command."""

    code: int
    error: str
    #: All that the command did: what it printed and wrote, and what it had simulated.
    done: Any


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(TRACE)
    (tmp_path / "fewer.csv").write_text(TRACE.rpartition("c,")[0])
    (tmp_path / "wrong.csv").write_text(TRACE + "d,3,none,50,,two\n")
    (tmp_path / "generator.json").write_text(json.dumps(GENERATOR))
    (tmp_path / "story.yaml").write_text(STORY)
    (tmp_path / "other.yaml").write_text(STORY.replace("900", "800"))
    rates = {f"('{kind}', {gpus})": {"null": 30.0} for kind in KINDS for gpus in (1, 2, 4)}
    (tmp_path / "table.json").write_text(json.dumps({"v100": rates}))
    (tmp_path / "other.json").write_text(json.dumps({"v100": {name: {"null": 31.0} for name in rates}}))
    return tmp_path


class Watch:
    """Runs commands, and notes what was simulated where and with a progress bar or not."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._folder, self._capsys = folder, capsys
        self._simulated: list[object] = []
        plain_progress, spread = command._progress, run_all

        def watched(experiment: Experiment, **how: Any) -> Result:
            given = {name: getattr(experiment, name) for name in _TOLD}
            self._simulated.append({**given, "asks": sorted(how)})
            return simulate(experiment, **how)

        def progress(console: Any, quiet: bool) -> Any:
            self._simulated.append(("quiet", quiet))
            return plain_progress(console, quiet)

        def at_once(cases: Sequence[Case], processes: int) -> Iterator[tuple[int, Result]]:
            self._simulated.append(("processes", processes, list(cases)))
            return spread(cases, 1)

        monkeypatch.setattr(command, "simulate", watched)
        monkeypatch.setattr(replay, "simulate", watched)
        monkeypatch.setattr(command, "_progress", progress)
        monkeypatch.setattr(command, "run_all", at_once)
        # To draw figures takes longer than all else; what their files show is checked by report/test_page.py.
        for kind in ("svg_file", "png_file"):
            monkeypatch.setattr(rendering, kind, lambda drawing: drawing.name.encode())

    def run(self, *arguments: str) -> Seen:
        self._simulated.clear()
        before = {path.name for path in self._folder.iterdir()}
        code = command.main(arguments, run_elsewhere=self._elsewhere if "--celery" in arguments else None)
        said = self._capsys.readouterr()
        written = {path.name: _content(path) for path in self._folder.iterdir() if path.name not in before}
        for name in written:
            if (self._folder / name).is_file():
                (self._folder / name).unlink()
        return Seen(code, " ".join(said.err.split()), [code, said.out, written, list(self._simulated)])

    def _elsewhere(self, cases: Sequence[Case]) -> Iterator[tuple[int, Result]]:
        self._simulated.append(("elsewhere", list(cases)))
        return run_all(cases, 1)


_TOLD = (
    "cluster",
    "workload",
    "policy",
    "placer",
    "rules",
    "round_seconds",
    "rounds",
    "window",
    "private",
    "strict",
    "view_budget_seconds",
)


def _content(path: Path) -> object:
    """Return what a file says apart from the command and how long it took."""
    if path.is_dir():
        return "a folder"
    if path.suffix != ".json":
        return path.read_text()
    report = json.loads(path.read_text())
    del report["command"]
    for run in report["policies"]:
        del run["elapsed_seconds"], run["decide_seconds"]
    return report


def test_the_walk_below_knows_every_option() -> None:
    assert set(OPTIONS) == {action.dest for action in parser()._actions} - {"help"}


@pytest.mark.parametrize("mode", MODES)
def test_every_option_changes_what_is_done_or_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    watch = Watch(folder, monkeypatch, capsys)
    run = cache(watch.run)
    silent = []
    for option, words in OPTIONS.items():
        base = (*MODES[mode], *NEEDS.get(option, ()))
        without = run(*base)
        if option in NEEDS and without.code == 2:
            base, without = MODES[mode], run(*MODES[mode])
        assert without.code == 0, (option, without.error)
        given = watch.run(*base, *words)
        is_refused = given.code == 2 and typed(option) in given.error
        same = given.done == without.done and not set(words) <= set(base)
        if option == "quiet" and mode in QUIET_BY_ITSELF:
            assert same
        elif not is_refused and same:
            silent.append(option)
    assert silent == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scenario", "story.yaml", "--cost", "start_seconds=30"), ""),
        (("--scenario", "story.yaml", "--window", "0:1"), "--window is not for --scenario: all of its jobs"),
        (("--scenario", "story.yaml", "--policy", "a", "--policy", "b"), "--policy is given 2 times"),
        ((*MODES["Gavel's rounds"], "--no-moves"), "--no-moves is not for --rounds: Gavel's rounds do not"),
        (
            (*MODES["Gavel's rounds"], "--sweep", "costs.start_seconds=1,2"),
            "--sweep costs is not for --rounds",
        ),
        ((*MODES["generator"], "--sweep", "limit=1,2"), "--sweep limit is not for --generate"),
        ((*MODES["export"], "--seed", "1", "--seed", "2"), "--seed is given 2 times; --export takes one"),
        (
            (*MODES["trace"], "--option", "tenants=user"),
            "--option tenants is for helios, philly or slurm; allot does",
        ),
        ((*MODES["generator"], "--option", "gpu_models=v100"), "--option gpu_models is for traces"),
        (
            (*MODES["trace"], "--option", "estimates=none", "--option", "estimate_error=2"),
            "--option estimate_error is not for --option estimates=none: there are no estimates",
        ),
        (("--trace", "jobs.csv", "--cluster", "v100=4", "--jobs"), "--jobs adds to what --json or --report"),
    ],
)
def test_what_is_refused_is_said_with_the_reason(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert command.main(arguments) == (2 if said else 0)
    assert said in " ".join(capsys.readouterr().err.split())


def test_the_command_line_goes_before_a_scenarios_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {}
    for more in ((), ("--policy", "sjf"), ("--round-seconds", "0"), ("--cost", "start_seconds=30")):
        assert command.main(["--scenario", "story.yaml", *more]) == 0
        told[more] = capsys.readouterr().out
    assert "wide: succeeded at 1000 s" in told[()]
    assert "short: succeeded at 1050 s" in told[()]
    # Under sjf the short one, which fits, does not wait for the wide one.
    assert "short: succeeded at 60 s" in told["--policy", "sjf"]
    assert "900  start wide" in " ".join(told["--round-seconds", "0"].split("\n"))
    assert "long: succeeded at 930 s" in told["--cost", "start_seconds=30"]


def test_a_scenario_leaves_numbers_a_page_and_a_ledger(folder: Path) -> None:
    assert (
        command.main(["--scenario", "story.yaml", "--json", "out.json", "--jobs", "--ledger", "l.csv"]) == 0
    )
    (run,) = json.loads((folder / "out.json").read_text())["policies"]
    assert run["policy"] == "fifo"
    assert len(run["job_records"]["id"]) == 3
    assert (folder / "l.csv").read_text().startswith("at,round_number,view")
