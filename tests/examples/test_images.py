"""examples/images as its users run it: workers and the trainer killed, it ends with the same weights."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_SECONDS, until
from tests.processes import signal_process

IMAGES = Path(__file__).resolve().parents[2] / "examples" / "images"
STEPS = 40


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, str(IMAGES / "train.py"), "--folder", str(folder.parent / "pictures")),
            *("--pictures", "40", "--steps", str(STEPS), *options),
        ],
        env={"PATH": os.environ["PATH"], "ALLOT_CHECKPOINT_DIR": str(folder), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_whoever_is_killed_it_ends_with_the_same_weights(tmp_path: Path) -> None:
    undisturbed, _ = start(tmp_path / "undisturbed", "--workers", "1").communicate(timeout=PATIENCE_SECONDS)
    expected = undisturbed.splitlines()[-1]
    assert expected.startswith(f"done after {STEPS} steps: ")

    disturbed = start(tmp_path / "disturbed", "--step-seconds", "0.2")
    assert disturbed.stdout is not None
    workers = disturbed.stdout.readline().removeprefix("workers: ").split()
    progress = tmp_path / "disturbed" / "progress.jsonl"
    until(
        lambda: disturbed.poll() is not None or (progress.exists() and progress.stat().st_size),
        "its progress",
    )
    assert signal_process(int(workers[0]))
    disturbed.terminate()
    output, _ = disturbed.communicate(timeout=PATIENCE_SECONDS)
    assert disturbed.returncode == 128 + signal.SIGTERM, output
    again = start(tmp_path / "disturbed")
    output, _ = again.communicate(timeout=PATIENCE_SECONDS)
    assert again.returncode == 0, output
    assert "going on from step" in output
    assert output.splitlines()[-1] == expected
