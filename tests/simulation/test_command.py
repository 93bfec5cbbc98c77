"""`manage.py simulate` as a person types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from scheduler.simulation.command import main
from tests.patience import PATIENCE_SECONDS, until
from tests.simulation import samples

ROOT = Path(__file__).resolve().parents[2]


def write_jobs(path: Path, jobs: Sequence[tuple[object, ...]]) -> Path:
    """Write (submitted at, GPUs, duration) as a trace in our own format."""
    rows = [",".join(map(str, job)) for job in jobs]
    path.write_text("\n".join(["submitted_at,gpus,duration_seconds", *rows]) + "\n")
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three jobs on four GPUs: the long one first, so that the order matters."""
    return write_jobs(tmp_path / "jobs.csv", [(0, 4, 100), (1, 4, 50), (2, 4, 10)])


def simulate(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def numbers(path: Path) -> dict[str, dict]:
    return {run["policy"]: run for run in json.loads(path.read_text())["policies"]}


def test_compares_policies(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = simulate(
        "--trace", trace, "--cluster", "v100=4:4", "--round-seconds", 0,
        "--policy", "fifo", "--policy", "sjf", "--json", tmp_path / "out.json",
    )  # fmt: skip
    assert code == 0
    runs = numbers(tmp_path / "out.json")
    # fifo: 100, 150, 160 less the submissions; sjf takes the short one first once the GPUs are free.
    assert runs["fifo"]["completion_seconds"]["mean"] == pytest.approx((100 + 149 + 158) / 3)
    assert runs["sjf"]["completion_seconds"]["mean"] == pytest.approx((100 + 159 + 108) / 3)
    assert "sjf" in capsys.readouterr().out


def test_steps_that_are_told_overrule_wrong_estimates(tmp_path: Path) -> None:
    """The job that is said to take 10 s takes 900: shown by its steps after a minute, it gives way."""
    header = "submitted_at,gpus,duration_seconds,estimate_seconds"
    (tmp_path / "jobs.csv").write_text(f"{header}\n0,4,900,10\n1,4,100,100\n")
    out = tmp_path / "out.json"
    code = simulate(
        "--trace", tmp_path / "jobs.csv", "--cluster", "v100=4:4", "--round-seconds", 0,
        "--policy", "srtf", "--sweep", "steps=no,yes", "--json", out,
    )  # fmt: skip
    assert code == 0
    silent, telling = json.loads(out.read_text())["policies"]
    assert silent["completion_seconds"]["mean"] == pytest.approx((900 + 999) / 2)
    assert telling["completion_seconds"]["mean"] == pytest.approx((1_000 + 159) / 2)
    assert any("report their steps" in note for note in telling["notes"])


# Every day a report is written in test_page.py, and by the command until it is interrupted.
@pytest.mark.slow
def test_writes_a_report(trace: Path, tmp_path: Path) -> None:
    assert simulate("--trace", trace, "--cluster", "v100=4:4", "--report", tmp_path / "report") == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert "jobs.csv" in page
    assert list((tmp_path / "report" / "figures").glob("*.svg"))


def test_skips_wrong_rows_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write_jobs(tmp_path / "jobs.csv", [(0, 4, 100), (1, 4, "nan"), (2, 4, -1)])
    assert simulate("--trace", trace, "--cluster", "v100=4:4", "--json", tmp_path / "out.json") == 0
    said = capsys.readouterr().err
    assert "jobs.csv:3: duration_seconds:" in said
    assert "jobs.csv:4: duration_seconds:" in said
    assert simulate("--trace", trace, "--cluster", "v100=4:4", "--strict") == 2
    assert "jobs.csv:3: duration_seconds:" in capsys.readouterr().err


#: A job that is too large for its virtual cluster, one that fits and one that is too large again.
SMALL = """
nodes: [{count: 2, gpu_model: v100, gpus: 4}]
virtual_clusters: [{name: small, guaranteed: {v100: 4}}, {name: other, guaranteed: {v100: 4}}]
"""
TOO_LARGE = [(0, 8, 100, "small"), (1, 4, 50, "small"), (2, 8, 10, "small")]


def write_small(folder: Path, jobs: Sequence[tuple[object, ...]]) -> tuple[object, ...]:
    """Return the arguments for these jobs on two virtual clusters of four GPUs."""
    (folder / "small.yaml").write_text(SMALL)
    rows = [",".join(map(str, job)) for job in jobs]
    header = "submitted_at,gpus,duration_seconds,virtual_cluster"
    (folder / "jobs.csv").write_text("\n".join([header, *rows]) + "\n")
    return "--trace", folder / "jobs.csv", "--cluster", folder / "small.yaml"


def test_jobs_that_can_never_run_are_said_and_count_as_not_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = write_small(tmp_path, TOO_LARGE)
    assert simulate(*command, "--policy", "fifo", "--policy", "sjf") == 0
    told = capsys.readouterr()
    assert told.err.count("2 jobs can never run on this cluster. The first, job 1: ") == 1
    row = next(line for line in told.out.splitlines() if line.startswith("Jobs not ended"))
    assert row.split()[-2:] == ["2", "2"]
    assert simulate(*command, "--strict") == 2
    assert "--strict leaves nothing out: 1 job can never run" in capsys.readouterr().err


def test_where_no_job_ran_the_exit_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(*write_small(tmp_path, [TOO_LARGE[0]])) == 1
    assert "fifo: no job ran" in capsys.readouterr().err
    assert simulate(*write_small(tmp_path, [])) == 1


def test_what_was_left_out_is_said_before_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "helios.csv").write_text(samples.HELIOS)
    trace = tmp_path / "helios.csv"
    for mode in (("--cluster", "v100=16:8"), ("--export", tmp_path / "copy.csv")):
        assert simulate("--trace", trace, "--format", "helios", *mode) == 0
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == "1 row without GPUs was left out. The first: 1425512 (helios.csv:3)."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "fife"), "there is no policy 'fife'"),
        (("--policy", "FIFO"), "there is no policy 'FIFO'; did you mean fifo?"),
        (
            ("--rounds", "gavel", "--policy", "FIFO"),
            "Gavel's rounds have no policy 'FIFO'; did you mean fifo?",
        ),
        (("--sweep", "round_seconds=60,-1"), "round_seconds is -1"),
        (("--policy", "fifo:backfill"), "parameter backfill has no value: write backfill=value"),
        (("--policy", "nomod:X"), "nomod:X: No module named 'nomod': there is no such module here"),
        (("--placer", "best-fit"), "there is no placer 'best-fit'; did you mean best_fit?"),
        (("--policy", "fifo:depth=3"), "has no parameter depth"),
        (("--policy", "fifo:backfill_depth=many"), "backfill_depth"),
        (("--placer", "nearby"), "there is no placer 'nearby'"),
        (("--cluster", "v100"), "v100"),
        (("--cluster", "missing.yaml"), "missing.yaml"),
        (("--cost", "stopping=3"), "there is no cost 'stopping'"),
        (("--cost", "start_seconds=-3"), "start_seconds is -3"),
        (("--cost", "restore_seconds@8=-3"), "restore_seconds is -3"),
        (("--cost", "interval_seconds@8=3"), "write NAME@GPUS, NAME@KIND or NAME@KIND@GPUS"),
        (("--cost", "start_seconds@a@b=3"), "write NAME@GPUS, NAME@KIND or NAME@KIND@GPUS"),
        (("--failure", "probability=2"), "must be from 0 to 1"),
        (("--failure", "mean_seconds=inf"), "mean_seconds is inf; it must be a number of seconds above 0"),
        (("--failure", "backoff_seconds=nan"), "backoff_seconds is nan; it must be a number of seconds"),
        (("--failure", "backoff_seconds=inf"), "backoff_seconds is inf"),
        (("--failure", "retries=nan"), "retries is nan; it must be a whole number of at least 0"),
        (("--failure", "retries=1.5"), "retries is 1.5"),
        (("--failure", "classify=0.5"), "classify is 0.5; it must be 0 or 1"),
        (("--window", "5:2"), "window 5:2"),
        (("--window", "first"), "--window first"),
        (("--sweep", "colour=red"), "there is no axis 'colour'"),
        (("--sweep", "moves=maybe"), "axis moves: 'maybe' is neither no nor yes"),
        (("--sweep", "autoscaling=on"), "axis autoscaling: 'on' is neither no nor yes"),
        (("--sweep", "limit=1.5"), "axis limit: '1.5' is not a whole number"),
        (("--sweep", "locality=near"), "axis locality: 'near' is not a number"),
        (("--sweep", "locality=0.5", "--sweep", "locality=1"), "--sweep locality is given twice"),
        (("--option", "estimates=none", "--option", "estimates=exact"), "--option estimates is given twice"),
        (("--cost", "start_seconds=1", "--cost", "start_seconds=2"), "--cost start_seconds is given twice"),
        (("--failure", "retries=1", "--failure", "retries=2"), "--failure retries is given twice"),
        (("--autoscaling", "min_nodes=1", "--autoscaling", "min_nodes=2"), "--autoscaling min_nodes is"),
        (("--option", "estimates=perhaps"), "estimates"),
        (("--round-seconds", "-1"), "round_seconds is -1"),
        (("--trace", "none.csv"), "none.csv"),
        (("--json", "/nonexistent/x.json"), "--json /nonexistent/x.json: there is no folder /nonexistent"),
        (("--json", "/proc/x.json"), "--json /proc/x.json: folder /proc cannot be written"),
        (("--json", "/tmp"), "--json /tmp: is a folder; give the name of a file"),
        (("--ledger", "/nonexistent/x.csv"), "--ledger /nonexistent/x.csv: there is no folder"),
        (("--report", "/proc/x/y"), "--report /proc/x/y: folder /proc cannot be written"),
        (("--report", "/dev/null/x"), "--report /dev/null/x: /dev/null is a file; give a folder"),
        (("--locality", "0"), "locality is 0; it must be above 0 and at most 1"),
        (("--locality", "2"), "locality is 2"),
        (("--locality", "nan"), "locality is nan"),
        (("--locality=-inf",), "locality is -inf"),
        (("--sweep", "locality=1,-1"), "locality is -1"),
        (("--limit", "-3"), "limit is -3; it must be at least 1"),
        (("--limit", "0"), "limit is 0"),
        (("--sweep", "limit=2,-1"), "limit is -1"),
        (("--processes", "-1"), "--processes is -1; it must be at least 1, or 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line_that_names_it(
    trace: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code = simulate("--trace", trace, "--cluster", "v100=4:4", *arguments)
    error = capsys.readouterr().err
    assert code == 2
    # Not wrapped, so that grep finds it.
    assert said in error
    assert "Traceback" not in error
    assert "3 jobs on 4 GPUs" not in error


def test_a_window_measures_some_jobs_and_ends_with_the_last_of_them(tmp_path: Path) -> None:
    jobs = [(10 * number, 1, 5) for number in range(20)]
    trace = write_jobs(tmp_path / "jobs.csv", jobs)
    out = tmp_path / "out.json"
    assert (
        simulate(
            "--trace", trace, "--cluster", "v100=4:4", "--round-seconds", 0, "--window", "5:8", "--json", out
        )
        == 0
    )
    run = numbers(out)["fifo"]
    assert run["jobs"]["measured"] == 3
    assert run["span_seconds"] == pytest.approx(75.0)


def test_a_sweep_over_processes_gives_what_one_after_another_gives(trace: Path, tmp_path: Path) -> None:
    outs = []
    for processes in (1, 2):
        outs.append(tmp_path / f"{processes}.json")
        simulate(
            "--trace", trace, "--cluster", "v100=4:4", "--policy", "fifo", "--policy", "sjf",
            "--sweep", "round_seconds=0,30", "--processes", processes, "--json", outs[-1], "--jobs",
        )  # fmt: skip

    def without_timing(path: Path) -> object:
        runs = json.loads(path.read_text())["policies"]
        assert len(runs) == 4
        return [{key: value for key, value in run.items() if key not in TIMINGS} for run in runs]

    assert without_timing(outs[0]) == without_timing(outs[1])


DYING = """
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Dying:
    def allocate(self, view, memory):
        os._exit(3)
"""


def test_a_run_whose_process_dies_costs_only_itself(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "dying_policies.py").write_text(DYING)
    command = [sys.executable, str(ROOT / "manage.py"), "simulate", "--trace", str(trace)]
    policies = ["--policy", "dying_policies:Dying", "--policy", "fifo", "--policy", "sjf"]
    ended = subprocess.run(
        [*command, "--cluster", "v100=4:4", *policies, "--processes", "2", "--json", "out.json"],
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ended.returncode == 1
    assert "dying_policies:Dying (run 1 of 3) has no result: its process died" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert set(numbers(tmp_path / "out.json")) == {"fifo", "sjf"}


ENDLESS = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Endless:
    def allocate(self, view, memory):
        while True:
            pass
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_policy_that_never_returns_ends_its_own_run(processes: int, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "endless_policies.py").write_text(ENDLESS)
    command = [sys.executable, str(ROOT / "manage.py"), "simulate", "--trace", str(trace)]
    policies = ["--policy", "endless_policies:Endless", "--policy", "fifo", "--processes", str(processes)]
    ended = subprocess.run(
        [*command, "--cluster", "v100=4:4", *policies, "--view-budget", "0.2", "--json", "out.json"],
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ended.returncode == 1
    assert "its policy or placer took longer than the 0.2 s that a view has" in ended.stderr
    assert "in endless_policies.py, line " in ended.stderr
    runs = numbers(tmp_path / "out.json")
    assert (runs["endless"]["jobs"]["ended"], runs["fifo"]["jobs"]["ended"]) == (0, 3)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_cannot_begin_costs_only_itself(
    processes: int, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    sweep = f"cluster=v100=4:4,{tmp_path / 'missing.yaml'}"
    arguments = ("--trace", trace, "--cluster", "v100=4:4", "--sweep", sweep, "--json", out)
    assert simulate(*arguments, "--processes", processes) == 1
    said = capsys.readouterr().err
    assert "fifo (run 2 of 2) has no result: " in said
    assert "missing.yaml: there is no such file" in said
    assert numbers(out)["fifo"]["jobs"]["ended"] == 3


TIMINGS = {"elapsed_seconds", "decide_seconds"}


def test_exports_a_workload_that_reads_back(trace: Path, tmp_path: Path) -> None:
    copy, out, again = tmp_path / "copy.csv", tmp_path / "a.json", tmp_path / "b.json"
    assert simulate("--trace", trace, "--export", copy) == 0
    for source, target in ((trace, out), (copy, again)):
        assert simulate("--trace", source, "--cluster", "v100=4:4", "--json", target) == 0
    assert numbers(out)["fifo"]["completion_seconds"] == numbers(again)["fifo"]["completion_seconds"]


def test_ctrl_c_leaves_a_report_that_says_so(tmp_path: Path) -> None:
    jobs = [(number, 1, 10_000) for number in range(20_000)]
    trace = write_jobs(tmp_path / "jobs.csv", jobs)
    out = tmp_path / "out.json"
    command = [sys.executable, "manage.py", "simulate", "--trace", str(trace), "--cluster", "v100=4:4"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [*command, "--policy", "srtf", "--round-seconds", "0", "--json", str(out)],
            cwd=ROOT, stdout=said, stderr=said,
            env={name: value for name, value in os.environ.items() if name != "DATABASE_URL"},
        )  # fmt: skip

        def has_begun() -> bool:
            assert process.poll() is None
            return "20,000 jobs" in (tmp_path / "said").read_text()

        until(has_begun)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 1
    run = numbers(out)["srtf"]
    assert "interrupted" in run["cut_short"]
    assert run["jobs"]["ended"] < len(jobs)


LASTING = """
import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Lasting:
    number: int = 0

    def allocate(self, view, memory):
        Path(f"began-{os.getpid()}").touch()
        while True:
            time.sleep(0.01)
"""


def test_ctrl_c_ends_all_processes_at_once(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "lasting_policies.py").write_text(LASTING)
    command = [sys.executable, str(ROOT / "manage.py"), "simulate", "--trace", str(trace)]
    policies = [
        word for number in (1, 2, 3) for word in ("--policy", f"lasting_policies:Lasting:number={number}")
    ]
    process = subprocess.Popen(
        [*command, "--cluster", "v100=4:4", *policies, "--processes", "2"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    until(lambda: len(list(tmp_path.glob("began-*"))) == 2)
    # As a terminal does: to all of its processes.
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "Interrupted: the results below are those of the finished runs." in said
    assert "Traceback" not in said
    for mark in tmp_path.glob("began-*"):
        assert not psutil.pid_exists(int(mark.name.removeprefix("began-")))
