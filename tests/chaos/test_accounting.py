"""The accounting sees what it is there to see; and a short run, at the end of which it finds nothing."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.accounting import Attempt, Facts, Held, violations
from tests.chaos.faults import WEIGHTS, plan
from tests.chaos.load import Submitted
from tests.chaos.report import as_json, as_text
from tests.chaos.run import run

EXPECTED = {"accuracy": 0.97, "digest": "d"}


def lines(attempt: int, begin: float, steps: range, *, restored: int = 0, ends: bool = True) -> list[dict]:
    """Return what one process writes: a step each second, and that it is done."""
    who = {"attempt": attempt, "rank": 0}
    start = {"what": "start", "at": begin, "printed": 0, "restored": restored, "gpus": ["north-0"]}
    found = [{**start, **who}]
    for number, step in enumerate(steps, 1):
        found.append({"what": "step", "at": begin + number, "printed": number, "step": step, **who})
    if ends:
        found.append({"what": "done", "at": found[-1]["at"], "printed": len(steps), **EXPECTED, **who})
    return found


def facts(**changes: Any) -> Facts:
    """Return those of one job that was interrupted once, after step 25, and lost the steps after 20."""
    text = {10: "".join(f"line {n}\n" for n in range(25)), 11: "".join(f"line {n}\n" for n in range(10))}
    values: dict[str, Any] = {
        "jobs": {1: Submitted("single", 30, 5)},
        "states": {1: "succeeded"},
        "attempts": [
            Attempt(10, 1, 1, "lost", "node_lost", 5.0),
            Attempt(11, 1, 2, "succeeded", "", None),
        ],
        "held": [Held("north-0", 100, 0.0, 30.0), Held("north-0", 101, 30.0, 60.0)],
        "ledgers": {
            1: lines(10, 1.0, range(1, 26), ends=False) + lines(11, 40.0, range(21, 31), restored=20)
        },
        "outputs": {(10, 0): text[10], (11, 0): text[11]},
        "expected": {(30, 5): EXPECTED},
    }
    return Facts(**{**values, **changes})


def test_nothing_is_wrong_with_a_job_that_lost_no_more_than_it_had_to():
    assert violations(facts()) == []


SECOND = lines(11, 40.0, range(21, 31), restored=20)
FIRST = lines(10, 1.0, range(1, 26), ends=False)
ATTEMPTS = facts().attempts


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"states": {1: "failed"}}, "job 1 is failed"),
        ({"states": {1: "succeeded", 2: "succeeded"}}, "job 2 was submitted twice"),
        ({"attempts": [*ATTEMPTS, replace(ATTEMPTS[1], number=3)]}, "job 1 succeeded 2 times"),
        ({"attempts": [*ATTEMPTS, replace(ATTEMPTS[1], number=3, outcome="")]}, "attempt 3 never ended"),
        (
            {"held": [Held("north-0", 100, 0.0, 31.0), Held("north-0", 101, 30.0, 60.0)]},
            "GPU north-0 was held by allocations 100 and 101 at once",
        ),
        ({"held": [Held("north-0", 100, 0.0, None)]}, "held by allocation 100 for ever"),
        ({"ledgers": {1: FIRST}}, "never wrote that it was done"),
        ({"ledgers": {1: FIRST + lines(11, 20.0, range(21, 31), restored=20)}}, "ran at once for 6.00 s"),
        (
            {"ledgers": {1: FIRST + lines(11, 40.0, range(1, 31))}},
            "went back to step 0, though step 20 had been saved",
        ),
        ({"ledgers": {1: [*FIRST, {**SECOND[-1], "digest": "other"}]}}, "digest is other, undisturbed d"),
        (
            {"ledgers": {1: [*FIRST, {**SECOND[0], "what": "gpu_is_taken", "gpu": "north-0"}, *SECOND]}},
            "was given GPU north-0, which was in use",
        ),
        ({"outputs": {(10, 0): "line 0\nline 2\n", (11, 0): facts().outputs[11, 0]}}, "has a gap"),
        ({"outputs": {(10, 0): "", (11, 0): "line 0\n"}}, "ends after 1 of 10 lines"),
        ({"failed_rounds": [(7, "KeyError: 3")]}, "round 7 failed: KeyError: 3"),
    ],
)
def test_what_went_wrong_is_found(change: dict[str, Any], problem: str):
    found = violations(facts(**change))
    assert any(problem in each for each in found), found


def test_the_plan_is_the_seeds_and_has_all_kinds():
    def planned(seed: int) -> list:
        return plan(seed, faults=60, seconds=100.0, lease_seconds=8.0, without={"cut node off"})

    assert planned(3) == planned(3) != planned(4)
    assert {fault.kind for fault in planned(3)} == set(WEIGHTS) - {"cut node off"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_short_run(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    # Jobs run as users of their own, who have to get to what is theirs.
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o711)
    result = run(tmp_path, seed=7, faults=25, seconds=25.0)
    assert not result.violations, as_text(as_json(result, "this machine"))
    assert len(result.facts.jobs) >= 5
