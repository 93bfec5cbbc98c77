"""What the runner of tiers makes of tests that fail, of tiers that are killed, and of a second try."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests import tiers
from tests.patience import PATIENCE_SECONDS, until
from tests.processes import is_gone
from tests.tiers import Tier

#: Writes a JUnit file of one failed and one passed test at first, and of a passed one when run by itself.
TRIED_TWICE = """
import pathlib, sys
report, *tests = sys.argv[1:]
failure = "" if tests else "<failure message='assert 0'>assert 0</failure>"
print("running", *tests)
case = (
    "<testcase classname='c' name='{}'>"
    "<properties><property name='id' value='t.py::{}'/></properties>{}</testcase>"
)
cases = [("unsteady", failure)] if tests else [("unsteady", failure), ("steady", "")]
text = "".join(case.format(name, name, problem) for name, problem in cases)
pathlib.Path(report).write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
sys.exit(bool(failure))
"""
#: Writes the same, but fails each time.
FAILS = TRIED_TWICE.replace('"" if tests else', "").replace("assert 0", "assert &lt;1&gt;")
KILLED = "import os, signal; print('before', flush=True); os.kill(os.getpid(), signal.SIGKILL)"
#: Leaves a process behind, which holds its output open.
LEAVES = """
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text("<testsuites/>")
print("left", child.pid)
"""


@dataclass(frozen=True)
class Script(Tier):
    """A tier that is a small program, which gets the path of its report and the tests that it runs."""

    text: str = ""

    def command(self, report: Path, tests: Sequence[str], arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", self.text, str(report), *tests]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, path in (("RESULTS", tmp_path), ("ROOT", tmp_path)):
        monkeypatch.setattr(tiers, name, path)
    monkeypatch.setattr(tiers, "CODES", tmp_path / "codes.json")
    monkeypatch.setattr(tiers, "UNSTEADY", tmp_path / "unsteady.txt")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, **texts: str) -> bool:
    monkeypatch.setattr(tiers, "TIERS", tuple(Script(name, text=text) for name, text in texts.items()))
    return tiers.run_tiers([], [], slots=2)


def test_a_failure_is_shown_as_it_comes_and_repeated_at_the_end(results, monkeypatch, capfd):
    assert not run(
        monkeypatch, one=TRIED_TWICE, two="import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('<t/>')"
    )
    output = capfd.readouterr().out
    assert "      one | running" in output
    assert "--- FAILED t.py::unsteady\nassert 0" in output
    table = output.splitlines()[-2:]
    assert "2 tests  failed (1)" in table[0]
    assert "0 tests  passed" in table[1]
    assert (results / "one.log").read_text() == "running\n"


def test_what_passes_by_itself_is_listed_as_unsteady(results, monkeypatch, capfd):
    assert not run(monkeypatch, one=TRIED_TWICE)
    assert tiers.run_again()
    assert (results / "unsteady.txt").read_text() == "t.py::unsteady\n"
    output = capfd.readouterr().out
    assert "UNSTEADY  t.py::unsteady" in output
    assert "running t.py::unsteady" in output


def test_what_fails_again_fails_the_run(results, monkeypatch, capfd):
    assert not run(monkeypatch, one=FAILS)
    assert not tiers.run_again()
    assert (results / "unsteady.txt").read_text() == ""
    assert "FAILED TWICE  t.py::unsteady" in capfd.readouterr().out


def test_a_second_try_without_a_first_says_so(results, capfd):
    assert not tiers.run_again()
    assert "`make test` has not ended here" in capfd.readouterr().out


def test_more_than_a_few_unsteady_tests_fail_the_run(results, monkeypatch):
    assert not run(monkeypatch, **{name: TRIED_TWICE for name in "abcd"})
    assert not tiers.run_again()
    assert len((results / "unsteady.txt").read_text().splitlines()) == 4


def test_a_killed_tier_fails_and_is_no_unsteady_test(results, monkeypatch, capfd):
    assert not run(monkeypatch, one=KILLED)
    output = capfd.readouterr().out
    assert "killed by SIGKILL" in output.splitlines()[-1]
    assert "===== one: killed by SIGKILL" in output
    assert "\nbefore" in output.partition("=====")[2]
    assert not tiers.run_again()


def test_what_a_tier_leaves_behind_ends_with_it(results, monkeypatch, capfd):
    assert run(monkeypatch, one=LEAVES)
    pid = int(capfd.readouterr().out.partition("left ")[2].split()[0])
    until(lambda: is_gone(pid))


def test_an_unknown_tier_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "tests.tiers", "sever"],
        cwd=tiers.ROOT,
        env=os.environ | {"PYTHONPATH": "platform"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert "no tier is called 'sever'" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_ends_its_tiers(tmp_path: Path, number: signal.Signals):
    program = f"""
import pathlib, sys
from tests import test_tiers, tiers
folder = pathlib.Path({str(tmp_path)!r})
tiers.RESULTS, tiers.CODES = folder, folder / "codes.json"
waits = "import os, time; print('waits', os.getpid(), flush=True); time.sleep(600)"
tiers.TIERS = (test_tiers.Script("one", text=waits),)
sys.argv[1:] = []
sys.exit(tiers.main())
"""
    runner = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tiers.ROOT,
        env=os.environ | {"PYTHONPATH": "platform"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert runner.stdout is not None
    pid = int(runner.stdout.readline().partition("waits ")[2])
    runner.send_signal(number)
    assert runner.wait(PATIENCE_SECONDS) == 130
    assert not psutil.pid_exists(pid)
    runner.stdout.close()


def test_every_test_is_in_one_tier_of_every_day():
    """A new folder of tests belongs to a tier, or nothing would run it."""
    tests = Path(__file__).parent
    named = [
        path for tier in tiers.TIERS if not (tier.on_request or tier.alone) for path in tier.paths.split()
    ]
    assert len(named) == len(set(named))
    with_tests = {each.relative_to(tests).parts[0] for each in tests.rglob("test_*.py")}
    assert {path.removeprefix("tests/") for path in named} == with_tests


def test_codes_of_all_tiers_are_kept(results, monkeypatch):
    run(monkeypatch, one=KILLED, two=TRIED_TWICE)
    assert json.loads((results / "codes.json").read_text()) == {"one": -signal.SIGKILL, "two": 1}
