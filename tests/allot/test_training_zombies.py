"""Many attempts of one job at once, frozen, killed and let go at random: only one line of them counts."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from allot.training import FENCED_EXIT_CODE
from tests.allot.fake_s3 import fake_s3

pytestmark = pytest.mark.slow

#: A folder takes a step sooner than a store does.
STEPS = {"folder": 8000, "store": 1500}
ATTEMPTS_AT_ONCE = 4
CHAOS_SECONDS = 15.0
ENDINGS = {0, FENCED_EXIT_CODE, 128 + signal.SIGTERM, -signal.SIGTERM, -signal.SIGKILL}

#: Its state is a chain of digests, so that a state of the wrong step cannot go unseen.
WORKER = """
import hashlib, json, sys
import allot.training
state = {"chain": "", "line": []}
def following(chain, step):
    return hashlib.sha256(f"{chain}{step}".encode()).hexdigest()
def save(folder):
    (folder / "first").write_text(json.dumps(state))
    (folder / "second").write_text(state["chain"])
def load(folder):
    state.update(json.loads((folder / "first").read_text()))
    assert (folder / "second").read_text() == state["chain"]
with allot.training.session(save=save, load=load, every_steps=3) as run:
    chain = ""
    for step in range(run.step):
        chain = following(chain, step)
    assert chain == state["chain"], f"the state is not that of step {run.step}"
    state["line"].append([run.attempt, run.step])
    for step in run.steps(int(sys.argv[1])):
        state["chain"] = following(state["chain"], step)
print(json.dumps(state))
"""


def final_chain(steps: int) -> str:
    chain = ""
    for step in range(steps):
        chain = hashlib.sha256(f"{chain}{step}".encode()).hexdigest()
    return chain


@pytest.mark.parametrize("kind", ["folder", "store"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_job_ends_right_however_many_zombies_it_has(tmp_path: Path, kind: str, seed: int) -> None:
    chance = random.Random(seed)
    running: dict[int, subprocess.Popen[str]] = {}
    results: dict[int, dict] = {}
    attempt = 0
    with ExitStack() as ending:
        settings = ending.enter_context(fake_s3()).environment() if kind == "store" else {}
        calm_from = time.monotonic() + CHAOS_SECONDS
        while running or not results:
            is_calm = time.monotonic() > calm_from
            if not running or (not is_calm and len(running) < ATTEMPTS_AT_ONCE and chance.random() < 0.05):
                attempt += 1
                running[attempt] = launch(tmp_path, attempt, kind, settings)
                ending.callback(running[attempt].kill)
            victim = running[chance.choice(sorted(running))]
            numbers = [signal.SIGSTOP, signal.SIGCONT, signal.SIGCONT, signal.SIGCONT]
            if chance.random() < 0.05:
                numbers = [signal.SIGKILL, signal.SIGTERM]
            for process in running.values() if is_calm else [victim]:
                process.send_signal(signal.SIGCONT if is_calm else chance.choice(numbers))
            time.sleep(chance.random() * 0.05)
            for number, process in list(running.items()):
                if process.poll() is not None:
                    output, errors = running.pop(number).communicate()
                    assert process.returncode in ENDINGS, errors
                    if process.returncode == 0:
                        results[number] = json.loads(output)
    assert attempt > 3
    for result in results.values():
        assert result["chain"] == final_chain(STEPS[kind])
        attempts, steps = zip(*result["line"], strict=True)
        assert sorted(set(attempts)) == list(attempts), "an older attempt came after a newer one"
        assert sorted(steps) == list(steps), "it went back further than to its last checkpoint"


def launch(folder: Path, attempt: int, kind: str, settings: dict[str, str]) -> subprocess.Popen[str]:
    """Start an attempt; with a store, on one of three nodes that share no folder."""
    node = f"node-{attempt % 3}" if kind == "store" else "shared"
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(STEPS[kind])],
        env={
            **settings,
            "PATH": os.environ["PATH"],
            "ALLOT_ATTEMPT": str(attempt),
            "ALLOT_CHECKPOINT_DIR": str(folder / node),
            "ALLOT_PROGRESS": str(folder / f"progress-{attempt}"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
