"""The accounting sees what it is there to see; and a short run, at the end of which it finds nothing."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.accounting import Attempt, Facts, Flooded, Full, Held, Taken, violations
from tests.chaos.faults import LEAST_SECONDS, WEIGHTS, plan
from tests.chaos.load import Submitted
from tests.chaos.report import as_json, as_text
from tests.chaos.run import run

EXPECTED = {"accuracy": 0.97, "digest": "d"}


def lines(attempt: int, begin: float, steps: range, *, restored: int = 0, ends: bool = True) -> list[dict]:
    """Return what one process writes: a step each second, and that it is done."""
    who = {"attempt": attempt, "rank": 0}
    start = {
        "what": "start",
        "at": begin,
        "printed": 0,
        "restored": restored,
        "gpus": ["north-0"],
        "world": 1,
    }
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
        "held": [Held("north-0", 100, 0.0, 30.0, 10), Held("north-0", 101, 30.0, 80.0, 11)],
        "ledgers": {
            1: lines(10, 1.0, range(1, 26), ends=False) + lines(11, 40.0, range(21, 31), restored=20)
        },
        "outputs": {(10, 0): text[10], (11, 0): text[11]},
        "expected": {(30, 5): EXPECTED},
    }
    return Facts(**{**values, **changes})


TAKEN = Taken("revoke token", "ada", {"live stream": 0.4, "session": 3.1}, 0.0, is_let_in=False)
FLOODED = Flooded(0.03, 0.2, 1.4, refused=(), answers={200: 5, 429: 90}, nodes_lost=0, is_cancelled=True)


def test_nothing_is_wrong_with_a_job_that_lost_no_more_than_it_had_to():
    assert violations(facts()) == []


def test_what_is_promised_of_people_and_disks_is_no_violation():
    """Nor what nobody can keep: a server that was stopped ends nothing, a full disk takes no checkpoint."""
    stopped = replace(TAKEN, seconds={"session": 14.0, "download": 10.0}, stopped_seconds=6.0)
    slow_machine = replace(FLOODED, before_seconds=0.4, median_seconds=1.1)
    fine = {
        "taken": [TAKEN, stopped],
        "floods": [FLOODED, slow_machine],
        "full": [Full(6.0, [(0.5, 200), (1.5, 503), (5.0, 503)])],
        "states": {1: "succeeded", 2: "cancelled"},
        "loud": {2: "cancelled"},
        "ledgers": {1: FIRST + lines(11, 40.0, range(1, 31))},
        "no_room": [(20.0, 24.0)],
        "outputs": {**facts().outputs, (11, 0): "".join(f"line {n}\n" for n in range(30))},
    }
    assert violations(facts(**fine)) == []


def test_a_node_of_a_gang_gives_its_gpus_back_before_the_others():
    there = [{**line, "rank": 1, "gpus": ["south-0"]} for line in lines(11, 40.0, range(21, 25), ends=False)]
    text = "".join(f"line {number}\n" for number in range(len(there) - 1))
    both = {"ledgers": {1: FIRST + SECOND + there}, "outputs": {**facts().outputs, (11, 1): text}}
    assert violations(facts(held=[*HELD, Held("south-0", 101, 30.0, 45.0, 11)], **both)) == []
    assert violations(facts(held=[*HELD, Held("south-0", 101, 30.0, 41.0, 11)], **both)) == [
        "job 1: attempt 11 ran 3.00 s after GPU south-0 was released"
    ]


def test_parts_of_a_gpu_are_held_at_once_up_to_all_of_it():
    assert violations(facts(held=SHARED)) == []
    assert violations(facts(held=[*SHARED, Held("north-0", 102, 35.0, 36.0, 12, 300)])) == []


SECOND = lines(11, 40.0, range(21, 31), restored=20)
FIRST = lines(10, 1.0, range(1, 26), ends=False)
ATTEMPTS = facts().attempts
HELD = facts().held
#: By parts, the first for longer.
SHARED = [replace(HELD[0], end=90.0, thousandths=300), replace(HELD[1], thousandths=400)]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"states": {1: "failed"}}, "job 1 is failed"),
        ({"states": {1: "succeeded", 2: "succeeded"}}, "job 2 was submitted twice"),
        ({"attempts": [*ATTEMPTS, replace(ATTEMPTS[1], number=3)]}, "job 1 succeeded 2 times"),
        ({"attempts": [*ATTEMPTS, replace(ATTEMPTS[1], number=3, outcome="")]}, "attempt 3 never ended"),
        (
            {"held": [Held("north-0", 100, 0.0, 31.0, 10), Held("north-0", 101, 30.0, 60.0, 11)]},
            "GPU north-0 was held by allocations 100 and 101 at once",
        ),
        (
            {"held": [*HELD, Held("north-0", 102, 35.0, 36.0, 12, 300)]},
            "GPU north-0 was held by allocations 101 and 102 at once",
        ),
        (
            {"held": [*SHARED, Held("north-0", 102, 35.0, 36.0, 12, 301)]},
            "GPU north-0 was held by allocations 100, 101 and 102 at once",
        ),
        ({"held": [Held("north-0", 100, 0.0, None, 10)]}, "held by allocation 100 for ever"),
        ({"held": HELD[:1]}, "attempt 11 ran on GPUs that it was not allocated: ['north-0']"),
        (
            {"held": [HELD[0], replace(HELD[1], end=45.0)]},
            "attempt 11 ran 5.00 s after GPU north-0 was released",
        ),
        ({"held": [HELD[0], replace(HELD[1], begin=42.0)]}, "attempt 11 ran before it held GPU north-0"),
        (
            {"jobs": {1: Submitted("elastic", 30, 5)}, "held": [*HELD, replace(HELD[1], gpu="north-1")]},
            "attempt 11 ran 1 replicas on 2 GPUs",
        ),
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
        ({"taken": [replace(TAKEN, seconds={"download": None})]}, "ada's download went on all the time"),
        ({"taken": [replace(TAKEN, seconds={"session": 12.5})]}, "ada's session went on for 12.5 s"),
        ({"taken": [replace(TAKEN, is_let_in=True)]}, "ada was let in again"),
        ({"floods": [replace(FLOODED, median_seconds=0.7)]}, "others took 0.70 s at the median"),
        ({"floods": [replace(FLOODED, refused=["jobs: 429"])]}, "somebody else was refused jobs: 429"),
        ({"floods": [replace(FLOODED, answers={200: 5, 500: 1})]}, "errors of the server: {500: 1}"),
        ({"floods": [replace(FLOODED, nodes_lost=2)]}, "2 nodes lost their leases"),
        ({"floods": [replace(FLOODED, is_cancelled=False)]}, "could not be cancelled"),
        ({"loud": {2: "queued"}}, "overload: job 2 is queued"),
        ({"full": [Full(6.0, [(0.5, 200), (3.5, 200)])]}, "all is well 3.5 s after the database's disk"),
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
    assert all(fault.lasts_seconds >= LEAST_SECONDS.get(fault.kind, 0.0) for fault in planned(3))


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
