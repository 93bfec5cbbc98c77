"""examples/plain as its users run it: stopped and killed at any moment, it ends with the same line."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.patience import PATIENCE_SECONDS, until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS = 200
INTERRUPTIONS = 5
STOPPED_BY_SIGTERM = 128 + signal.SIGTERM


def run_plain(folder: Path, attempt: int, *options: str, steps: int = STEPS) -> subprocess.Popen[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "ALLOT_ATTEMPT": str(attempt),
        "ALLOT_CHECKPOINT_DIR": str(folder),
        "ALLOT_PROGRESS": str(progress_of(folder, attempt)),
    }
    command = [sys.executable, str(EXAMPLES / "plain" / "train.py"), "--steps", str(steps), *options]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def progress_of(folder: Path, attempt: int) -> Path:
    return folder.with_name(f"{folder.name}-progress-{attempt}")


def lines_of(folder: Path, attempt: int) -> list[dict[str, float]]:
    path = progress_of(folder, attempt)
    # A killed process may leave half a line.
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def newest_step(folder: Path) -> int:
    """Return the step of the newest whole checkpoint; 0: there is none."""
    # Not by `glob`, which fails when a folder goes away meanwhile.
    parts = [Path(parent) for parent, _, names in os.walk(folder) if "manifest.json" in names]
    return max((int(part.parent.name) for part in parts if "writing" not in part.parts), default=0)


def test_stopped_and_killed_at_random_moments_it_ends_with_the_same_line(tmp_path: Path) -> None:
    undisturbed = run_plain(tmp_path / "undisturbed", 1)
    expected, _ = undisturbed.communicate(timeout=PATIENCE_SECONDS)
    assert undisturbed.returncode == 0, expected

    chance = random.Random(4)
    folder = tmp_path / "disturbed"
    attempt = saved = interruptions = 0
    by: set[int] = set()
    while interruptions < INTERRUPTIONS or len(by) < 2:
        attempt += 1
        # Slow enough that it is far from its end when its signal comes.
        process = run_plain(folder, attempt, "--step-seconds", "0.05", "--every-seconds", "0.03")
        step = saved + chance.randrange(2, 12)
        until(lambda: newest_step(folder) >= step or process.poll() is not None)  # noqa: B023
        number = chance.choice([signal.SIGTERM, signal.SIGKILL])
        process.send_signal(number)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        told = [int(line["step"]) for line in lines_of(folder, attempt)]
        assert told == sorted(told), "progress goes backward within an attempt"
        if saved and told:
            # Told at once, and by it the platform knows what the attempt before had lost.
            assert lines_of(folder, attempt)[0]["restored_step"] == told[0] == saved
        interruptions += 1
        by.add(number)
        assert process.returncode in (-number, 128 + number), output
        saved = newest_step(folder)
        if number == signal.SIGTERM:
            assert process.returncode == STOPPED_BY_SIGTERM
            assert told[-1] == saved, "a stop loses nothing"
            assert f"stopped at step {saved}\n" in output
    last = run_plain(folder, attempt + 1, "--every-seconds", "0.03")
    output, _ = last.communicate(timeout=PATIENCE_SECONDS)
    assert last.returncode == 0, output
    assert output.splitlines()[-1] == expected.splitlines()[-1]
    kept = list((folder / "checkpoints").glob("*/*"))
    assert len(kept) == 2, "what the killed ones left is removed"
    assert len(list((folder / "claims").iterdir())) <= 3
    assert not list(folder.glob("writing/*/*"))


def test_a_finished_run_that_is_started_again_is_finished_at_once(tmp_path: Path) -> None:
    first, again = (
        run_plain(tmp_path / "folder", number, steps=50).communicate(timeout=PATIENCE_SECONDS)[0]
        for number in (1, 2)
    )
    assert "going on from step 50" in again
    assert again.splitlines()[-1] == first.splitlines()[-1]


def test_without_the_platform_all_is_in_the_folder_it_was_started_in(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "plain" / "train.py"), "--steps", "30"]
    for _ in range(2):
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stderr == "allot.training: going on from step 30\n"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]
    assert (tmp_path / "checkpoints" / "progress.jsonl").exists()


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("*/*.yaml")), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_each_specification_names_a_script_that_is_there(path: Path) -> None:
    specification = yaml.safe_load(path.read_text())
    for task in specification.get("tasks", [specification]):
        command = task["command"]
        line = command if isinstance(command, str) else " ".join(command)
        (script,) = re.findall(r"\$ALLOT_EXAMPLES/([\w/.]+)", line)
        assert (EXAMPLES / script).is_file()
