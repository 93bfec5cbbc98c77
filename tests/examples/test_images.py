"""examples/images as its users run it: workers and the trainer killed, it ends with the same weights."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
    undisturbed, _ = start(tmp_path / "undisturbed", "--workers", "1").communicate()
    expected = undisturbed.splitlines()[-1]
    assert expected.startswith(f"done after {STEPS} steps: ")

    disturbed = start(tmp_path / "disturbed", "--step-seconds", "0.2")
    assert disturbed.stdout is not None
    workers = disturbed.stdout.readline().removeprefix("workers: ").split()
    progress = tmp_path / "disturbed" / "progress.jsonl"
    while not progress.exists() or not progress.stat().st_size:
        assert disturbed.poll() is None
        time.sleep(0.01)
    os.kill(int(workers[0]), signal.SIGKILL)
    disturbed.terminate()
    output, _ = disturbed.communicate()
    assert disturbed.returncode == 128 + signal.SIGTERM, output
    again = start(tmp_path / "disturbed")
    output, _ = again.communicate()
    assert again.returncode == 0, output
    assert "going on from step" in output
    assert output.splitlines()[-1] == expected
